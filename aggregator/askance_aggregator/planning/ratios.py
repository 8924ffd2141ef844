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

**Few users.** Up to `MOST_EXACT` a block, a size is searched below that one by the exact law of the
two counts i and j, binomial with the chances a and b of a +. In a cell of means m_1 .. m_2 and
shares q_1 .. q_2 an estimate that is off upward has (1 - M) (A_hat + 1) >= (1 + M) (B_hat + 1) at
M = m_1 + tau too. That is i >= c(j) with a c that does not fall, so its chance rises with a and
falls with b; a rises with m and q, b falls with m and rises with q. So it is at most the chance at
a of (m_2, q_2) and b of (m_2, q_1), a sum over j. Cells are divided until all are below the chance
that may fail. Such a size is enough for itself, and need not be for the next larger number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, inf, lgamma, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation import MeansLine, SignPair
from askance_aggregator.planning.tails import Failure, Reals, Tail

_SLACK = 1 / 500  # about the part of an exponent that a cell's width costs
_FEWEST_CELLS, _MOST_CELLS = 32, 1024
_UPWARD = 1 + 1e-9  # more than the relative error of what is computed
_RANGE = 2.0  # of a number: no estimate is off by more

MOST_EXACT = 1024  # users of a block
_FIRST_MEANS, _FIRST_SHARES = 32, 4
_DIVISIONS = 12
_MOST_DIVIDED = 512  # cells that are divided at once; with more, a size counts as too small
_ON_THE_EDGE = 1e-9  # of a count: a report that is off by just tau fails
_TINY = 1e-300


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

    def fails(self, users: int, tau: float, beta: float) -> bool:
        """Bound the chance of a failure by the exact law, in cells of populations."""
        if users > MOST_EXACT or tau > _RANGE:
            return True
        allowed = 2 * beta / _UPWARD - exp(-users * self._none)
        cells = RatioCells.all_from(self.share)
        for _ in range(_DIVISIONS):
            above = cells.failures(self.gap, tau, users) > allowed
            if not above.any():
                return False
            cells = cells.chosen(above)
            beyond = cells.centres.failures(self.gap, tau, users) > allowed
            if beyond.any() or len(cells.low) > _MOST_DIVIDED:
                return True
            cells = cells.divided(tau)
        return True

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


@dataclass(frozen=True, eq=False)
class RatioCells:
    """Cells of populations: means low .. high and shares least .. most, each of shape (cells,)."""

    low: Reals
    high: Reals
    least: Reals
    most: Reals

    @classmethod
    def all_from(cls, share: float) -> RatioCells:
        """Divide the means of -1 .. 0 (a failure at m is one at -m), and all shares from this."""
        means = np.linspace(-1.0, 0.0, _FIRST_MEANS + 1)
        shares = np.linspace(share, 1.0, _FIRST_SHARES + 1) if share < 1 else np.ones(2)
        low, least = np.meshgrid(means[:-1], shares[:-1])
        high, most = np.meshgrid(means[1:], shares[1:])
        return cls(low.ravel(), high.ravel(), least.ravel(), most.ravel())

    @property
    def centres(self) -> RatioCells:
        """Return the middles of the cells, as cells of no width."""
        mean, share = (self.low + self.high) / 2, (self.least + self.most) / 2
        return RatioCells(mean, mean, share, share)

    def chosen(self, kept: NDArray[np.bool_]) -> RatioCells:
        """Return some of the cells."""
        return RatioCells(self.low[kept], self.high[kept], self.least[kept], self.most[kept])

    def divided(self, tau: float) -> RatioCells:
        """Halve each cell across its means or its shares, whichever width is more for its unit."""
        # A width of means is in units of tau, one of shares in units of the least share.
        wide = (self.high - self.low) / tau >= (self.most - self.least) / self.least
        mean, share = (self.low + self.high) / 2, (self.least + self.most) / 2
        first = np.where(wide, mean, self.high), np.where(wide, self.most, share)
        second = np.where(wide, mean, self.low), np.where(wide, self.least, share)
        return RatioCells(
            np.concatenate([self.low, second[0]]),
            np.concatenate([first[0], self.high]),
            np.concatenate([self.least, second[1]]),
            np.concatenate([first[1], self.most]),
        )

    def failures(self, gap: float, tau: float, users: int) -> Reals:
        """Bound the chance that a mean is off by tau or more, on either side, in each cell."""
        mirrored = RatioCells(-self.high, -self.low, self.least, self.most)
        return np.asarray(sum(cells._upward(gap, tau, users) for cells in (self, mirrored)))

    def _upward(self, gap: float, tau: float, users: int) -> Reals:
        """Bound the chance that i >= c(j)."""
        moved, counts = self.low + tau, np.arange(users + 1)
        one = (1 + gap * (self.most * (1 + self.high) - 1)) / 2
        other = (1 + gap * (self.least * (1 - self.high) - 1)) / 2
        seen = 1 + (2 * counts / users - 1) / gap  # B_hat + 1
        with np.errstate(over="ignore"):
            needed = (1 + moved)[:, None] / np.maximum(1 - moved, _TINY)[:, None] * seen
            first = np.ceil(users / 2 * (1 + gap * (needed - 1)) - _ON_THE_EDGE)
        first = np.clip(first, 0, users + 1).astype(np.int64)
        ones = _chances(users, one)[:, ::-1].cumsum(axis=1)[:, ::-1]
        tails = np.pad(ones, ((0, 0), (0, 1)))
        both = (_chances(users, other) * np.take_along_axis(tails, first, axis=1)).sum(axis=1)
        return np.asarray(np.where(moved > 1, 0.0, both))


def _chances(users: int, rates: Reals) -> Reals:
    """Return the chance of each count of +, shape (cells, users + 1)."""
    counts = np.arange(users + 1)
    factorials = np.array([lgamma(count + 1) for count in range(users + 1)])
    ways = factorials[-1] - factorials - factorials[::-1]
    logs = np.log(rates)[:, None] * counts + np.log1p(-rates)[:, None] * (users - counts)
    return np.asarray(np.exp(ways + logs))
