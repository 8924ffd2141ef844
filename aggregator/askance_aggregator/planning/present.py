"""Tables with a level for "missing", and how exact a mean over those who have the number is.

An estimate A/B is off by tau or more, upward, only if the mean of a - (m + tau) b is 0 or more,
and downward only if that of a - (m - tau) b is 0 or less (also where B is not positive, for one of
both then holds). The two expectations are -q tau and q tau, with q the share of users who have the
number, so both chances are tails of a mean (`estimation.present_law`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np

from askance_aggregator.estimation import (
    Cases,
    Decode,
    PresentLaw,
    present_law,
    prior_weights,
    scale_of,
    score_bias,
)
from askance_aggregator.families import TableFamily
from askance_aggregator.learners import PopulationMean, Question, SampleMean
from askance_aggregator.planning.tails import Failure, Tail, least_tau
from askance_aggregator.planning.worst import Reals
from askance_aggregator.table_design import (
    NUMBERS,
    PresenceObjective,
    PresenceTable,
    PresentPopulation,
    PresentPrior,
    PresentSample,
    design_presence,
)
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Channel

_MEANS = np.linspace(-1.0, 1.0, 33)
"""Means that are looked at for the worst one. Rates are smooth in the mean: between two of these
they are lower by less than a thousandth, which `_MARGIN` covers."""

_MARGIN = 1e-3
_FINE_TAU = 1e-3  # of a tolerance


def present_objective(question: Question) -> PresenceObjective:
    """Return the objective of a table for the question."""
    if isinstance(question.aim, PopulationMean):
        return PresentPopulation()
    if isinstance(question.aim, SampleMean):
        return PresentSample()
    return PresentPrior(prior_weights(question, NUMBERS))


def present_table(question: Question, nano_nats: int) -> PresenceTable:
    """The table for a number that may be missing."""
    return design_presence(nano_nats, present_objective(question))


@dataclass(frozen=True, slots=True)
class Present(Tail):
    """The mean over users who have the number, as the ratio of two scores' means.

    Args:
        share: the promised share of users who have the number, at least.
        half: half the range of the number, in real units.
        bias: what an expectation may be off, in half ranges.
    """

    law: PresentLaw
    share: float
    half: float
    bias: float

    def exponent(self, tau: float) -> float:
        """The least rate of both sides, for the worst mean."""
        rate = float(min(rates.min() for rates, _ in self._sides(tau)))
        if rate <= 0:
            raise InvalidParameter(
                "a mean over the users who have a number: expected a larger epsilon or tolerance,"
                f" got a tolerance of {tau:g} for which no number of users can be computed"
            )
        return rate

    def least_variance(self) -> float:
        """Variance for users who all have one number, the one for which it is least."""
        points = self.law.grid
        scores = self.law.numbers[:, None] - points * self.law.presences[:, None]
        moments = np.sum(self.law.rows[:-1].T * scores**2, axis=0)
        return float(moments.min()) * self.half**2

    def failure(self, tau: float) -> Failure:
        """Chernoff's bound times the normal law's factor, on both sides, for the worst mean."""
        sides = self._sides(tau)

        def both(users: float) -> float:
            root = sqrt(users)
            bound = sum(
                np.exp(-users * rates) * np.minimum(landings / root, 1.0)
                for rates, landings in sides
            )
            return float(np.max(bound))

        return both

    def tolerance(self, users: int, beta: float) -> float:
        """Compute `Tail.tolerance`; where the users are enough for none, it is the range."""
        if users < 1:
            raise InvalidParameter(f"a tolerance needs at least one user, found {users}")
        return _tolerance(self, users, beta)

    def _sides(self, tau: float) -> list[tuple[Reals, Reals]]:
        """Rates and landings of both sides for the means that are looked at."""
        shift = tau / self.half
        cases = len(_MEANS)
        users = Cases(_MEANS, np.full(cases, self.share), np.ones(cases))
        sides = []
        for side in (-1, 1):
            slopes = _MEANS + side * shift
            scores = side * (self.law.numbers[:, None] - slopes * self.law.presences[:, None])
            rates, landings = self.law.bounds(scores, users, np.full(cases, -self.bias))
            sides.append((rates * (1 - _MARGIN), landings))
        return sides


def present_tail(question: Question, table: TableFamily, decode: Decode) -> Present:
    """The tail of a table with its scores, for the worst population or sample."""
    law = present_law(table.randomizer, decode, isinstance(question.aim, SampleMean))
    _, half = scale_of(question, table.randomizer.levels)
    bias = float(score_bias(table, decode))
    return Present(law, float(question.present), float(half), bias)


def present_variance(question: Question, table: TableFamily, decode: Decode) -> Fraction:
    """Return n times the variance of A/B by the question's aim, scaled to [-1, 1].

    Of the worst population with the promised share of users who have the number; of a sample, the
    worst conditional variance at a level for users who all have that number; of a prior, that of a
    population equal to it.
    """
    objective = present_objective(question)
    return _variance(objective, table.randomizer, decode, question.present)


@lru_cache(maxsize=64)
def _variance(
    objective: PresenceObjective, channel: Channel, decode: Decode, share: Fraction
) -> Fraction:
    table = PresenceTable(channel, decode[: channel.symbols], decode[channel.symbols :])
    points = TableFamily(channel).moved_grid(table.numbers)[:-1]
    if isinstance(objective, PresentPrior) and len(points) == len(objective.weights):
        mean = sum((w * x for w, x in zip(objective.weights, points, strict=True)), Fraction())
        figures = table.figure(mean)
        inside = sum((w * f for w, f in zip(objective.weights, figures, strict=False)), Fraction())
        return (share * inside + (1 - share) * figures[-1]) / share**2
    worst = Fraction()
    for place in range(33):
        mean = Fraction(place, 16) - 1
        figures = table.figure(mean)
        inside = ((1 - mean) * figures[0] + (1 + mean) * figures[-2]) / 2
        if isinstance(objective, PresentSample):
            inside -= 1 - mean * mean
        worst = max(worst, share * inside + (1 - share) * figures[-1])
    return worst / share**2


@lru_cache(maxsize=4096)
def _tolerance(tail: Present, users: int, beta: float) -> float:
    high = 2 * tail.half  # no mean is off by more

    def enough(tau: float) -> bool:
        return tail.failure(tau)(users) <= beta

    return least_tau(enough, 0.0, high, _FINE_TAU) if enough(high) else high
