"""Estimates that are read off one count: the reports that contain a cell, or a bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from askance_aggregator.planning.tails import (
    Failure,
    Reals,
    Tail,
    divergence,
    exceeds,
    least_of_convex,
    normal_tail,
)

_ENUMERATED = 1 << 15  # users: beyond, the sharp bound is as good as exact
_SLACK = 1e-9  # a threshold that rounding may have moved beyond a whole number counts as on it
_UPWARD = 1 + 1e-9  # more than the relative error of an incomplete beta function


@dataclass(frozen=True, slots=True)
class Binomial(Tail):
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

    def failure(self, tau: float) -> Failure:
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
            return sum(normal_tail(users * rate) for rate in self._exponents(shift, short))

        return both

    def least_variance(self) -> float:
        """Variance at the p that is nearest to 0 or 1."""
        return min(p * (1 - p) for p in (self.low, self.high)) / self.gap**2

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """P[X >= n (p + x)] + P[X <= n (p - x)] by incomplete beta functions, for all p allowed.

        X grows with p: on an interval of p the first is greatest with its thresholds taken at the
        interval's low end and its law at the high one, the second the other way round.
        """
        from askance_aggregator.special_functions import betainc, betaincc

        if users > _ENUMERATED:
            return True
        shift = tau * self.gap

        def both(left: Reals, right: Reals) -> Reals:
            above = np.ceil(users * (left + shift) - _SLACK)
            below = np.floor(users * (right - shift) + _SLACK)
            most = np.clip(above, 1, users)
            least = np.clip(below, 0, users - 1)
            up = np.where(above <= 0, 1.0, betainc(most, users - most + 1, right))
            down = np.where(below >= users, 1.0, betaincc(least + 1, users - least, left))
            total: Reals = np.where(above > users, 0.0, up) + np.where(below < 0, 0.0, down)
            return total * _UPWARD

        return exceeds(both, self.low, self.high, beta)

    def _exponents(self, shift: float, short: float) -> tuple[float, float]:
        """Return the least KL(p + short || p) where p + shift can be, and KL(p - short || p)."""
        above, _ = least_of_convex(
            lambda p: divergence(p, short), self.low, min(self.high, 1 - shift)
        )
        below, _ = least_of_convex(
            lambda p: divergence(1 - p, short), max(self.low, shift), self.high
        )
        return above, below
