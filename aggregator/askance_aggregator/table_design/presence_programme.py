"""The linear program of a table with a level for "missing", and the search for its symbols.

Variables are a table's entries Q[y, i] and a floor w_y a symbol; constraints are rows that sum to
1, both means of every level, and w_y <= Q[y, i] <= e^eps w_y. Its prices say what a symbol with any
two scores (a, b) and any likelihoods r_i in [1, e^eps] would cost: sum_i r_i c_i(a, b), each c_i a
quadratic. Symbols are searched from many starts, alternately by the likelihoods that are the
cheapest for the scores and by the scores that are the cheapest for the likelihoods. A search may
miss a symbol, so no bound on other tables follows from it.

Source: the linear program over finite tables of Kairouz, Oh, Viswanath 2016.
"""

from __future__ import annotations

from itertools import product
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.table_design.programme import SYMBOLS
from askance_client.errors import InvalidParameter

Reals = NDArray[np.float64]

_EXACTLY = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_MAX_STEPS = 16
_CLOSE = 1e-4  # of the figure: what the cheapest symbol found would still gain
_SLOW = 1e-3  # of the figure: what a step gained, of a program with many levels
_FEW_LEVELS = 3
_STARTS = (13, 7)  # scores a and b from which symbols are searched
_REACH = 1.5  # of the starts, in units of C
_FARTHEST = 3.0  # of symbols, in units of the starts' reach: a flat quadratic has no least point
_ROUNDS = 12  # of a search
_KEPT = 40  # new symbols a step
_UNUSED = 1e-9  # of a symbol's greatest probability


class PresenceTerms(NamedTuple):
    """Objective: least V with sum over levels and slopes of shares x moments <= rises V + caps.

    To V the sum of weights x moments is added: of tables with nearly the same V the one is wanted
    that is better also where V is not decided. The moment of level i at slope m is
    E[(a_Y - m b_Y)^2 | i].

    Args:
        grid: shape (numbers,): the levels that are numbers, equally spaced from -1 to 1. One more
            level, the last, is "missing".
        slopes: shape (slopes,), in [-1, 1].
        shares: shape (constraints, numbers + 1, slopes), >= 0.
        caps: shape (constraints,).
        rises: shape (constraints,), 0 or 1.
        weights: shape (numbers + 1, slopes), >= 0.
    """

    grid: Reals
    slopes: Reals
    shares: Reals
    caps: Reals
    rises: Reals
    weights: Reals

    @property
    def levels(self) -> int:
        """Number of levels, "missing" included."""
        return len(self.grid) + 1


class _Prices(NamedTuple):
    """Price of a symbol: of each level a quadratic in its scores, each part of shape (levels,)."""

    squares: tuple[Reals, Reals, Reals]  # of a^2, -2 a b and b^2
    means: tuple[Reals, Reals]  # of -a and -b
    rows: Reals

    def costs(self, scores: Reals) -> Reals:
        """Shape (symbols, levels): the cost of a likelihood of 1."""
        a, b = scores[:, :1], scores[:, 1:]
        own, cross, other = self.squares
        found: Reals = own * a * a - 2 * cross * a * b + other * b * b
        return found - self.means[0] * a - self.means[1] * b - self.rows

    def cheapest(self, scores: Reals, ratio: float, farthest: float) -> Reals:
        """Search the scores of the cheapest symbols, within -+ `farthest`, from given scores."""
        for _ in range(_ROUNDS):
            likelihoods = np.where(self.costs(scores) < 0, ratio, 1.0)
            own, cross, other = (likelihoods @ part for part in self.squares)
            a, b = (likelihoods @ part / 2 for part in self.means)
            scale = np.maximum(own * other - cross * cross, 1e-12)
            vertex = np.stack([(a * other + b * cross) / scale, (b * own + a * cross) / scale], 1)
            scores = np.clip(vertex, -farthest, farthest)
        return scores

    def totals(self, scores: Reals, ratio: float) -> Reals:
        """Cost of each symbol with its cheapest likelihoods."""
        costs = self.costs(scores)
        return np.asarray(np.sum(np.where(costs < 0, ratio, 1.0) * costs, axis=1))


class _Optimum(NamedTuple):
    figure: float
    scores: Reals  # shape (symbols, 2)
    table: Reals  # shape (levels, symbols)
    prices: _Prices

    @property
    def kept(self) -> NDArray[np.bool_]:
        """True for the symbols that are ever sent."""
        return np.asarray(self.table.max(axis=0) > _UNUSED)

    @property
    def used(self) -> Reals:
        """Scores of the symbols that are ever sent."""
        return np.asarray(self.scores[self.kept])


