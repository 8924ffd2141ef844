"""Tables: tally, estimates by the exact left inverse, decode values, and randomized response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm
from operator import mul

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import family
from askance_aggregator.families.comparisons import (
    Atom,
    Comparison,
    Comparisons,
    TwoSymbols,
    merged,
)
from askance_aggregator.families.fitting import check_expressible, check_positive, greatest
from askance_aggregator.families.rates import InclusionRates
from askance_aggregator.numbers import plain_arguments
from askance_client.accounting import ratio_within
from askance_client.errors import InvalidParameter
from askance_client.randomizers.channel import MIN_SIDE, Channel, Table
from askance_client.randomizers.coins import COIN_SPACE

MAX_PAIR_LEVELS = 33  # with more, a table has over a thousand pairs to be accounted one by one
_NO_GAIN = 1.0001  # of the index: a bound of all pairs that is so close to the worst pair's
_TRIED_PAIRS = 1 << 12  # with the greatest indices, for the lower end
_KEPT = 2  # comparisons for the lower end, beside those with the others at the worst pair's levels

_Level = tuple[int, Sequence[int]]
"""Number of a level, and its row."""


@lru_cache(maxsize=16)  # a plan asks at many numbers of answers; 720 levels take seconds
def table_comparisons(table: Table) -> Comparisons | TwoSymbols:
    """Reduce a table."""
    # Columns in proportion are one symbol, and equal rows one level. A table of two symbols is a
    # bit. Else one law bounds all pairs (`spread_pair`): of staircase tables, whose columns have
    # two values in one ratio, it is the law of a pair. Where the worst pair's index is less and
    # there are few levels, all pairs are given, the greatest index first. The index of a comparison
    # is sum (a - b)^2 / c, which alone decides for large batches; it selects, and proves nothing.
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
    """Bound all pairs of levels, given the columns of a table; their order does not matter."""
    # Each level has 1 - sum m to give out to columns beyond their least masses m, and a column
    # takes (r - 1) m of it at most, r its greatest ratio. The bound is a law of two levels that
    # fill the columns of the greatest ratios in turn, and share none; where there is not so much
    # mass, all columns are given the greatest ratio of all. Proof: docs/math/shuffled_families.md
    # section 5.
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


_NO_LOSS = Fraction(1, 1 << 20)  # of a variance, for a bit in place of a table's symbols


@family.describes(Channel)
@dataclass(frozen=True, slots=True)
class TableFamily(family.Family[Channel]):
    """Aggregator's side of a table: tally, exact estimates and moments of decode values."""

    @property
    def text(self) -> str:
        table = self.randomizer.table
        if self.randomizer.levels == self.randomizer.symbols == 2 and table[0] == table[1][::-1]:
            return "randomized-response"
        return f"channel({self.randomizer.levels}, {self.randomizer.symbols})"

    @property
    def packs_bits(self) -> bool:
        """Return whether a report is one bit."""
        return self.randomizer.symbols == 2

    def inclusion(self, level: int) -> InclusionRates | None:
        """Rates of a level in a table of two levels whose symbols are one bit, or nearly so."""
        # Each of more than two symbols stands for the level that it is likelier at (`containing`
        # counts them); None if that would lose precision.
        sides = _sides(self.randomizer)
        if sides is None:
            return None
        own, other = (
            sum(row[symbol] for symbol in sides[level])
            for row in (self.randomizer.table[level], self.randomizer.table[1 - level])
        )
        return InclusionRates(Fraction(own, COIN_SPACE), Fraction(other, COIN_SPACE))

    def containing(self, counts: Sequence[int] | family.Counts, level: int) -> int:
        """Count the reports of a symbol that stands for the level."""
        sides = _sides(self.randomizer)
        return sum(int(counts[symbol]) for symbol in (sides[level] if sides else (level,)))

    @property
    def has_one_count(self) -> bool:
        """Return whether each symbol stands for one of two levels."""
        return _sides(self.randomizer) is not None

    def comparisons(self) -> Comparisons | TwoSymbols:
        """Compare levels; exact."""
        return table_comparisons(self.randomizer.table)

    def alphabet(self) -> Iterator[bytes]:
        """The symbols in order."""
        width = self.randomizer.width
        return (symbol.to_bytes(width, "big") for symbol in range(self.randomizer.symbols))

    def tally(self, reports: family.Reports) -> family.Counts:
        """Count the reports of each symbol."""
        self.check_reports(reports)
        if (
            self.randomizer.symbols == 2 and reports.max(initial=0) < 2
        ):  # ten times as fast as in general
            ones = np.count_nonzero(reports)
            return np.array([len(reports) - ones, ones], dtype=np.int64)
        symbols = reports[:, 0].astype(np.int64)
        for byte in range(1, self.randomizer.width):
            symbols = (symbols << 8) | reports[:, byte]
        counts = np.bincount(symbols, minlength=self.randomizer.symbols).astype(np.int64)
        if len(counts) > self.randomizer.symbols:
            raise InvalidParameter(
                f"reports are symbols in 0..{self.randomizer.symbols - 1}, "
                f"found {counts[self.randomizer.symbols :].sum()} others"
            )
        return counts

    def frequencies(self, counts: Sequence[int] | family.Counts, n: int) -> tuple[Fraction, ...]:
        """Apply the exact left inverse of the table to the symbols' shares."""
        plain = family.check_counts(counts, n, self.randomizer.symbols, n)
        return tuple(
            Fraction(sum(b * count for b, count in zip(row, plain, strict=True)), n)
            for row in _left_inverse(self.randomizer)
        )

    def frequency_variance(self) -> Fraction:
        """Return n times the conditional variance averaged over levels, for the worst truth."""
        # Unbiased: the squares of the means are one 1 and zeros.
        moments = self.second_moments(_left_inverse(self.randomizer))
        return Fraction(moments - 1, self.randomizer.levels)

    def second_moments(self, scores: Sequence[Sequence[Fraction]]) -> Fraction:
        """Return the sum over several decodings of E[values[Y]^2 | level], at the worst level."""
        moments = zip(*map(self.every_second_moment, scores), strict=True)
        return max(sum(level, Fraction()) for level in moments)

    def moved_grid(self, values: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """x'_i = sum_y values[y] T[i, y] / 2^64: what decoding expects at each level."""
        return self._means(values, range(self.randomizer.levels))

    def covering(self, values: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """Shift and scale decode values so that the moved grid runs from -1 to 1, exactly."""
        low, high = self._means(values, (0, self.randomizer.levels - 1))
        if low == high:
            raise InvalidParameter("the decode values do not tell the first level from the last")
        return tuple(Fraction(2 * Fraction(value) - low - high, high - low) for value in values)

    def bias(
        self, values: Sequence[Fraction | int], grid: Sequence[Fraction | int] | None = None
    ) -> Fraction:
        """The greatest distance of the moved grid from the grid that inputs are rounded to.

        `covering` makes the ends of the moved grid exact; by default inputs are rounded to equally
        spaced points from -1 to 1.
        """
        if grid is None:
            last = self.randomizer.levels - 1
            grid = [Fraction(2 * level - last, last) for level in range(self.randomizer.levels)]
        if len(grid) != self.randomizer.levels:
            raise InvalidParameter(f"a grid has {self.randomizer.levels} points, found {len(grid)}")
        moved = self.moved_grid(values)
        return max(abs(there - here) for there, here in zip(moved, grid, strict=True))

    def second_moment(self, level: int, values: Sequence[Fraction | int]) -> Fraction:
        """M2 = E[values[Y]^2 | level]: what counts for the mean of a population."""
        self.randomizer.check_level(level)
        return self._means([value * value for value in values], (level,))[0]

    def every_second_moment(self, values: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """Return `second_moment` of each level."""
        squares = [value * value for value in values]
        return self._means(squares, range(self.randomizer.levels))

    def conditional_variance(self, level: int, values: Sequence[Fraction | int]) -> Fraction:
        """E[values[Y]^2 | level] - x'^2: what counts for the mean of the sample at hand."""
        square = self.second_moment(level, values)
        (mean,) = self._means(values, (level,))
        return square - mean * mean

    def _means(
        self, values: Sequence[Fraction | int], levels: Iterable[int]
    ) -> tuple[Fraction, ...]:
        """Compute E[values[Y] | level] of several levels: sums of whole numbers, divided once."""
        if len(values) != self.randomizer.symbols:
            raise InvalidParameter(
                f"there are {self.randomizer.symbols} decode values, found {len(values)}"
            )
        unit = lcm(*(value.denominator for value in values))
        whole = [value.numerator * (unit // value.denominator) for value in values]
        rows = (self.randomizer.table[level] for level in levels)
        return tuple(Fraction(sum(map(mul, whole, row)), unit * COIN_SPACE) for row in rows)


@lru_cache(maxsize=64)
def _left_inverse(channel: Channel) -> tuple[tuple[Fraction, ...], ...]:
    sides = _sides(channel)
    if sides is None:
        return left_inverse(channel.table, COIN_SPACE)
    inverse = left_inverse(_bit(channel, sides), COIN_SPACE)
    side_of = {symbol: side for side, symbols in enumerate(sides) for symbol in symbols}
    return tuple(tuple(row[side_of[y]] for y in range(channel.symbols)) for row in inverse)


Sides = tuple[tuple[int, ...], tuple[int, ...]]
"""The symbols that stand for level 0, and those that stand for level 1."""


@lru_cache(maxsize=64)
def _sides(channel: Channel) -> Sides | None:
    """Divide the symbols of a table of two levels by the level that each is likelier at."""
    # None if the table has more levels, or if one bit a report has more variance than all its
    # symbols have. Dividing a symbol of a bit into several, in the same proportion at both levels
    # up to the rounding of integers, leaves the bit.
    if channel.levels != MIN_SIDE:
        return None
    if channel.symbols == MIN_SIDE:
        return (0,), (1,)
    zero, one = channel.table
    sides = (
        tuple(y for y in range(channel.symbols) if zero[y] > one[y]),
        tuple(y for y in range(channel.symbols) if zero[y] <= one[y]),
    )
    bit = _bit(channel, sides)
    if bit[0][0] == bit[1][0]:
        return None
    every = TableFamily(channel).second_moments(left_inverse(channel.table, COIN_SPACE))
    of_bit = TableFamily(Channel(bit)).second_moments(left_inverse(bit, COIN_SPACE))
    return sides if of_bit <= every * (1 + _NO_LOSS) else None


def _bit(channel: Channel, sides: Sides) -> Table:
    return tuple(tuple(sum(row[y] for y in side) for side in sides) for row in channel.table)


@plain_arguments
def randomized_response(nano: int) -> Channel:
    """Return the 2 x 2 table that keeps a bit with probability P / 2^64 and flips it otherwise.

    Privacy: pure eps-LDP, replace-one; P is the greatest integer with
    P <= e^(nano / 10^9) (2^64 - P), so the ratio P / (2^64 - P) is attained by both symbols. A flip
    always has a chance: P < 2^64.
    Utility: for a predicate (Warner), optimal at every eps; the estimated share has
    n x conditional variance e^eps / (e^eps - 1)^2. For a bounded real (Duchi's one bit), the value
    is first rounded at random onto the two ends of its range (`round_to_levels` with 2 levels, a
    coin of its own) and the bit is then reported; with C = (e^eps + 1) / (e^eps - 1) the decode
    values are `covering((-1, 1))` = (-C, C), which are unbiased exactly, and the second moment is
    C^2 whatever the value: the least that any randomizer has for its worst value.

    Args:
        nano: > 0, nano-nats; at most ln(2^64 - 1), about 44.36 nats.

    Raises:
        InvalidParameter: nano is zero, or greater than 64-bit coins can express.

    Source: Warner 1965; Duchi, Jordan and Wainwright 2018; Kairouz, Oh and Viswanath 2016.

    Example:
        >>> channel = ask.randomized_response(10**9)
        >>> round(channel.table[1][1] / 2**64, 6)
        0.731059
    """
    check_positive(nano)
    half = COIN_SPACE // 2
    truth = greatest(half, COIN_SPACE - 1, lambda kept: ratio_within(kept, COIN_SPACE - kept, nano))
    if truth is None:  # half of the coins over the other half is a ratio of 1
        raise InvalidParameter("no randomized response fits this epsilon")
    lie = COIN_SPACE - truth
    channel = Channel(((truth, lie), (lie, truth)))
    check_expressible(channel.loss, nano, lie == 1)
    return channel


@family.makes("randomized-response")
def _of_two_cells(cells: int, nano: int) -> Channel:
    """Return the randomized response of a bit, which has two cells."""
    if cells != 2:
        raise InvalidParameter(
            f"cells: expected 2 of randomized-response, got {cells} (see k-ary-response)"
        )
    return randomized_response(nano)


Matrix = tuple[tuple[int, ...], ...]


_WEIGHT_BITS = 32  # of a symbol's weight: to round it costs a variance less than 2^-60 of itself


def left_inverse(table: Matrix, scale: int) -> tuple[tuple[Fraction, ...], ...]:
    """B with sum_y B[v][y] * table[x][y] / scale = [v = x] for all levels v and x."""
    # A square table has one such B. A table with more symbols than levels has many; this is the
    # least-squares one with each symbol weighted by the inverse of its column's mass,
    # (table W table^T)^-1 table W. It has the least variance summed over levels for users who are
    # evenly at all levels, and symbols of equal likelihood ratios get equal scores, as if they were
    # one symbol: to divide a symbol costs nothing.
    levels, symbols = len(table), len(table[0])
    if levels > symbols:
        raise InvalidParameter(
            f"shares of {levels} levels cannot be told apart by {symbols} symbols"
        )
    if levels == symbols:
        identity = tuple(tuple(int(i == j) for j in range(levels)) for i in range(levels))
        solution, divisor = solve(table, identity)
        solution = [list(column) for column in zip(*solution, strict=True)]
    else:
        weighted = _weighted(table)
        gram = tuple(
            tuple(sum(a * b for a, b in zip(one, two, strict=True)) for two in table)
            for one in weighted
        )
        solution, divisor = solve(gram, weighted)
    return tuple(tuple(Fraction(entry * scale, divisor) for entry in row) for row in solution)


def _weighted(table: Matrix) -> Matrix:
    """Multiply each column by a whole number in proportion to the inverse of its sum."""
    # Any positive weights give a left inverse, so the numbers may be rounded.
    masses = [sum(column) for column in zip(*table, strict=True)]
    unit = max(masses) << _WEIGHT_BITS
    weights = [unit // mass for mass in masses]  # 2^32 or more each, so the rounding is relative
    return tuple(tuple(a * weight for a, weight in zip(row, weights, strict=True)) for row in table)


def solve(matrix: Matrix, right: Matrix) -> tuple[list[list[int]], int]:
    """(X, d) with matrix @ X = d * right, by fraction-free Gauss-Jordan elimination.

    Every division by the pivot before is exact, so the numbers stay minors of the system. A column
    is dropped once it is eliminated: its pivots all end as the same d.
    Source: E. H. Bareiss, Mathematics of Computation 22 (1968).
    """
    size = len(matrix)
    rows = [[*left, *values] for left, values in zip(matrix, right, strict=True)]
    before = 1
    for column in range(size):
        found = next((i for i in range(column, size) if rows[i][0]), None)
        if found is None:
            raise InvalidParameter("the levels' rows are linearly dependent: shares are not told")
        rows[column], rows[found] = rows[found], rows[column]
        pivot, *kept = rows[column]
        rows = [
            kept
            if i == column
            else [(pivot * a - factor * b) // before for a, b in zip(rest, kept, strict=True)]
            for i, (factor, *rest) in enumerate(rows)
        ]
        before = pivot
    return rows, before
