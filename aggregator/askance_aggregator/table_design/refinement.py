"""Refinement of decode values: alternately the best table for them, and better ones for it."""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np

from askance_aggregator.table_design.intervals import best_prices
from askance_aggregator.table_design.objectives import Terms, Vector
from askance_aggregator.table_design.programme import SYMBOLS, Solution, solve
from askance_aggregator.table_design.windows import solve_windows

CLOSE = 2e-5
"""The gap to the lower bound, of the bound, at which no better values are looked for."""

MAX_STEPS = 24

_START = 64  # values of either sign
_KEPT = 64  # values from one step to the next; optima on 33 levels use up to 49
_REACH = 1.5  # in units of C: optima at .25 to 8 nats use values up to 1.29 C
_SHORT_INTERVALS = exp(4)  # e^eps beyond which a symbol is likely at few levels
_UNUSED = 1e-10  # of a symbol's greatest probability
_SAME = 1e-9  # values nearer to each other than this, in units of C, are one


class Refined(NamedTuple):
    """The best table found, of floats, and the best lower bound met on the way."""

    solution: Solution
    lower_bound: float


def by_windows(terms: Terms, ratio: float) -> bool:
    """Return whether a table is made of windows of levels, and so may have up to 720."""
    return bool(terms.rise) and terms.symmetric and ratio > _SHORT_INTERVALS


def refine(terms: Terms, ratio: float) -> Refined:
    """The best table that fits the wire, on the terms' grid.

    Utility: starts from equally spaced values; each step keeps the cheapest at the prices found and
    adds the cheapest of every interval, until the figure is within CLOSE of the bound. A table of
    more symbols than fit has its nearest values joined and is solved again for what is left, which
    costs about 10^-5 of the figure at most where it was tried.

    Args:
        terms: the objective, on its grid.
        ratio: e^eps.

    Raises:
        InvalidParameter: the solver finds no table.
    """
    if by_windows(terms, ratio):
        return _by_windows(terms, ratio)
    duchi = (ratio + 1) / (ratio - 1)
    most = SYMBOLS // 2 if terms.symmetric else SYMBOLS
    # Duchi's two values make sure that there is a table.
    needed = np.array([duchi]) if terms.symmetric else np.array([-duchi, duchi])
    start = np.linspace(0.0 if terms.symmetric else -_REACH * duchi, _REACH * duchi, _START)
    values = _apart(np.concatenate([needed, start]), duchi)
    bound = 0.0  # second moments and variances are never below
    for _ in range(MAX_STEPS):
        solution = solve(terms, values, ratio)
        bound = max(bound, solution.dual.lower_bound(terms, ratio))
        if solution.figure - bound <= CLOSE * bound:
            break
        better = solution.dual.best_columns(terms, ratio)
        added = _variables(better.values[better.costs < 0], terms)
        # What is used costs 0; what is nearly as cheap keeps the prices from swinging back.
        cheapest = np.argsort(solution.dual.cheapest_at(terms, ratio, values).costs)[:_KEPT]
        values = _apart(np.concatenate([needed, values[cheapest], added]), duchi)
    used = _used(solution, terms)
    if len(used) > most:
        joined = _joined(used, _masses(solution, used), most - len(needed))
        solution = solve(terms, _apart(np.concatenate([needed, joined]), duchi), ratio)
    return Refined(_trimmed(solution), bound)


def _by_windows(terms: Terms, ratio: float) -> Refined:
    """Return the best table with a window per symbol, and about as many symbols as levels."""
    priced = best_prices(terms, ratio)
    sent = priced.masses > _UNUSED
    most = max(len(terms.grid), SYMBOLS) // 2 - 1
    joined = _joined(priced.values[sent], priced.masses[sent], most)
    values = _apart(np.append(joined, (ratio + 1) / (ratio - 1)), 1.0)
    solution = solve_windows(terms, values, ratio, priced.dual)
    bounds = (dual.lower_bound(terms, ratio) for dual in (priced.dual, solution.dual))
    return Refined(_trimmed(solution), max(0.0, *bounds))


def _used(solution: Solution, terms: Terms) -> Vector:
    return _variables(solution.values[solution.table.max(axis=0) > _UNUSED], terms)


def _variables(values: Vector, terms: Terms) -> Vector:
    """The values that the program has variables for."""
    return values[values >= 0] if terms.symmetric else values


def _masses(solution: Solution, used: Vector) -> Vector:
    """Compute each value's frequency, averaged over levels."""
    return np.asarray(solution.table.mean(axis=0)[np.isin(solution.values, used)])


def _trimmed(solution: Solution) -> Solution:
    """Remove the symbols that are never sent."""
    kept = solution.table.max(axis=0) > _UNUSED
    return solution._replace(table=solution.table[:, kept], values=solution.values[kept])


def _apart(values: Vector, scale: float) -> Vector:
    """In order, one of each group of values that are the same; the first ones given stay."""
    kept: list[float] = []
    for value in values.tolist():
        if all(abs(value - other) > _SAME * scale for other in kept):
            kept.append(value)
    return np.sort(np.array(kept))


def _joined(values: Vector, masses: Vector, most: int) -> Vector:
    """Merge to at most this many: join the two neighbours of least joint spread, again (Ward)."""
    order = np.argsort(values)
    at, mass = values[order], np.maximum(masses[order], _UNUSED)
    while len(at) > most:
        together = mass[1:] + mass[:-1]
        first = int(np.argmin(mass[1:] * mass[:-1] / together * np.diff(at) ** 2))
        pair = slice(first, first + 2)
        at[first] = at[pair] @ mass[pair] / together[first]
        mass[first] = together[first]
        at, mass = np.delete(at, first + 1), np.delete(mass, first + 1)
    return at