def refined(terms: PresenceTerms, ratio: float) -> tuple[Reals, Reals]:
    """Find a table for the terms that fits the wire.

    Args:
        terms: the objective.
        ratio: e^eps.

    Returns:
        The table, shape (levels, symbols), and the scores (a, b), shape (symbols, 2).

    Raises:
        InvalidParameter: the solver finds no table.
    """
    reach = _REACH * (ratio + 1) / (ratio - 1)
    grid = np.array(list(product(*(np.linspace(-reach, reach, count) for count in _STARTS))))
    found, before = _solve(terms, grid, ratio), np.inf
    for _ in range(_MAX_STEPS):
        used = found.used
        near = found.prices.cheapest(np.vstack([used, grid]), ratio, _FARTHEST * reach)
        costs = found.prices.totals(near, ratio)
        slow = terms.levels > _FEW_LEVELS and before - found.figure < _SLOW * found.figure
        if slow or costs.min() > -_CLOSE * found.figure:
            break
        before = found.figure
        better = np.unique(np.round(near[costs < -_CLOSE / 100 * found.figure], 7), axis=0)
        order = np.argsort(found.prices.totals(better, ratio))[:_KEPT]
        found = _solve(terms, np.unique(np.vstack([used, better[order]]), axis=0), ratio)
    if len(found.used) > SYMBOLS:
        masses = found.table.mean(axis=0)
        found = _solve(terms, found.scores[np.sort(np.argsort(-masses)[:SYMBOLS])], ratio)
    return found.table[:, found.kept], found.used


def _solve(terms: PresenceTerms, scores: Reals, ratio: float) -> _Optimum:
    from scipy.optimize import linprog  # slow to import, and only needed here
    from scipy.sparse import csr_array, vstack

    levels, symbols = terms.levels, len(scores)
    cells = symbols * levels
    squares = (scores[:, :1] - scores[:, 1:] * terms.slopes) ** 2
    moments = np.einsum("cis,ys->cyi", terms.shares, squares).reshape(-1, cells)
    bounded = np.hstack([moments, np.zeros((len(moments), symbols)), -terms.rises[:, None]])
    floors = np.zeros(symbols)
    present = np.append(np.ones(levels - 1), 0.0)
    each = np.eye(levels)
    equal = np.vstack([np.kron(row, each) for row in (np.ones(symbols), *scores.T)])
    found = linprog(
        np.concatenate([np.einsum("is,ys->yi", terms.weights, squares).ravel(), floors, [1.0]]),
        A_ub=vstack([csr_array(bounded), *_ratios(levels, symbols, ratio)]).tocsr(),
        b_ub=np.concatenate([terms.caps, np.zeros(2 * cells)]),
        A_eq=csr_array(np.hstack([equal, np.zeros((len(equal), symbols + 1))])),
        b_eq=np.concatenate([np.ones(levels), np.append(terms.grid, 0.0), present]),
        method="highs-ds",
        options=_EXACTLY,
    )
    if found.status != 0:
        raise InvalidParameter(
            f"epsilon: expected another one, got {log(ratio):.6g} nats, for which no table for the"
            f" mean over the users who have a number is found on {levels} levels; or set"
            " missing=default"
        )
    paid = np.maximum(-found.ineqlin.marginals[: len(moments)], 0.0)
    by_slope = terms.weights + np.einsum("c,cis->is", paid, terms.shares)
    rows, a, b = np.split(np.asarray(found.eqlin.marginals), 3)
    own, cross, other = (by_slope @ terms.slopes**power for power in range(3))
    entries = np.asarray(found.x[:cells]).reshape(symbols, levels).T
    return _Optimum(float(found.fun), scores, entries, _Prices((own, cross, other), (a, b), rows))


def _ratios(levels: int, symbols: int, ratio: float) -> tuple[object, object]:
    """w_y - Q[y, i] <= 0 and Q[y, i] - e^eps w_y <= 0."""
    from scipy.sparse import csr_array

    cell = np.arange(levels * symbols)
    place = (np.tile(cell, 2), np.concatenate([cell, levels * symbols + cell // levels]))
    one = np.ones(len(cell))
    shape = (len(cell), levels * symbols + symbols + 1)
    return (
        csr_array((np.concatenate([-one, one]), place), shape=shape),
        csr_array((np.concatenate([one, -ratio * one]), place), shape=shape),
    )
