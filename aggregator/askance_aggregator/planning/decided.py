"""Tails of decisions: how often a value may miss its tolerance where only a conclusion counts.

A decision (`learners.decisions`) fails with a chance beta in all. Here that is turned into a chance
for each value to be off by its tolerance or more, which the value's own tail then gets its number
of users from, exactly as it does for a tolerance. The step is that of normal estimates that are
independent, each with the mean that the decision promises:

- **Signs on a list** (`SignsListed`): the mean is theta deviations from zero, with the theta for
  which the true pattern is not among the `length` most likely ones with a chance of at most beta.
  It was simulated (`sign_list_table`, 99.9 % confidence). A value misses with the chance
  2 Q(theta); its sign is wrong with half of that.
- **One stands out** (`OneStandsOut`): the one value's mean is s deviations from zero, with the s
  for which another value has the greater magnitude, or the one value the wrong sign, with a chance
  of at most beta. It is integrated numerically. The tolerance is half of that mean, so a value
  misses with the chance 2 Q(s / 2).

- **An association is found** (`AssociationFound`): with n users the statistic's noncentrality is
  n length^2 over the variance of a cell. The noncentrality that the test misses with a chance of
  beta is solved for, and a value that is `part` of the length away misses as often as a normal one
  with that noncentrality. Joint cells have about equally many users.

Two approximations remain: values of one answer are not quite independent (the covariance of two of
them is minus the product of their means, for MASKED-PARITY 1 / (2d)^2 beside a variance of 1 or
more), and estimates of few users are not quite normal. `benchmarks/masked_parity_lists.py` compares
the sizes with the laws of tallies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, singledispatch
from math import erfc, log, sqrt

import numpy as np

from askance_aggregator.learners import (
    AssociationFound,
    Decision,
    OneStandsOut,
    Question,
    SignsListed,
)
from askance_aggregator.planning.sign_list_table import BETAS, THETAS
from askance_aggregator.planning.tails import Failure, Tail
from askance_client.errors import InvalidParameter

_BEYOND = 9.0  # deviations above a mean: the normal tail beyond is 1e-19
_POINTS = 4001  # of an integral
_BISECTIONS = 40
_MOST = 32.0  # deviations: its normal tail is below every beta
_TINY = 1e-12  # deviations: the integral starts here, since ln P[|other| < 0] is not finite


@dataclass(frozen=True, slots=True)
class Decided(Tail):
    """The tail of a value of an answer that only has to lead to the right decision.

    Its `beta` is that of a value among `decision.values`: the decision fails with a chance of at
    most as many times beta.

    Args:
        of_value: tail of one value of the answer.
        decision: the conclusion that is drawn.
    """

    of_value: Tail
    decision: Decision

    def exponent(self, tau: float) -> float:
        """Return the exponent of the value's tail."""
        return self.of_value.exponent(tau)

    def failure(self, tau: float) -> Failure:
        """Return the failure of the value's tail."""
        return self.of_value.failure(tau)

    def least_variance(self) -> float:
        """Return the least variance of the value's tail."""
        return self.of_value.least_variance()

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """Return whether exact tails do not show that the decision is right."""
        return self.of_value.fails(users, tau, miss_chance(self.decision, beta))

    def users(self, tau: float, beta: float) -> int:
        """Return a number of users that is enough for the decision."""
        return self.of_value.users(tau, miss_chance(self.decision, beta))

    def tolerance(self, users: int, beta: float) -> float:
        """Return the least tau for which `users` are enough for the decision."""
        return self.of_value.tolerance(users, miss_chance(self.decision, beta))

    def enough(self, users: int, tau: float, beta: float) -> bool:
        """Return whether so many users are enough for the decision."""
        return self.of_value.enough(users, tau, miss_chance(self.decision, beta))


def miss_of(question: Question, beta: float) -> float:
    """Return the chance with which each value of an answer may miss its tolerance.

    Args:
        question: what is asked.
        beta: chance of failure per value; without a decision it is returned.
    """
    return beta if question.decision is None else miss_chance(question.decision, beta)


