"""Tables for the mean of a number over those users who have one: a level more, for "missing".

A symbol y has two scores: a_y, whose mean is the number (0 if it is missing), and b_y, whose mean
is 1 for a number and 0 if it is missing. With A and B the means of both over all reports, A/B
estimates the mean m over the users who have the number: its error is that of the mean of
a_y - m b_y, whose expectation is 0, over the share of users who have it. So a table is worth
E[(a_Y - m b_Y)^2], for the worst m in [-1, 1].

The linear program of a table with a level for "missing", and the search for its symbols.

Variables are a table's entries Q[y, i] and a floor w_y a symbol; constraints are rows that sum to
1, both means of every level, and w_y <= Q[y, i] <= e^eps w_y. Its prices say what a symbol with any
two scores (a, b) and any likelihoods r_i in [1, e^eps] would cost: sum_i r_i c_i(a, b), each c_i a
quadratic. Symbols are searched from many starts, alternately by the likelihoods that are the
cheapest for the scores and by the scores that are the cheapest for the likelihoods. A search may
miss a symbol, so no bound on other tables follows from it.

Source: the linear program over finite tables of Kairouz, Oh, Viswanath 2016.

A mean over a bounded number is the first study of many users, and the import of the solver and its
search take half of the start of a small simulation: for the worst population, and for the users at
hand, what they find is recorded for a grid of budgets (`recorded`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import exp, expm1, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import TableFamily
from askance_aggregator.families.fitting import check_positive
from askance_aggregator.table_design.integers import integer_table
from askance_aggregator.table_design.programme import SYMBOLS
from askance_aggregator.table_design.recorded import LITTLE, PLACES, neighbours, recorded_optimum
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Channel

MAX_PRESENCE_NANO_NATS = 12 * NANO_NATS_PER_NAT
"""Above it the table of 12 nats answers. For the worst population no table is better by more than
one part in 10^4; for a sample or a prior rounding onto `NUMBERS` levels is most of the variance."""

LEAST_SOLVED_NANO_NATS = NANO_NATS_PER_NAT // 1000
"""Below it the table of this budget is used, mixed with a table without information until its
ratios fit: the linear program's coefficients 1 and e^eps are too close for the solver."""

TWO_ENDS = 2
"""Levels that are numbers, of the worst population: the ends of the range."""

NUMBERS = 17
"""Levels that are numbers, where more than the worst population counts: random rounding onto them
adds .0039 to a conditional variance."""

_POPULATION_SLOPES = (-1.0, -0.5, 0.0, 0.5, 1.0)
_SIDE = 0.05  # of the figures of other populations than the worst, as part of what is minimised
_PRIOR_CAP = 2.5  # of the second moments beside a prior's, in units of C^2


@dataclass(frozen=True, slots=True)
class PresenceTable:
    """A table whose last level is "missing", with two scores a symbol.

    Privacy: that of the channel, which is exact and at most the budget it was designed for: between
    two numbers, and between a number and "missing".
    Utility: the scores' means are exact at -1, at 1 and at "missing"; at the other levels they are
    off by what the integers were rounded.

    Args:
        numbers: a_y, one a symbol.
        presences: b_y, one a symbol.
    """

    channel: Channel
    numbers: tuple[Fraction, ...]
    presences: tuple[Fraction, ...]

    def figure(self, mean: Fraction) -> tuple[Fraction, ...]:
        """Return E[(a_Y - mean b_Y)^2] of each level."""
        scores = [a - mean * b for a, b in zip(self.numbers, self.presences, strict=True)]
        return TableFamily(self.channel).every_second_moment(scores)

    def moments(self) -> tuple[tuple[Fraction, Fraction, Fraction], ...]:
        """Return E[a_Y^2], E[a_Y b_Y] and E[b_Y^2] of each level."""
        one, two = self.figure(Fraction(1)), self.figure(Fraction(-1))
        squares = self.figure(Fraction(0))
        return tuple(
            (square, (minus - plus) / 4, (minus + plus) / 2 - square)
            for square, plus, minus in zip(squares, one, two, strict=True)
        )


@dataclass(frozen=True, slots=True)
class PresentPopulation:
    """The worst population: two numbers, -1 and 1, on which Duchi's bit is best, and "missing"."""

    numbers = TWO_ENDS
    name = "present-population"

    def terms(self, duchi: float) -> PresenceTerms:
        """Populations of the two ends with mean m, for each slope m; "missing" counts no less."""
        slopes = np.array(_POPULATION_SLOPES)
        shares = np.zeros((len(slopes) + 2, 3, len(slopes)))
        for place, mean in enumerate(_POPULATION_SLOPES):
            shares[place, :2, place] = (1 - mean) / 2, (1 + mean) / 2
        shares[-2, 2, 0] = shares[-1, 2, -1] = 1.0
        rows, weights = len(shares), _SIDE * (shares[0] + shares[-3] + shares[-2] + shares[-1])
        grid = np.array([-1.0, 1.0])
        return PresenceTerms(grid, slopes, shares, np.zeros(rows), np.ones(rows), weights)


