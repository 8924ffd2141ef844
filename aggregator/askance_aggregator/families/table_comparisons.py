"""Comparisons of a table's levels: one law that bounds all pairs, or the pairs themselves."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.comparisons import (
    Atom,
    Comparison,
    Comparisons,
    TwoSymbols,
    merged,
)
from askance_client.randomizers.channel import Table
from askance_client.randomizers.coins import COIN_SPACE

MAX_PAIR_LEVELS = 33  # with more, a table has over a thousand pairs to be accounted one by one
_NO_GAIN = 1.0001  # of the index: a bound of all pairs that is so close to the worst pair's
_TRIED_PAIRS = 1 << 12  # with the greatest indices, for the lower end
_KEPT = 2  # comparisons for the lower end, beside those with the others at the worst pair's levels

_Level = tuple[int, Sequence[int]]
"""Number of a level, and its row."""


@lru_cache(maxsize=16)  # a plan asks at many numbers of answers; 720 levels take seconds
def table_comparisons(table: Table) -> Comparisons | TwoSymbols:
    """Reduce a table.

    Columns in proportion are one symbol, and equal rows one level. A table of two symbols is a bit.
    Else one law bounds all pairs (`spread_pair`): of staircase tables, whose columns have two
    values in one ratio, it is the law of a pair. Where the worst pair's index is less and there are
    few levels, all pairs are given, the greatest index first. The index of a comparison is
    sum (a - b)^2 / c, which alone decides for large batches; it selects, and proves nothing.
    """
    every = list(zip(*merged_columns(table), strict=True))
    if len(every[0]) == 2:
        first = [row[0] for row in every]
        return TwoSymbols(max(first), min(first), COIN_SPACE)
    rows = dict(reversed([(row, level) for level, row in enumerate(every)]))
    if len(rows) == 1:
        same = merged([Atom(1, 1, 1)], 1, "all levels are alike")
        return Comparisons([same], [same])
    columns = list(zip(*rows, strict=True))
    masses = np.array([[mass / COIN_SPACE for mass in row] for row in rows])
    pairs, indices = _ordered_pairs(masses)
    named = [(level, row) for row, level in rows.items()]
    bound = spread_pair(columns)
    upper = [bound]
    if len(rows) <= MAX_PAIR_LEVELS and bound.index > _NO_GAIN * indices[0]:
        least = ("any others", [min(column) for column in columns])
        upper = [_compared(named[x], named[y], least) for x, y in pairs.tolist()]
    tried = pairs[:_TRIED_PAIRS]
    squares = (masses[tried[:, 0]] - masses[tried[:, 1]]) ** 2
    attained = squares @ (1 / masses).T
    best = np.argsort(-attained, axis=None, kind="stable")[:_KEPT].tolist()
    x, y = pairs[0].tolist()
    triples = [(*tried[at // len(rows)].tolist(), at % len(rows)) for at in best]
    lower = [
        _compared(named[x], named[y], (f"others at {named[at][0]}", named[at][1]))
        for x, y, at in dict.fromkeys((*triples, (x, y, x), (x, y, y)))
    ]
    return Comparisons(upper, lower)


def merged_columns(table: Table) -> list[tuple[int, ...]]:
    """Add up the columns that are in proportion."""
    sums: dict[tuple[int, ...], int] = {}
    for column in zip(*table, strict=True):
        common = gcd(*column)
        shape = tuple(entry // common for entry in column)
        sums[shape] = sums.get(shape, 0) + common
    return [tuple(entry * common for entry in shape) for shape, common in sums.items()]


def spread_pair(columns: Sequence[Sequence[int]]) -> Comparison:
    """Bound all pairs of levels, given the columns of a table; their order does not matter.

    Each level has 1 - sum m to give out to columns beyond their least masses m, and a column takes
    (r - 1) m of it at most, r its greatest ratio. The bound is a law of two levels that fill the
    columns of the greatest ratios in turn, and share none; where there is not so much mass, all
    columns are given the greatest ratio of all. Proof: docs/math/shuffled_families.md section 5.
    """
    left = COIN_SPACE - sum(map(min, columns))
    ordered = sorted(columns, key=lambda column: Fraction(max(column), min(column)), reverse=True)
    filled: list[tuple[Fraction, Fraction]] = []  # ratio, and the least mass that is filled
    spread = Fraction(left)
    for column in ordered:
        gain = max(column) - min(column)
        share = min(spread / gain, Fraction(1)) if gain else Fraction(0)
        if share:
            filled.append((Fraction(max(column), min(column)), share * min(column)))
        spread -= share * gain
    rest = Fraction(COIN_SPACE - left)
    shared = 2 * sum(mass for _, mass in filled) - rest
    if shared > 0:
        ratio = filled[0][0]
        mass = left / (ratio - 1)
        shared = max(2 * mass - rest, Fraction(0))
        filled = [(ratio, mass - shared)]
    atoms = [(shared * filled[0][0], shared * filled[0][0], shared)] if shared > 0 else []
    for ratio, mass in filled:
        atoms += [(ratio * mass, mass, mass), (mass, ratio * mass, mass)]
        rest -= 2 * mass
    rest -= max(shared, Fraction(0))
    atoms.append((rest, rest, rest))
    unit = lcm(*(part.denominator for atom in atoms for part in atom))
    whole = (Atom(*(int(part * unit) for part in atom)) for atom in atoms)
    return merged(whole, COIN_SPACE * unit, "any two levels, any others")


def _ordered_pairs(masses: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Order all pairs of two levels by their index beside the column minima, the greatest first."""
    products = (masses / masses.min(axis=0)) @ masses.T
    own = np.diag(products)
    index = own[:, np.newaxis] + own - 2 * products
    np.fill_diagonal(index, -1)
    order = np.argsort(-index, axis=None, kind="stable")[: -len(masses)]
    return np.stack(np.unravel_index(order, index.shape), axis=1), index.ravel()[order]


def _compared(record: _Level, other: _Level, rest: tuple[str, Sequence[int]]) -> Comparison:
    atoms = (Atom(*masses) for masses in zip(record[1], other[1], rest[1], strict=True))
    population = f"level {record[0]} against {other[0]}, {rest[0]}"
    return merged(atoms, COIN_SPACE, population)
