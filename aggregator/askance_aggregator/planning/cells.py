"""Shares of the cells of a category: the chance that any is off, whatever the shares.

A report counts for a cell of share f with probability s = other + f (own - other), so that the
cell's count is binomial and its estimate fails with a chance T(f): the count is off from n s by
n tau (own - other) or more. Shares sum to 1, so that for every number lambda

    P[some cell fails] <= sum T(f_i) = lambda + sum (T(f_i) - lambda f_i)
                       <= lambda + k max over f of (T(f) - lambda f).

The least of it over lambda is k times the value at 1/k of the least concave function above T. A
half of all users at each of two cells, or all at one, is the worst where a randomizer says little
of empty cells; the union bound gives each of k cells the chance of the worst share.

Two bounds of T(f), each of which falls with n, are taken together:

- the normal law's (`Binomial.failure`), whose maximum on an interval of f is known exactly;
- the incomplete beta function at the threshold itself, which need not be whole:
  P[X >= n t] <= I_s(n t, n (1 - t) + 1), which falls with n wherever s <= t.

So the least number of users that they show to be enough is enough for every larger one.

Proofs: docs/math/cells.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log

import numpy as np

from askance_aggregator.bisection import least_whole
from askance_aggregator.planning import tails

_ENUMERATED = 1 << 15  # users: beyond, the sharp bound is as good as exact
_SLACK = 1e-9  # a threshold that rounding may have moved beyond a whole number counts as on it
_BETA_UPWARD = 1 + 1e-9  # more than the relative error of an incomplete beta function


@dataclass(frozen=True, slots=True)
class Binomial(tails.Tail):
    """A term is 1 with probability p, `low` <= p <= `high` by the promise, else 0.

    Args:
        gap: the change of p that a change of the value by 1 makes.
    """

    low: float
    high: float
    gap: float

    def exponent(self, tau: float) -> float:
        """Return min over p of KL(p +- tau gap || p), convex in p; at least Pinsker's 2 x^2."""
        shift = tau * self.gap
        return max(min(self._exponents(shift, shift)), 2 * shift * shift)

    def failure(self, tau: float) -> tails.Failure:
        """Zubkov and Serov's normal tails, one report short, at the worst p of each side.

        P[X >= k] <= Phi(-sqrt(2 n KL((k - 1)/n || p))) for a binomial X and k - 1 >= n p. The least
        k that is too much is n (p + x) or more, so that (k - 1)/n is at least p + x - 1/n; the
        divergence is convex in p, and grows with n.

        Source: Zubkov and Serov 2013 (Theory of Probability and its Applications 57), Theorem 1.
        """
        shift = tau * self.gap

        def both(users: float) -> float:
            short = shift - 1 / users
            if short <= 0:
                return 1.0
            return sum(tails.normal_tail(users * rate) for rate in self._exponents(shift, short))

        return both

    def least_variance(self) -> float:
        """Variance at the p that is nearest to 0 or 1."""
        return min(p * (1 - p) for p in (self.low, self.high)) / self.gap**2

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """P[X >= n (p + x)] + P[X <= n (p - x)] by incomplete beta functions, for all p allowed."""
        # X grows with p: on an interval of p the first is greatest with its thresholds taken at the
        # interval's low end and its law at the high one, the second the other way round.
        from askance_aggregator.special_functions import betainc, betaincc

        if users > _ENUMERATED:
            return True
        shift = tau * self.gap

        def both(left: tails.Reals, right: tails.Reals) -> tails.Reals:
            above = np.ceil(users * (left + shift) - _SLACK)
            below = np.floor(users * (right - shift) + _SLACK)
            most = np.clip(above, 1, users)
            least = np.clip(below, 0, users - 1)
            up = np.where(above <= 0, 1.0, betainc(most, users - most + 1, right))
            down = np.where(below >= users, 1.0, betaincc(least + 1, users - least, left))
            total: tails.Reals = np.where(above > users, 0.0, up) + np.where(below < 0, 0.0, down)
            return total * _BETA_UPWARD

        return tails.exceeds(both, self.low, self.high, beta)

    def _exponents(self, shift: float, short: float) -> tuple[float, float]:
        """Return the least KL(p + short || p) where p + shift can be, and KL(p - short || p)."""
        above, _ = tails.least_of_convex(
            lambda p: tails.divergence(p, short), self.low, min(self.high, 1 - shift)
        )
        below, _ = tails.least_of_convex(
            lambda p: tails.divergence(1 - p, short), max(self.low, shift), self.high
        )
        return above, below


