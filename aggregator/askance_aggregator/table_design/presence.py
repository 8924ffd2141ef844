"""Tables for the mean of a number over those users who have one: a level more, for "missing".

A symbol y has two scores: a_y, whose mean is the number (0 if it is missing), and b_y, whose mean
is 1 for a number and 0 if it is missing. With A and B the means of both over all reports, A/B
estimates the mean m over the users who have the number: its error is that of the mean of
a_y - m b_y, whose expectation is 0, over the share of users who have it. So a table is worth
E[(a_Y - m b_Y)^2], for the worst m in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, expm1

import numpy as np

from askance_aggregator.families import TableFamily
from askance_aggregator.families.fitting import check_positive
from askance_aggregator.table_design.integers import integer_table
from askance_aggregator.table_design.presence_programme import PresenceTerms, Reals, refined
from askance_aggregator.table_design.recorded_optima import recorded_optimum
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.randomizers import Channel

MAX_PRESENCE_NANO_NATS = 12 * NANO_NATS_PER_NAT
"""Above it the table of 12 nats answers. For the worst population no table is better by more than
one part in 10^4; for a sample or a prior rounding onto `NUMBERS` levels is most of the variance."""

LEAST_SOLVED_NANO_NATS = NANO_NATS_PER_NAT // 1000
"""Below it the table of this budget is used, mixed with a table without information until its
ratios fit: the linear program's coefficients 1 and e^eps are too close for the solver."""

NUMBERS = 17
"""Levels that are numbers, where more than the worst population counts: random rounding onto them
adds .0039 to a conditional variance."""

_POPULATION_SLOPES = (-1.0, -0.5, 0.0, 0.5, 1.0)
_SIDE = 0.05  # of the figures of other populations than the worst, as part of what is minimised
_PRIOR_CAP = 2.5  # of the second moments beside a prior's, in units of C^2
_PLACES = 1 << 48  # of a score


@dataclass(frozen=True, slots=True)
class PresenceTable:
    """A table whose last level is "missing", with two scores a symbol.

    Privacy: that of the channel, which is exact and at most the budget it was designed for: between
    two numbers, and between a number and "missing".
    Utility: the scores' means are exact at -1, at 1 and at "missing"; at the other levels they are
    off by what the integers were rounded.

    Args:
        channel: the integers.
        numbers: a_y, one a symbol.
        presences: b_y, one a symbol.
    """

    channel: Channel
    numbers: tuple[Fraction, ...]
    presences: tuple[Fraction, ...]

    def figure(self, mean: Fraction) -> tuple[Fraction, ...]:
        """Return E[(a_Y - mean b_Y)^2] of each level."""
        scores = [a - mean * b for a, b in zip(self.numbers, self.presences, strict=True)]
        family = TableFamily(self.channel)
        return tuple(family.second_moment(level, scores) for level in range(self.channel.levels))


@dataclass(frozen=True, slots=True)
class PresentPopulation:
    """The worst population: two numbers, -1 and 1, on which Duchi's bit is best, and "missing"."""

    numbers = 2

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
    known = recorded_optimum(used) if isinstance(objective, PresentPopulation) else None
    table, scores = solved_presence(used, objective) if known is None else known
    if used < LEAST_SOLVED_NANO_NATS:
        table, scores = _flattened(table, scores, expm1(used / NANO_NATS_PER_NAT))
    channel = integer_table(table, scores[:, 0].tolist(), used)
    return PresenceTable(channel, *_covering(TableFamily(channel), scores))


def solved_presence(nano: int, objective: PresenceObjective) -> tuple[Reals, Reals]:
    """Solve for the table of floats, shape (levels, symbols), and its scores, (symbols, 2)."""
    ratio = exp(max(nano, LEAST_SOLVED_NANO_NATS) / NANO_NATS_PER_NAT)
    return refined(objective.terms(((ratio + 1) / (ratio - 1)) ** 2), ratio)


def _flattened(table: Reals, scores: Reals, excess: float) -> tuple[Reals, Reals]:
    """Mix a table with its mean row until no ratio is above 1 + excess.

    At small epsilon the best table is a constant plus epsilon times a matrix that does not depend
    on epsilon, to first order; the scores grow as the part of the table shrinks.

    Args:
        table: shape (levels, symbols), every symbol with a chance.
        scores: shape (symbols, 2).
        excess: e^eps - 1.
    """
    centre = table.mean(axis=0)
    low, high = table.min(axis=0) - centre, table.max(axis=0) - centre
    part = float(np.min(centre * excess / (high - (1 + excess) * low)))
    return centre + part * (table - centre), (scores - (1 - part) * centre @ scores) / part


def _covering(
    family: TableFamily, scores: Reals
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """Move the scores so that both means are exact at the two ends and at "missing".

    With g = (a, b, 1) the means of three levels are a 3 x 3 matrix; the new scores are those
    combinations of the old ones and a constant that have the means wanted there.
    """
    plain = [
        [Fraction(round(value * _PLACES), _PLACES) for value in column]
        for column in scores.T.tolist()
    ]
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
