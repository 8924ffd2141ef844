"""Two independent counts of signs: tails of weighted sums of the two, and intervals of a ratio.

A number x on [-1, 1], which some users do not have, is asked as two components of a vector, each of
other users: x and -x, and -1 of those who lack it. A report is + with the chance (1 + g A) / 2,
where A is the component's mean and g the randomizer's agreement, whatever law x has. With q the
share of users who have the number and m its mean over them,

    A = q (1 + m) - 1,    B = q (1 - m) - 1,    D = (1 - M) (A + 1) - (1 + M) (B + 1) = 2 q (m - M).

So m is in its interval if (1 - m) (A_hat + 1) - (1 + m) (B_hat + 1), of mean 0 whatever q is, is
not too far from 0 (Fieller 1954), and q by A_hat + B_hat, of mean 2 q - 2 whatever m is.

**Tails.** For weights v, w and a tilt s, ln E[e^(s (v A_hat + w B_hat))] is

    n_A ln(cosh a + g_A A sinh a) + n_B ln(cosh b + g_B B sinh b),  a = s v / (n_A g_A), b likewise,

concave in the means, which are affine in what is not known (q or m): its greatest value is at an
end of the line or where its slope, a ratio of affine functions, is 0. Chernoff's bound takes it,
and the factor before it (`landing`) the least deviation of the tilted law, whose signs have means
between those at the ends. Any tilt gives a bound that holds, for every number of reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.landing import BERRY_ESSEEN_UNLIKE, relative_landing
from askance_aggregator.learners.learning import RatioInterval

Reals = NDArray[np.float64]

_STEEPEST = 3.0  # greatest tilt of a sign that is looked at, for weights of size 1
_SEARCH_STEPS = 24  # each leaves .618 of the interval
_GOLDEN = (5**0.5 - 1) / 2
_TINY = 1e-300
_POINTS = 17  # that are looked at together for an end of an interval
_ZOOMS = 5  # each between two neighbours: 16^-5 of the range in the end


@dataclass(frozen=True, eq=False)
class MeansLine:
    """Populations: the means A and B are affine in what is not known of them.

    Args:
        starts: of A and of B at 0, shape (2, *cases).
        slopes: likewise.
        low: the least that the unknown can be, of a shape that broadcasts with cases.
        high: the greatest.
    """

    starts: Reals
    slopes: Reals
    low: Reals
    high: Reals

    @classmethod
    def of_mean(cls, means: Reals, least: Reals, most: Reals) -> MeansLine:
        """Users with a mean, of whom a share in least .. most has the number."""
        return cls(np.full((2, *means.shape), -1.0), np.stack((1 + means, 1 - means)), least, most)

    @classmethod
    def of_share(cls, shares: Reals) -> MeansLine:
        """Users of whom a share has the number, whatever its mean: the unknown is q m."""
        slopes = np.stack((np.ones_like(shares), -np.ones_like(shares)))
        return cls(np.stack((shares - 1, shares - 1)), slopes, -shares, shares)

    def at(self, unknown: Reals) -> Reals:
        """Return A and B, shape (2, *cases)."""
        return self.starts + self.slopes * unknown


@dataclass(frozen=True, eq=False)
class SignPair:
    """Two counts of signs, of one number or of several.

    Args:
        numbers: of reports to the two components, of a shape that broadcasts with (2, *cases).
        gaps: agreements of their randomizers, > 0, likewise.
    """

    numbers: Reals
    gaps: Reals

    def log_moment(self, tilts: Reals, weights: Reals, line: MeansLine) -> Reals:
        """Return the greatest ln E[e^(s (v A_hat + w B_hat))] on a line of populations.

        Shapes: tilts s and the result cases, weights (2, *cases).
        """
        signs = tilts * weights / (self.numbers * self.gaps)
        pull = self.gaps * np.sinh(signs)  # of a mean, in cosh a + g A sinh a
        above = 2 * np.sinh(signs / 2) ** 2  # cosh a - 1

        def at(unknown: Reals) -> Reals:
            inside = above + pull * line.at(np.clip(unknown, line.low, line.high))
            return np.asarray((self.numbers * np.log1p(inside)).sum(axis=0))

        still, slope = 1 + above + pull * line.starts, pull * line.slopes
        turns = self.numbers * slope
        with np.errstate(divide="ignore", invalid="ignore"):
            top = -(turns * still[::-1]).sum(axis=0) / (turns * slope[::-1]).sum(axis=0)
        inner = np.nan_to_num(top, nan=0.0, posinf=0.0, neginf=0.0)
        return np.asarray(np.maximum(np.maximum(at(line.low), at(line.high)), at(inner)))

    def tilts(self, weights: Reals, line: MeansLine, shifts: Reals) -> Reals:
        """Find about the tilts with the least bound of P[v A_hat + w B_hat >= shift]."""
        scale = (self.numbers * self.gaps).min(axis=0)
        low, high = np.zeros_like(shifts), np.zeros_like(shifts) + _STEEPEST * scale

        def exponent(tilts: Reals) -> Reals:
            return self.log_moment(tilts, weights, line) - tilts * shifts

        for _ in range(_SEARCH_STEPS):
            one, two = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            left = exponent(one) <= exponent(two)
            low, high = np.where(left, low, one), np.where(left, two, high)
        return np.asarray((low + high) / 2)

    def landings(self, tilts: Reals, least: Reals, most: Reals, means: Reals) -> Reals:
        """Return the factors before Chernoff's bound, which are capped at 1.

        Args:
            tilts: shape cases.
            least: bound of the sizes of the weights from below, shape (2, *cases).
            most: from above.
            means: of the two components at ends between which all means are, shape (2, ends,
                *cases).
        """
        scale = self.numbers * self.gaps
        turned = np.tanh(tilts * most / scale)[:, None]
        leaning = np.abs(self.gaps[:, None] * means)
        bias = ((leaning + turned) / (1 + leaning * turned)).max(axis=1)
        variance = (self.numbers * (least / scale) ** 2 * (1 - bias**2)).sum(axis=0)
        reach = (most / scale * (1 + bias**2)).max(axis=0)
        deviations = np.sqrt(np.maximum(variance, _TINY))
        safe = np.maximum(tilts, _TINY)
        return np.asarray(relative_landing(safe, deviations, reach, BERRY_ESSEEN_UNLIKE))

    def log_chances(self, weights: Reals, line: MeansLine, shifts: Reals) -> Reals:
        """Bound ln P[v A_hat + w B_hat >= shift] on each line of populations, shape cases."""
        tilts = self.tilts(weights, line, shifts)
        rates = np.maximum(tilts * shifts - self.log_moment(tilts, weights, line), 0.0)
        sizes = np.abs(weights)
        ends = np.stack((line.at(line.low), line.at(line.high)), axis=1)
        landed = np.minimum(self.landings(tilts, sizes, sizes, ends), 1.0)
        return np.asarray(np.log(landed) - rates)


def ratio_intervals(pair: SignPair, seen: Reals, alpha: float) -> tuple[RatioInterval, ...]:
    """Enclose means and shares; each misses with a chance of at most alpha.

    Utility: of a number both hold together but for a chance of 2 alpha, for all numbers of reports
    and all populations.

    Args:
        pair: its counts, shape (2, numbers).
        seen: A_hat and B_hat, unbiased, shape (2, numbers).
        alpha: of one interval, both ends together.

    Returns:
        One per number.
    """
    chance = log(alpha / 2)
    by_points = SignPair(pair.numbers[..., None], pair.gaps[..., None])
    above = seen + 1
    both = above.sum(axis=0)

    def share_kept(side: int) -> Kept:
        def kept(shares: Reals) -> NDArray[np.bool_]:
            weights = np.full((2, *shares.shape), float(side))
            shifts = side * (both[:, None] - 2 + np.zeros_like(shares))
            beyond = side * (both[:, None] - 2 * shares) > 0
            chances = by_points.log_chances(weights, MeansLine.of_share(shares), shifts)
            return np.asarray(~beyond | (chances > chance))

        return kept

    centre = np.clip(both / 2, 0.0, 1.0)
    least, most = (_outermost(share_kept(side), centre, end) for side, end in ((1, 0.0), (-1, 1.0)))

    def mean_kept(side: int) -> Kept:
        def kept(means: Reals) -> NDArray[np.bool_]:
            # Below the estimate the true mean would make D as high as seen only by chance.
            weights = -side * np.stack((1 - means, -(1 + means)))
            shifts = (weights * seen[..., None]).sum(axis=0)
            beyond = (weights * above[..., None]).sum(axis=0) > 0
            line = MeansLine.of_mean(means, least[:, None], most[:, None])
            return np.asarray(~beyond | (by_points.log_chances(weights, line, shifts) > chance))

        return kept

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(both > 0, (above[0] - above[1]) / both, 0.0)
    middle = np.clip(ratio, -1.0, 1.0)
    low, high = (_outermost(mean_kept(side), middle, float(side)) for side in (-1, 1))
    rows = zip(low.tolist(), high.tolist(), least.tolist(), most.tolist(), strict=True)
    return tuple(RatioInterval(row[:2], row[2:]) for row in rows)


Kept: TypeAlias = Callable[[Reals], NDArray[np.bool_]]
"""From points, shape (numbers, points), to which of them are in the intervals."""


def _outermost(kept: Kept, centres: Reals, end: float) -> Reals:
    """Return the points towards an end beyond which no point is kept, rounded outward."""
    inner, outer = centres, np.full_like(centres, end)
    parts, rows = np.linspace(0.0, 1.0, _POINTS), np.arange(len(centres))
    for _ in range(_ZOOMS):
        points = inner[:, None] + (outer - inner)[:, None] * parts
        points[:, -1] = outer
        good = kept(points)
        last = np.where(good.any(axis=1), _POINTS - 1 - np.argmax(good[:, ::-1], axis=1), 0)
        inner, outer = points[rows, last], points[rows, np.minimum(last + 1, _POINTS - 1)]
    return outer