_FIRST = 64  # intervals of shares to begin with, the narrowest at share 0
_PARTS = 8  # into which an interval is divided
_LEVELS = 8
_MOST = 1 << 13  # intervals that are looked into at once: beyond it the answer is the careful one
_CLOSE = 1 / 256  # of the chance: so near, no more intervals are divided; about .1 % of the users
_UPWARD = 1 + 1e-8  # more than the relative error of the special functions and of the sums
_FINE = 1 << 11  # relative precision of a size
_FINE_TAU = 1e-4
_SAVED = 2.0  # reports for which the sharper bound is looked at, as a part of the threshold
_LEAST_RATE = 1e-12  # from which on the worst rate is looked for


@dataclass(frozen=True, slots=True)
class JointShares(tails.Tail):
    """The tail of all shares of a category together.

    Its `beta` is that of a value among `cells`: any of them is off with a chance of at most as
    many times beta. A size by it holds for every larger number of users too.

    Args:
        of_cell: the tail of one share; own > other unless `alike`.
        cells: k >= 2.
        alike: whether all shares are off alike or none is, as the two that a report with one of
            two symbols tells: their estimates sum to 1.
        values: how many values' chances they may spend together; 0: those of the cells.
    """

    of_cell: Binomial
    cells: int
    alike: bool = False
    values: int = 0

    def exponent(self, tau: float) -> float:
        """Return the exponent of one share's tail, which the worst share has."""
        return self.of_cell.exponent(tau)

    def failure(self, tau: float) -> tails.Failure:
        """Bound the chance of one share, whichever it is."""
        return self.of_cell.failure(tau)

    def least_variance(self) -> float:
        """Return the least variance of a share."""
        return self.of_cell.least_variance()

    def users(self, tau: float, beta: float) -> int:
        """Return about the least number of users that is enough, as is every larger one."""
        return _users(self, tau, beta)

    def least_tolerance(self, users: int, beta: float) -> float:
        """Search coarsely: each look takes as long as a size of another tail."""
        return _tolerance(self, users, beta)

    def _surely_enough(self, users: int, tau: float, beta: float) -> bool:
        return self.is_shown(users, tau, beta)

    def is_shown(self, users: int, tau: float, beta: float, *, sharp: bool = True) -> bool:
        """Return whether the joint bound is at most `cells` times beta."""
        # The bound is by the normal law alone unless `sharp`, which takes more intervals. The range
        # of s is divided where the bound of an interval is too large, until the bound of all
        # intervals is small enough, or that of single points, which is less, is too large.
        chance = beta * (self.values or self.cells)
        low, high, gap = self.of_cell.low, self.of_cell.high, self.of_cell.gap
        side = _Side(users, tau * gap)
        bound = side.sharp if sharp else side.normal
        edges = low + (high - low) * np.linspace(0, 1, _FIRST + 1) ** 2
        left, right = edges[:-1], edges[1:]
        upper = side.both(left, right, side.normal)
        points = new = edges[[0, -1]]
        at_points = np.empty(0)
        for _ in range(_LEVELS):
            total, slope = self._joint((left - low) / gap, upper)
            if total <= chance:
                return True
            at_points = np.concatenate((at_points, side.both(new, new, bound)))
            least, _ = self._joint((points - low) / gap, at_points)
            slope *= chance / total
            room = (chance - slope) if self.alike else (chance - slope) / self.cells
            above = upper - slope * (left - low) / gap > room
            if least > chance * (1 - _CLOSE) or above.sum() * _PARTS > _MOST:
                return False
            steps = np.linspace(left[above], right[above], _PARTS + 1)
            middles = steps[_PARTS // 2]
            starts, ends = steps[:-1].ravel(), steps[1:].ravel()
            bounds = side.both(starts, ends, side.normal)
            if sharp:
                left_over = bounds - slope * (starts - low) / gap > room
                pair = starts[left_over], ends[left_over]
                bounds[left_over] = side.both(*pair, side.sharp)
            left = np.concatenate((left[~above], starts))
            right = np.concatenate((right[~above], ends))
            upper = np.concatenate((upper[~above], bounds))
            points, new = np.concatenate((points, middles)), middles
        return False

    def _joint(self, shares: tails.Reals, chances: tails.Reals) -> tuple[float, float]:
        """Return the least of lambda + k max (T - lambda f), and lambda; of shares alike, max T."""
        if self.alike:
            return float(chances.max()) * _UPWARD, 0.0
        slope = _support(shares, chances, 1 / self.cells)
        return (slope + self.cells * float((chances - slope * shares).max())) * _UPWARD, slope


def _support(shares: tails.Reals, chances: tails.Reals, at: float) -> float:
    """Return the slope at a share of the least concave and growing function above all points."""
    # The edge that crosses it is found from an edge below by the point that is farthest above.
    most = int(np.argmax(chances))
    if shares[most] <= at:
        return 0.0
    before, after = int(np.argmin(shares)), most
    slope = 0.0
    for _ in range(len(shares)):
        rise = float(chances[after] - chances[before]) / float(shares[after] - shares[before])
        slope = max(rise, 0.0)
        heights = chances - slope * shares
        far = int(np.argmax(heights))
        if heights[far] <= heights[before] or far == after:
            break
        if shares[far] <= at:
            before = far
        else:
            after = far
    return slope


class _Side:
    """Bounds of P[X >= n (s + shift)] for X binomial(n, s), on intervals of s."""

    def __init__(self, users: int, shift: float) -> None:
        self._users = users
        self._shift = shift
        self._short = shift - 1 / users  # the divergence's, one report short
        self._worst = 0.5
        if self._short > 0 and shift < 1:
            _, self._worst = tails.least_of_convex(
                lambda s: tails.divergence(s, self._short), _LEAST_RATE, 1 - shift
            )

    def both(
        self,
        left: tails.Reals,
        right: tails.Reals,
        bound: Callable[[tails.Reals, tails.Reals], tails.Reals],
    ) -> tails.Reals:
        """Bound both sides together: too few reports are too many of those without the cell."""
        return (bound(left, right) + bound(1 - right, 1 - left)) * _UPWARD

    def sharp(self, left: tails.Reals, right: tails.Reals) -> tails.Reals:
        """The lesser of the two bounds."""
        return np.minimum(self.normal(left, right), self._beta(left, right))

    def normal(self, left: tails.Reals, right: tails.Reals) -> tails.Reals:
        """Zubkov and Serov's bound at the worst s of the interval; the divergence is convex."""
        from askance_aggregator.special_functions import erfc

        if self._short <= 0 or self._shift >= 1:
            return np.where(left + self._shift > 1, 0.0, 1.0)
        s = np.clip(self._worst, left, np.minimum(right, 1 - self._shift))
        possible = left + self._shift <= 1
        s = np.where(possible, s, 0.5 * (1 - self._shift))
        moved = s + self._short
        with np.errstate(divide="ignore"):  # s = 0: the rate is infinite
            above = moved * np.log1p(self._short / s)
        rate = above + (1 - moved) * np.log1p(-self._short / (1 - s))
        tail: tails.Reals = np.where(
            possible, erfc(np.sqrt(self._users * np.maximum(rate, 0.0))) / 2, 0
        )
        return tail

    def _beta(self, left: tails.Reals, right: tails.Reals) -> tails.Reals:
        """I_s(n t, n (1 - t) + 1) with t of the least s of the interval and the greatest s."""
        from askance_aggregator.special_functions import betainc

        t = left + self._shift
        beyond = self._users * np.maximum(1 - t, 0.0) + 1
        tail: tails.Reals = np.where(t > 1, 0.0, betainc(self._users * t, beyond, right))
        return tail


@lru_cache(maxsize=4096)
def _users(tail: JointShares, tau: float, beta: float) -> int:
    """Search by the normal law's bound, then for the report by which it is short on each side."""
    rate = tail.exponent(tau)
    high = max(1, ceil(log(2 / beta) / rate))  # Chernoff's, with beta for each share
    high = least_whole(lambda users: tail.is_shown(users, tau, beta, sharp=False), 0, high)
    saved = min(_SAVED / (tau * tail.of_cell.gap), high)
    return least_whole(
        lambda users: tail.is_shown(users, tau, beta), int(high - saved), high, high // _FINE
    )


@lru_cache(maxsize=4096)
def _tolerance(tail: JointShares, users: int, beta: float) -> float:
    high = 1.0
    while not tail.enough(users, high, beta):
        high *= 2
    return tails.least_tau(lambda tau: tail.enough(users, tau, beta), 0.0, high, _FINE_TAU)
