"""Tables that are designed for what a number's mean is wanted for, and how exact they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, sqrt

from askance_aggregator.estimation import (
    Decode,
    Deviations,
    bias_of,
    deviations,
    prior_points,
    prior_weights,
)
from askance_aggregator.families import TableFamily
from askance_aggregator.learners import PopulationMean, Question, SampleMean
from askance_aggregator.planning.tails import Failure, Tail
from askance_aggregator.table_design import (
    MAX_NANO_NATS,
    MIN_NANO_NATS,
    Conditional,
    DesignedTable,
    Minimax,
    Objective,
    Prior,
    design_sample,
    design_table,
    figure_of,
    rounding_variance,
)
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.randomizers import Channel

LEVELS = 33  # of a prior: random rounding onto them adds .00098 to a conditional variance
PRIOR_LEVELS = range(17, 42)  # where one of them is, all priors on up to 41 points are on levels
PRIOR_NANO_NATS = 8 * NANO_NATS_PER_NAT
WORTH_MOVING = Fraction(1, 2)  # part of the variance by rounding that must be saved


def objective_of(question: Question, levels: int) -> Objective:
    """Return the objective of a table for the question."""
    if isinstance(question.aim, PopulationMean):
        return Minimax()
    if isinstance(question.aim, SampleMean):
        return Conditional()
    return Prior(prior_weights(question, levels))


def designed_for(question: Question, nano_nats: int) -> DesignedTable | None:
    """The table that is best for the question's aim; None where no table is better than one bit."""
    # For the worst population no table is better (Duchi), and below 0.01 nats none is designed.
    # Beyond 16 nats (under a prior 8) the table of 16 (8) answers: designs were tried up to there.
    if isinstance(question.aim, PopulationMean) or nano_nats < MIN_NANO_NATS:
        return None
    if isinstance(question.aim, SampleMean):
        return design_sample(min(nano_nats, MAX_NANO_NATS))
    levels = prior_levels(question)
    return design_table(levels, min(nano_nats, PRIOR_NANO_NATS), objective_of(question, levels))


def prior_levels(question: Question) -> int:
    """Return the number of levels of a table for a prior."""
    # The table has levels at the points of the prior, as far as equally spaced levels can be there:
    # rounding a number that stands on a level adds no variance.
    points = prior_points(question)
    added = {levels: rounding_variance(points, levels) for levels in (LEVELS, *PRIOR_LEVELS)}
    best = min(added, key=lambda levels: (added[levels], abs(levels - LEVELS)))
    return best if added[best] <= added[LEVELS] * WORTH_MOVING else LEVELS


def figure(question: Question, channel: Channel, decode: Decode) -> Fraction:
    """Return n times the variance by the question's aim, in [-1, 1], up to the mean squared."""
    return figure_of(objective_of(question, channel.levels), channel, decode)


@dataclass(frozen=True, slots=True)
class Designed(Tail):
    """The mean of decode values, with a bias that is known.

    Args:
        half: half the range of the number, in real units.
        bias: what an expectation may be off, in half ranges.
    """

    law: Deviations
    half: float
    bias: float

    def exponent(self, tau: float) -> float:
        """The lesser of both sides' max over s of s tau - K(s); at least Hoeffding's."""
        shift = self._shift(tau)
        if shift <= 0:
            return 0.0
        least = min(side.rate(shift)[0] for side in (self.law.above, self.law.below))
        return max(least, 2 * shift * shift)

    def least_variance(self) -> float:
        """Variance of a user at the level where it is least."""
        rows, unit = self.law.above.rows, self.law.above.unit
        least = (rows @ unit**2 - (rows @ unit) ** 2).min()
        return float(least) * (self.half * self.law.span) ** 2

    def failure(self, tau: float) -> Failure:
        """Chernoff's bound times `relative_landing`, on both sides."""
        shift = self._shift(tau)
        if shift <= 0:
            return lambda _: 1.0
        sides = []
        for side in (self.law.above, self.law.below):
            rate, tilt = side.rate(shift)
            sides.append((rate, side.landing(tilt)))

        def both(users: float) -> float:
            return sum(
                exp(-users * rate) * min(1.0, landed / sqrt(users)) for rate, landed in sides
            )

        return both

    def tolerance(self, users: int, beta: float) -> float:
        """The half-width of the interval that has this chance of a miss."""
        each = (side.half_width(users, beta / 2) for side in (self.law.above, self.law.below))
        return self.half * (max(each) * self.law.span + self.bias)

    def _shift(self, tau: float) -> float:
        return (tau / self.half - self.bias) / self.law.span


def designed_tail(question: Question, channel: Channel, decode: Decode) -> Designed:
    """The tail of a table with its decode values, for the worst population or sample."""
    law = deviations(question, channel, decode)
    return Designed(law, float(question.spread) / 2, float(bias_of(TableFamily(channel), decode)))
