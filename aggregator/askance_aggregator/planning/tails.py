"""Tails: the number of users for which an estimate fails with probability at most beta.

The estimate of a value is an affine function of the mean W of n independent terms, one a user. It
fails if it is off by tau or more, *at least* tau, on either side; what counts is the worst among
all populations that keep the question's promise. The population is the target, not only the users
at hand: a user's value is drawn at random too. Three kinds of term: one of two values (`Binomial`),
one of +1, 0, -1 (`Ternary`), and the scores of a table (`Scored`).

A size is found in three steps, each never more than the one before:

1. **Chernoff**: ceil(ln(2/beta) / I) with I the worst exponent, which is held against Hoeffding's.
2. **A sharp bound** of the tail (`Tail.failure`) that has Chernoff's exponent and the normal law's
   factor before it. It falls with n, so what is enough is enough for every larger n too.
3. **The tails themselves** (`Tail.fails`), where so few users are enough that a report more or less
   matters, and where what is worst can be enclosed (`exceeds`). They are a saw in n: a size by them
   holds at that n and at all from step 2 on; in between the lattice may spoil it by a tooth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, erfc, exp, inf, log, log1p, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved, least_whole
from askance_client.errors import InvalidParameter

Reals = NDArray[np.float64]

_FIRST = 16  # intervals to begin with
_PARTS = 4  # into which an interval is divided
_LEVELS = 8
_MOST = 160  # intervals that are looked into at once: beyond it the answer is the careful one


def exceeds(bound: Callable[[Reals, Reals], Reals], low: float, high: float, beta: float) -> bool:
    """Return whether a quantity was not shown to be at most beta everywhere on [low, high]."""
    # Intervals whose bound is above beta are divided, until none is left, or one point is found
    # where the quantity itself is above beta, or the intervals are too many or too short to go on.
    # `bound` gives upper bounds on the quantity within intervals [a_i, b_i]; of a point, the
    # quantity itself.
    edges = np.linspace(low, high, _FIRST + 1) if high > low else np.array([low, low])
    left, right = edges[:-1], edges[1:]
    for _ in range(_LEVELS):
        above = bound(left, right) > beta
        if not above.any():
            return False
        left, right = left[above], right[above]
        if len(left) > _MOST or (bound(right, right) > beta).any():
            return True
        steps = np.linspace(left, right, _PARTS + 1)
        left, right = steps[:-1].ravel(), steps[1:].ravel()
    return True


_GOLDEN = (sqrt(5) - 1) / 2
_SEARCH_STEPS = 60  # each leaves .618 of the interval: 3e-13 of it in the end
_BISECTIONS = 60
_FINE = 1 << 8  # relative precision of a size found by exact tails
_FINE_TAU = 1e-4

T = TypeVar("T", float, NDArray[np.float64])
Failure = Callable[[float], float]
"""From a number of users to an upper bound on P[|estimate - truth| >= tau]; it falls."""


@dataclass(frozen=True, slots=True)
class Tail(ABC):
    """Law of an estimate's deviation from the truth."""

    @abstractmethod
    def exponent(self, tau: float) -> float:
        """I: P[estimate - truth >= tau] <= exp(-n I) for every n, and the same below."""

    @abstractmethod
    def failure(self, tau: float) -> Failure:
        """A sharper bound than 2 exp(-n I) wherever many users are asked, both sides together."""

    def least_variance(self) -> float:
        """Estimate the least n x variance among populations that keep the promise."""
        # No size depends on it: it decides whether an early look is worth its share (`looks`). The
        # default is 0, which excludes no look.
        return 0.0

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """Return whether exact tails do not show P[|estimate - truth| >= tau] <= beta.

        Here, for a tail that has none: it was not.
        """
        return True

    def exact_users(self, tau: float, beta: float, sure: int) -> int:
        """Return a number that exact tails show to be enough, at most `sure`, which is enough."""
        return _toothed(self, tau, beta, sure)

    def users(self, tau: float, beta: float) -> int:
        """Enough users for P[|estimate - truth| >= tau] <= beta; by exact tails, about the least.

        Utility: never more than Chernoff's and Hoeffding's bounds ask for.
        """
        return _users(self, tau, beta)

    def tolerance(self, users: int, beta: float) -> float:
        """Compute approximately the least tau for which `users` are enough, rounded upward."""
        if users < 1:
            raise InvalidParameter(f"a tolerance needs at least one user, found {users}")
        return self.least_tolerance(users, beta)

    def least_tolerance(self, users: int, beta: float) -> float:
        """Return `tolerance` of one user or more; a tail that is searched otherwise has its own."""
        return _tolerance(self, users, beta)

    def enough(self, users: int, tau: float, beta: float) -> bool:
        """Return whether one of the three steps shows that P[|estimate - truth| >= tau] <= beta."""
        return self._surely_enough(users, tau, beta) or not self.fails(users, tau, beta)

    def _surely_enough(self, users: int, tau: float, beta: float) -> bool:
        """Return whether the first two steps show it; then every larger number is enough, too."""
        return 2 * exp(-users * self.exponent(tau)) <= beta or self.failure(tau)(users) <= beta