@dataclass(frozen=True, slots=True)
class PresentSample:
    """The worst users at hand: their mean conditional variance, at their own mean."""

    numbers = NUMBERS
    name = "present-sample"

    def terms(self, duchi: float) -> PresenceTerms:
        """For each slope m: users at m, or of mean m at an end and at any level across m."""
        grid, slopes = np.linspace(-1.0, 1.0, self.numbers), np.array(_POPULATION_SLOPES)
        shares, caps = [], []
        for place, mean in enumerate(_POPULATION_SLOPES):
            for level, number in enumerate(grid.tolist()):
                end = 0 if number > mean else self.numbers - 1
                part = 1.0 if number == mean else (mean - grid[end]) / (number - grid[end])
                row = np.zeros((self.numbers + 1, len(slopes)))
                row[end, place] += 1 - part
                row[level, place] += part
                shares.append(row)
                caps.append(part * (number - mean) ** 2 + (1 - part) * (grid[end] - mean) ** 2)
        for place in (0, -1):
            row = np.zeros((self.numbers + 1, len(slopes)))
            row[-1, place] = 1.0
            shares.append(row)
            caps.append(0.0)
        every = np.array(shares)
        weights = _SIDE * (every[-2] + every[-1])
        return PresenceTerms(grid, slopes, every, np.array(caps), np.ones(len(caps)), weights)


@dataclass(frozen=True, slots=True)
class PresentPrior:
    """A prior on the numbers: the moment at its own mean, with all others capped.

    Args:
        weights: of the levels that are numbers, `NUMBERS` of them, which sum to 1.
    """

    weights: tuple[Fraction, ...]

    numbers = NUMBERS
    name = ""  # no optimum is recorded

    def terms(self, duchi: float) -> PresenceTerms:
        """The prior's moment and that of "missing" are what is minimised."""
        grid = np.linspace(-1.0, 1.0, self.numbers)
        weights = np.array([float(weight) for weight in self.weights])
        capped = PresentSample().terms(duchi)
        slopes = np.append(capped.slopes, weights @ grid)
        shares = np.zeros((len(capped.caps) + 2, self.numbers + 1, len(slopes)))
        shares[:-2, :, :-1] = capped.shares
        shares[-2, :-1, -1] = weights
        shares[-1, -1, -1] = 1.0
        caps = np.append(capped.caps + _PRIOR_CAP * duchi, [0.0, 0.0])
        rises = np.append(np.zeros(len(capped.caps)), [1.0, 1.0])
        weights = np.zeros((self.numbers + 1, len(slopes)))
        return PresenceTerms(grid, slopes, shares, caps, rises, weights)


PresenceObjective = PresentPopulation | PresentSample | PresentPrior


@lru_cache(maxsize=64)
def design_presence(nano: int, objective: PresenceObjective) -> PresenceTable:
    """The best table found for the mean over those users who have the number.

    Privacy: pure eps-LDP, replace-one, with eps at most `nano`, exactly: also between a number and
    "missing".
    Utility: for the worst population n x the variance is 1.83, 1.20, 1.08, 1.02 and 1.0001 times
    C^2 at .1, 1, 2, 4 and 9 nats, over the squared share of users who have the number; C^2 is the
    least of all randomizers where it is known that no number is missing. No bound is proved for a
    table with "missing".

    Args:
        nano: nano-nats, > 0.
        objective: `PresentPopulation()`, `PresentSample()` or `PresentPrior(weights)`.

    Raises:
        InvalidParameter: nano is not positive, or the solver finds no table.
    """
    check_positive(nano)
    used = min(nano, MAX_PRESENCE_NANO_NATS)
    known = recorded_optimum(objective.name, used) if objective.name else None
    if known is not None:
        return PresenceTable(known.channel, *_covering(TableFamily(known.channel), known.scores))
    between = neighbours(objective.name, used) if objective.name else None
    near: list[Reals] = []
    if between is not None:
        lower, higher = (design_presence(n, objective) for n in (between.below, between.above))
        if between.cost(_worst(objective, lower), _worst(objective, higher)) < LITTLE:
            return lower
        if objective.numbers > TWO_ENDS:  # a search from a grid takes little for two
            near = [_reals(lower), _reals(higher)]
    table, scores = solved_presence(used, objective, near)
    if used < LEAST_SOLVED_NANO_NATS:
        table, scores = _flattened(table, scores, expm1(used / NANO_NATS_PER_NAT))
    channel = integer_table(table, scores[:, 0].tolist(), used)
    plain = [
        [Fraction(round(value * PLACES), PLACES) for value in each] for each in scores.T.tolist()
    ]
    return PresenceTable(channel, *_covering(TableFamily(channel), plain))


