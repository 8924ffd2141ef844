"""Tables that are designed for what a number's mean is wanted for, and how exact they are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, sqrt

from askance_aggregator.estimation import (
    Decode,
    Deviations,
    bias_of,
    deviations,
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
    design_table,
)
from askance_client.randomizers import Channel

LEVELS = 33  # random rounding onto them adds .00098 to a conditional variance


def objective_of(question: Question, levels: int) -> Objective:
    """Return the objective of a table for the question."""
    if isinstance(question.aim, PopulationMean):
        return Minimax()
    if isinstance(question.aim, SampleMean):
        return Conditional()
    return Prior(prior_weights(question, levels))


def designed_for(question: Question, nano_nats: int) -> DesignedTable | None:
    """The table that is best for the question's aim; None where no table is better than one bit.

    That is so for the worst population (Duchi), and below 0.01 nats no table is designed. Beyond 8
    nats that of 8 answers: what is left to gain is less than what rounding onto levels costs.
    """
    if isinstance(question.aim, PopulationMean) or nano_nats < MIN_NANO_NATS:
        return None
    return design_table(LEVELS, min(nano_nats, MAX_NANO_NATS), objective_of(question, LEVELS))


def figure(question: Question, channel: Channel, decode: Decode) -> Fraction:
    """Return n times the variance by the question's aim, in [-1, 1], up to the mean squared."""
    return _figure(objective_of(question, channel.levels), channel, decode)


@lru_cache(maxsize=64)
def _figure(objective: Objective, channel: Channel, decode: Decode) -> Fraction:
    return objective.figure(channel, decode)


@dataclass(frozen=True, slots=True)
class Designed(Tail):
    """The mean of decode values, with a bias that is known.

    Args:
        law: how far the mean strays from its expectation.
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
