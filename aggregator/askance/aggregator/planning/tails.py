"""How many users make an estimate fail with probability at most beta: Chernoff bounds.

The estimate of a value is an affine function of the mean W of n independent terms, one a user. The
chance that it is off by tau or more, *at least* tau, on either side, is at most 2 exp(-n I) with I
the worst exponent over all populations that keep the question's promise; each side gets beta/2. So

    users = ceil(ln(2/beta) / I),

an upper bound on what is needed, never larger than Hoeffding's, which every exponent here is held
against. Three kinds of term: one of two values (`Binomial`), one of +1, 0, -1 (`Ternary`), and any
bounded one (`Bounded`). The population is the target, not only the users at hand: a user's value is
drawn at random too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, cosh, exp, inf, log, log1p, sqrt

from askance.client.errors import InvalidParameter

_GOLDEN = (sqrt(5) - 1) / 2
_SEARCH_STEPS = 80  # each leaves .618 of the interval: 2e-17 of it in the end
_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class Tail(ABC):
    """How far an estimate strays from the truth."""

    @abstractmethod
    def exponent(self, tau: float) -> float:
        """I: P[estimate - truth >= tau] <= exp(-n I) for every n, and the same below."""

    def users(self, tau: float, beta: float) -> int:
        """The least n for which the bound gives P[|estimate - truth| >= tau] <= beta."""
        return _users(self, tau, beta)

    def tolerance(self, users: int, beta: float) -> float:
        """The least tau, to six digits and upward, that so many users are enough for.

        Raises:
            InvalidParameter: nobody is enough for nothing.
        """
        if users < 1:
            raise InvalidParameter(f"a tolerance needs at least one user, found {users}")
        return _tolerance(self, users, beta)


@dataclass(frozen=True, slots=True)
class Binomial(Tail):
    """A term is 1 with probability p, `low` <= p <= `high`, else 0.

    Args:
        low: the least p of a population that keeps the promise.
        high: the greatest.
        gap: the change of p that a change of the value by 1 makes.
    """

    low: float
    high: float
    gap: float

    def exponent(self, tau: float) -> float:
        """min over p of KL(p +- tau gap || p), which is convex in p; at least Pinsker's 2 x^2."""
        shift = tau * self.gap
        above = _least(lambda p: _divergence(p, shift), self.low, min(self.high, 1 - shift))
        below = _least(lambda p: _divergence(1 - p, shift), max(self.low, shift), self.high)
        return max(min(above, below), 2 * shift * shift)


@dataclass(frozen=True, slots=True)
class Ternary(Tail):
    """A term is +1, -1 or 0: the difference of two cells' inclusion in one report.

    Args:
        hit: P[only the + cell is in the report | the user is at the + cell]; for - the same.
        miss: P[only the - cell is in it | the user is at the + cell]; for - the same.
        stray: P[only the + cell is in it | the user is at neither], and the same for -.
        mass: at most this share of users is at one of the two.
    """

    hit: float
    miss: float
    stray: float
    mass: float

    def exponent(self, tau: float) -> float:
        """max over s of s x - K(s), K the worst log moment generating function of W - E[W].

        With masses f+ and f-, t = f+ + f- and g = f+ - f-, W is 1 with probability
        stray + f+ (hit - stray) + f- (miss - stray), and -1 with + and - exchanged, so

            E[e^(sW)] = 1 + (cosh s - 1)(2 stray + t (hit + miss - 2 stray)) + sinh(s) gap g,
            E[W] = gap g,    gap = hit - miss.

        It grows with t (a negative coefficient of t is replaced by 0, upward), so t = mass is the
        worst; in g, ln(...) - s gap g is concave with a maximum that solves a linear equation. As
        the masses are symmetric, both sides have the same exponent. At least Hoeffding's x^2/2.
        """
        shift = tau * self.gap

        def rate(s: float) -> float:
            return s * shift - self.log_moment(s)

        # K(s) >= s - ln(1/stray) - s gap, so the rate is negative past this point.
        limit = log(1 / self.stray) / max(1 - self.gap - shift, 1e-3)
        return max(-_least(lambda s: -rate(s), 0.0, min(limit, 50.0)), shift * shift / 2)

    @property
    def gap(self) -> float:
        """E[W] for a user at the + cell."""
        return self.hit - self.miss

    def log_moment(self, s: float) -> float:
        """K(s): the greatest ln E[e^(s (W - E[W]))] of a population that keeps the promise."""
        arch = cosh(s) - 1
        rest = max(self.hit + self.miss - 2 * self.stray, 0.0)
        even = arch * (2 * self.stray + self.mass * rest)
        slope = (exp(s) - exp(-s)) / 2 * self.gap
        tilt = s * self.gap
        # d/dg: slope / (1 + even + slope g) = tilt.
        g = min(max(1 / tilt - (1 + even) / slope, -self.mass), self.mass) if tilt else 0.0
        return log1p(even + slope * g) - tilt * g


@dataclass(frozen=True, slots=True)
class Bounded(Tail):
    """A term lies in an interval of length `span`, in units of the value (Hoeffding 1963)."""

    span: float

    def exponent(self, tau: float) -> float:
        """2 (tau / span)^2."""
        return 2 * (tau / self.span) ** 2


@lru_cache(maxsize=4096)
def _users(tail: Tail, tau: float, beta: float) -> int:
    rate = tail.exponent(tau)
    return 1 if rate == inf else max(1, ceil(log(2 / beta) / rate))


@lru_cache(maxsize=4096)
def _tolerance(tail: Tail, users: int, beta: float) -> float:
    low, high = 0.0, 1.0
    while tail.users(high, beta) > users:
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if tail.users(middle, beta) > users:
            low = middle
        else:
            high = middle
        if high - low <= 1e-7 * high:
            break
    return high


def _divergence(p: float, shift: float) -> float:
    """KL(p + shift || p) of two coins; infinite where p + shift cannot be."""
    moved = p + shift
    if moved > 1 or p <= 0:
        return inf
    up = moved * log1p(shift / p)
    left = 1 - moved
    return up if left <= 0 else up + left * log1p(-shift / (1 - p))


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """The least value of a convex function on [low, high] by golden section; of none, infinity."""
    if low > high:
        return inf
    best = min(function(low), function(high))
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
    return min(best, at_first, at_second)