def miss_chance(decision: Decision, beta: float) -> float:
    """Return the chance with which a value may miss its tolerance; never less than beta.

    Args:
        decision: the conclusion that is drawn from the values.
        beta: chance of failure per value; the decision has their sum.
    """
    return max(beta, chance_per_value(decision, beta * decision.values))


@singledispatch
def chance_per_value(decision: Decision, beta: float) -> float:
    """Return the chance with which a value may miss its tolerance if the decision may fail.

    A decision without a registered method is planned like a tolerance.

    Args:
        decision: the conclusion that is drawn from the values.
        beta: chance that the decision fails, over all values.
    """
    return beta / decision.values


@chance_per_value.register
def _(decision: SignsListed, beta: float) -> float:
    theta = list_theta(decision.values, decision.length, beta)
    return beta / decision.values if theta is None else erfc(theta / sqrt(2))


@chance_per_value.register
def _(decision: OneStandsOut, beta: float) -> float:
    return erfc(standing_out(decision.values, beta) / 2 / sqrt(2))


@chance_per_value.register
def _(decision: AssociationFound, beta: float) -> float:
    found = noncentrality(decision.degrees, float(decision.level), beta)
    return erfc(sqrt(found / 2) * float(decision.part))


@lru_cache(maxsize=256)
def noncentrality(degrees: int, level: float, beta: float) -> float:
    """Return the noncentrality that a chi-square test of this level misses with a chance of beta.

    Args:
        degrees: of freedom.
        level: the chance that the test rejects where the noncentrality is 0.
        beta: the chance that it does not reject.
    """
    from askance_aggregator.special_functions import chdtri, chndtr

    threshold = float(chdtri(degrees, level))
    low, high = 0.0, 1.0
    while chndtr(threshold, degrees, high) > beta:
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        missed = chndtr(threshold, degrees, middle) > beta
        low, high = (middle, high) if missed else (low, middle)
    return high


def list_theta(values: int, length: int, beta: float) -> float | None:
    """Return how many deviations from zero put the true signs on a list, except with chance beta.

    More values or a shorter list never take less, so the table is read at the next greater number
    of values and at the next smaller length. Between two betas theta^2 is interpolated linearly in
    ln beta; it is convex in ln beta, as for every normal tail, so the result is not too small.

    Args:
        values: number of signs.
        length: number of patterns on the list.
        beta: chance that the true pattern is not listed.

    Returns:
        None where the table has no entry: more than 1,024 values, a list of length 1, or a beta
        below 1/2000.
    """
    sizes = [size for size in THETAS if size >= values]
    lengths = [one for one in THETAS[sizes[0]] if one <= length] if sizes else []
    if not lengths or beta < BETAS[-1]:
        return None
    thetas = THETAS[sizes[0]][max(lengths)]
    if beta >= BETAS[0]:
        return thetas[0]
    after = next(place for place, known in enumerate(BETAS) if known <= beta)
    part = log(beta / BETAS[after]) / log(BETAS[after - 1] / BETAS[after])
    return sqrt((1 - part) * thetas[after] ** 2 + part * thetas[after - 1] ** 2)


@lru_cache(maxsize=4096)
def standing_out(values: int, beta: float) -> float:
    """Return how many deviations from zero make one value stand out, except with chance beta.

    Raises:
        InvalidParameter: beta is below about 1e-15, which floats do not resolve.
    """
    low, high = 0.0, 2.0
    while stands_back(values, high) > beta:
        high *= 2
        if high > _MOST:
            raise InvalidParameter(f"beta: expected 1e-15 or more for a decision, got {beta}")
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if stands_back(values, middle) <= beta else (middle, high)
    return high


def stands_back(values: int, mean: float) -> float:
    """Compute the chance that one value does not stand out with its own sign.

    Args:
        values: number of values, the one included; independent normal, of deviation 1.
        mean: of the one; all others have the mean 0.
    """
    from askance_aggregator.special_functions import ndtr

    one = np.linspace(_TINY, mean + _BEYOND, _POINTS)
    density = np.exp(-((one - mean) ** 2) / 2) / sqrt(2 * np.pi)
    inside = np.log1p(-2 * ndtr(-one))  # ln P[|other| < one]
    beaten = -np.expm1((values - 1) * inside)
    return float(ndtr(-mean) + np.trapezoid(density * beaten, one))
