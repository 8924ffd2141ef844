"""Sizes for the means of numbers that may be missing, which a vector asks as two components each.

With the notation of `estimation.sign_pairs`, both components told by n users of their own, an
estimate of m is off by tau or more upward only if the estimate of D at M = m + tau, whose mean is
-2 q tau, is 0 or more; and downward only if that of D at m - tau is 0 or less. (Where A_hat + B_hat
+ 2 is not positive and both M are in [-1, 1], one of both holds; else such a report counts as a
failure, by Hoeffding's bound.) An estimate is clipped to [-1, 1], so it is not off upward where M
is above 1. Downward at m is upward at -m.

The chance is bounded for all q from the promised one on, and all m, in cells of m with one tilt t
each. At every q the exponent ln h_A + ln h_B - 2 g M t is in a cell at most the greater of its ends
plus C w^2 / 8, w the width and C a bound of its second derivative in m: with h_A = cosh(t (1 - M))
+ g A sinh(t (1 - M)) that of ln h_A is at most h_A'' / h_A <= t^2, and that of ln h_B

    t^2 + 2 t g q cosh(t (1 + M)) / h_B <= t^2 + 2 t g / (1 - g tanh 2 t).

At an end the greatest over q is found as in `sign_pairs`, and so is the factor before the bound.
All falls with n: what is enough is enough for every larger number too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, inf, sqrt

import numpy as np

from askance_aggregator.estimation import MeansLine, SignPair
from askance_aggregator.planning.tails import Failure, Reals, Tail

_SLACK = 1 / 500  # about the part of an exponent that a cell's width costs
_FEWEST_CELLS, _MOST_CELLS = 32, 1024
_UPWARD = 1 + 1e-9  # more than the relative error of what is computed
_RANGE = 2.0  # of a number: no estimate is off by more


@dataclass(frozen=True, slots=True)
class Ratios(Tail):
    """The mean of one number over the users who have it; its `beta` is that of a component.

    A mean may fail with a chance of 2 beta, as two components are asked for it.

    Args:
        gap: agreement of the randomizer, > 0.
        share: the promised share of users who have the number, at least.
    """

    gap: float
    share: float

    def exponent(self, tau: float) -> float:
        """Return the least rate of both sides, and of an estimated share of 0 or less."""
        if tau > _RANGE:
            return inf
        return min(float(_sides(self, tau)[0].min()), self._none)

    def failure(self, tau: float) -> Failure:
        """Bound half the chance that the mean is off by tau or more, whatever the population."""
        if tau > _RANGE:
            return lambda _: 0.0
        rates, landings = _sides(self, tau)

        def half(users: float) -> float:
            upward = np.exp(-users * rates) * np.minimum(landings / sqrt(users), 1.0)
            both = float((upward + upward[::-1]).max()) + exp(-users * self._none)
            return _UPWARD * both / 2

        return half

    def least_variance(self) -> float:
        """Return infinity: no interval of a component ends a round early."""
        return inf

    @property
    def _none(self) -> float:
        """Hoeffding's rate of A_hat + B_hat + 2 <= 0, whose mean is 2 q."""
        return (self.share * self.gap) ** 2


@lru_cache(maxsize=1024)
def _sides(tail: Ratios, tau: float) -> tuple[Reals, Reals]:
    """Return rates and landings of a failure upward, in cells of m from -1 to 1."""
    # Where m + tau is above 1 no estimate fails so: the rate is infinite.
    width = sqrt(4 * _SLACK * tau * tail.share)
    half = min(max(ceil(1 / width), _FEWEST_CELLS // 2), _MOST_CELLS // 2)
    edges = np.linspace(-1.0, 1.0, 2 * half + 1)
    low, high = edges[:-1], np.minimum(edges[1:], 1 - tau)
    rates, landings = np.full(len(low), inf), np.ones(len(low))
    kept = low <= 1 - tau
    low, high = low[kept], high[kept]
    pair = SignPair(np.ones((2, 1)), np.full((2, 1), tail.gap))
    least, most = np.full_like(low, tail.share), np.ones_like(low)

    def weights(means: Reals) -> Reals:
        return np.stack((1 - means - tau, -(1 + means + tau)))

    def line(means: Reals) -> MeansLine:
        return MeansLine.of_mean(means, least, most)

    middles, ends = (low + high) / 2, (low, high)
    tilts = pair.tilts(weights(middles), line(middles), 2 * (middles + tau))
    greatest = np.max(
        [
            pair.log_moment(tilts, weights(each), line(each)) - tilts * 2 * (each + tau)
            for each in ends
        ],
        axis=0,
    )
    steep = tilts / tail.gap
    bend = 2 * steep**2 + 2 * steep * tail.gap / (1 - tail.gap * np.tanh(2 * steep))
    rates[kept] = np.maximum(-greatest - bend * (high - low) ** 2 / 8, 0.0)
    sizes = np.abs([weights(each) for each in ends])
    corners = [line(each).at(share) for each in ends for share in (least, most)]
    landings[kept] = pair.landings(
        tilts, sizes.min(axis=0), sizes.max(axis=0), np.stack(corners, axis=1)
    )
    return rates, landings