def normal_tail(exponent: float) -> float:
    """P[a normal variable exceeds its mean by sqrt(2 exponent) deviations]."""
    return erfc(sqrt(exponent)) / 2


@lru_cache(maxsize=4096)
def _users(tail: Tail, tau: float, beta: float) -> int:
    rate = tail.exponent(tau)
    most = 1 if rate == inf else max(1, ceil(log(2 / beta) / rate))
    failure = tail.failure(tau)
    sure = _least_whole(lambda users: failure(users) <= beta, most)
    return tail.exact_users(tau, beta, sure)


def _least_whole(enough: Callable[[int], bool], most: int) -> int:
    """Find the least sufficient number, at most `most`; every larger one must suffice too."""
    # A quarter of Chernoff's size is seldom enough, and where it is the search begins at 0.
    low, high = most // 4, most
    if low and enough(low):
        low = 0
    return least_whole(enough, low, high)


def _toothed(tail: Tail, tau: float, beta: float, sure: int) -> int:
    """By exact tails: a number that is enough, between one that is not and `sure`."""
    if tail.fails(sure, tau, beta):
        return sure
    return least_whole(lambda users: not tail.fails(users, tau, beta), sure // 2, sure, part=_FINE)


@lru_cache(maxsize=4096)
def _tolerance(tail: Tail, users: int, beta: float) -> float:
    high = 1.0
    while not tail._surely_enough(users, high, beta):
        high *= 2
    high = least_tau(lambda tau: tail._surely_enough(users, tau, beta), 0.0, high, 1e-7)
    if tail.fails(users, high, beta):
        return high
    return least_tau(lambda tau: not tail.fails(users, tau, beta), high / 2, high, _FINE_TAU)


def least_tau(enough: Callable[[float], bool], low: float, high: float, part: float) -> float:
    """Bisection to a part of what is found, upward; `high` is enough."""
    return halved(enough, low, high, _BISECTIONS, part)[1]


def divergence(p: float, shift: float) -> float:
    """KL(p + shift || p) of two coins; infinite where p + shift cannot be."""
    moved = p + shift
    if moved > 1 or p <= 0:
        return inf
    up = moved * log1p(shift / p)
    left = 1 - moved
    return up if left <= 0 else up + left * log1p(-shift / (1 - p))


def least_of_convex(
    function: Callable[[float], float], low: float, high: float
) -> tuple[float, float]:
    """The least value of a convex function on [low, high], and where; infinity if low > high."""
    if low > high:
        return inf, low
    best = min((function(low), low), (function(high), high))
    first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_first, at_second = function(first), function(second)
    for _ in range(_SEARCH_STEPS):
        if at_first <= at_second:
            high, second, at_second = second, first, at_first
            first = high - _GOLDEN * (high - low)
            at_first = function(first)
        else:
            low, first, at_first = first, second, at_second
            second = low + _GOLDEN * (high - low)
            at_second = function(second)
    return min(best, (at_first, first), (at_second, second))