def solved_presence(
    nano: int, objective: PresenceObjective, near: Sequence[Reals] = (), slow: float | None = None
) -> tuple[Reals, Reals]:
    """Solve for the table of floats, shape (levels, symbols), and its scores, (symbols, 2).

    Args:
        nano: nano-nats, > 0.
        objective: what the table is for.
        near: scores of optima for other budgets, shape (symbols, 2), from which the search starts;
            none: it starts from a grid.
        slow: see `refined`.
    """
    ratio = exp(max(nano, LEAST_SOLVED_NANO_NATS) / NANO_NATS_PER_NAT)
    return refined(objective.terms(((ratio + 1) / (ratio - 1)) ** 2), ratio, near, slow)


def _reals(table: PresenceTable) -> Reals:
    """Return a table's scores as floats, shape (symbols, 2)."""
    pairs = zip(table.numbers, table.presences, strict=True)
    return np.array([(float(number), float(presence)) for number, presence in pairs])


def _worst(objective: PresenceObjective, table: PresenceTable) -> float:
    """Return what an objective minimises, of a table's integers, with the rounding of numbers."""
    terms = objective.terms(1.0)
    numbers, presences = _reals(table).T
    squares = (numbers[:, None] - np.outer(presences, terms.slopes)) ** 2
    moments = np.array(table.channel.table, dtype=np.float64) @ squares / COIN_SPACE
    figures = np.einsum("cis,is->c", terms.shares, moments) - terms.caps
    two = objective.numbers == TWO_ENDS  # whose variance by rounding is the population's
    rounding = 0.0 if two else 1 / (objective.numbers - 1) ** 2
    return float(figures.max()) + rounding


def _flattened(table: Reals, scores: Reals, excess: float) -> tuple[Reals, Reals]:
    """Mix a table with its mean row until no ratio is above 1 + excess."""
    # At small epsilon the best table is a constant plus epsilon times a matrix that does not depend
    # on epsilon, to first order; the scores grow as the part of the table shrinks. Every symbol has
    # a chance; the scores have shape (symbols, 2).
    centre = table.mean(axis=0)
    low, high = table.min(axis=0) - centre, table.max(axis=0) - centre
    part = float(np.min(centre * excess / (high - (1 + excess) * low)))
    return centre + part * (table - centre), (scores - (1 - part) * centre @ scores) / part


def _covering(
    family: TableFamily, plain: Sequence[Sequence[Fraction]]
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Move the scores so that both means are exact at the two ends and at "missing"."""
    # With g = (a, b, 1) the means of three levels are a 3 x 3 matrix; the new scores are those
    # combinations of the old ones and a constant that have the means wanted there.
    columns = [*plain, [Fraction(1)] * len(plain[0])]
    ends = (0, family.randomizer.levels - 2, family.randomizer.levels - 1)
    means = [family.moved_grid(column) for column in columns]
    matrix = [[mean[level] for mean in means] for level in ends]
    found = []
    for wanted in ((-1, 1, 0), (1, 1, 0)):
        parts = _solved(matrix, [Fraction(value) for value in wanted])
        found.append(
            tuple(
                sum((part * one for part, one in zip(parts, symbol, strict=True)), Fraction())
                for symbol in zip(*columns, strict=True)
            )
        )
    return found[0], found[1]


def _solved(matrix: Sequence[Sequence[Fraction]], wanted: Sequence[Fraction]) -> list[Fraction]:
    """Solve three equations by Cramer's rule."""
    whole = _determinant(matrix)
    parts = []
    for column in range(3):
        replaced = [
            [value if place == column else entry for place, entry in enumerate(row)]
            for row, value in zip(matrix, wanted, strict=True)
        ]
        parts.append(_determinant(replaced) / whole)
    return parts


def _determinant(rows: Sequence[Sequence[Fraction]]) -> Fraction:
    (a, b, c), (d, e, f), (g, h, i) = rows
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


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


def refined(
    terms: PresenceTerms, ratio: float, starts: Sequence[Reals] = (), slow: float | None = None
) -> tuple[Reals, Reals]:
    """Find a table for the terms that fits the wire; columns are within `ratio`, e^eps.

    Args:
        terms: the objective.
        ratio: e^eps.
        starts: scores from which the search starts; none: from a grid.
        slow: part of the figure that a step must gain; None: with many levels a thousandth, with
            few any.

    Returns:
        The table, shape (levels, symbols), and the scores (a, b), shape (symbols, 2).
    """
    reach = _REACH * (ratio + 1) / (ratio - 1)
    grid = np.array(list(product(*(np.linspace(-reach, reach, count) for count in _STARTS))))
    start = np.unique(np.vstack([np.round(each, 7) for each in starts]), axis=0) if starts else grid
    least = (_SLOW if terms.levels > _FEW_LEVELS else -np.inf) if slow is None else slow
    found, before = _solve(terms, start, ratio), np.inf
    for _ in range(_MAX_STEPS):
        used = found.used
        near = found.prices.cheapest(np.vstack([used, grid]), ratio, _FARTHEST * reach)
        costs = found.prices.totals(near, ratio)
        if before - found.figure < least * found.figure or costs.min() > -_CLOSE * found.figure:
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
