"""Interval of a mean by betting: from a tally, and narrow where reports vary little.

A bet with the stake s against the mean m has, after n reports, the wealth prod (1 + s (W_i - m)).
If m is the mean of every W_i, the expected wealth is 1, whatever their law. So a mean is rejected
if a bet against it reaches a threshold, and the interval has the means that neither a positive nor
a negative stake rejects. A stake that is fixed in advance makes the wealth a function of the tally.

Source: Waudby-Smith and Ramdas 2024 (section 4, hedged capital). Deviations: stakes are fixed, so
that the order of reports plays no part; and the threshold is less than Markov's 1 / alpha
(`Bets.threshold`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.landing import relative_landing

Reals = NDArray[np.float64]

_MOST_STAKE = 0.9  # times the span: no report takes all of the wealth
_LEAST_STAKE = 1e-5  # times that one
_STAKES = 24  # number of stakes that are compared
_TILTS = 1 + np.concatenate([[0.0], np.geomspace(0.02, 60, 24)])[np.newaxis, :]
_EDGES = np.geomspace(1e-2, 100, 50)  # of n E[Y^2]: each interval between two has its bound
_HALVINGS = 40  # of a span of values: the end of an interval is exact to 1e-12 of it


@dataclass(frozen=True, eq=False, slots=True)
class Bets:
    """Bets on the mean of values that are drawn independently from one law, whichever it is.

    Args:
        values: values that a draw may have, shape (symbols,), not all equal.
        n: number of draws, 1 or more.
    """

    values: Reals
    n: int

    def stake(self, mean: float, variance: float, alpha: float) -> float:
        """Return the stake with about the least `promised` half width.

        Args:
            mean: of the law that is expected.
            variance: of that law.
            alpha: chance of a miss, half on each side.
        """
        most = _MOST_STAKE / float(np.ptp(self.values))
        stakes: list[float] = (most * np.geomspace(_LEAST_STAKE, 1.0, _STAKES)).tolist()
        return min(stakes, key=lambda s: self.promised(s, mean, variance, alpha))

    def promised(self, stake: float, mean: float, variance: float, alpha: float) -> float:
        """Approximate half the width of `interval` for a law with this mean and variance."""
        sides = (self.threshold(side, mean, alpha / 2) for side in (stake, -stake))
        return max(sides) / (self.n * stake) + stake * variance / 2

    def threshold(self, stake: float, mean: float, alpha: float) -> float:
        """Return b with P[sum of ln(1 + s (W - m)) >= b] <= alpha, for every law of mean m.

        The wealth of a draw, 1 + s (W - m) = e^Y, is also the density of another law Q. By
        Chernoff's bound with its prefactor (`relative_landing`), for every tilt t >= 1,

            P[sum >= b] <= M(t)^n e^(-t b) min(1, A / sqrt(n)),  M(t) = E[e^(tY)] = E_Q[e^((t-1)Y)].

        All factors are bounded by x = E_Q[Y^2]. Let f(y) = (e^y - 1 - y) / y^2, which increases, so
        that e^y <= 1 + y + y^2 f(c) up to y = c. As E_Q[e^(-Y)] = 1, 0 <= E_Q[Y] <= f(-min Y) x; so

            M(t) <= 1 + (t - 1) f(-min Y) x + (t - 1)^2 f((t - 1) max Y) x.

        The law tilted by t has the density e^((t-1)Y) / M(t) to Q, and so a variance of Y of at
        least e^((t-1) min Y) / M(t) times Q's, which is at least x - (f(-min Y) x)^2; its mean is
        between 0 and f(-min Y) x + x (e^((t-1) max Y) - 1) / max Y.

        x is not known. If it is small, a steep tilt makes the bound small; if large, the prefactor.
        So b is the greatest over x of what the best tilt needs; x is taken between `_EDGES`, with
        each part at its worse end.
        """
        least, most = np.sort(np.log1p(stake * (np.array([self._least, self._most]) - mean)))
        square = max(least * least, most * most)
        edges = _EDGES[self.n * square > _EDGES] / self.n
        low = np.concatenate([[0.0], edges])[:, np.newaxis]
        high = np.concatenate([edges, [square]])[:, np.newaxis]
        up, drift = _TILTS - 1, _curve(-least)
        moments = 1 + high * up * (drift + up * _curve(up * most))
        spread = np.minimum(low - (drift * low) ** 2, high - (drift * high) ** 2)
        deviation = np.sqrt(np.maximum(spread, 0.0) * np.exp(up * least) / moments)
        centre = high * (drift + np.expm1(up * most) / most)
        reach = np.minimum(np.maximum(most, centre - least), most - least)
        with np.errstate(divide="ignore"):
            landed = np.minimum(relative_landing(_TILTS, deviation, reach) / np.sqrt(self.n), 1.0)
        needed = (self.n * np.log(moments) + np.log(landed) - log(alpha)) / _TILTS
        return max(float(needed.min(axis=1).max()), 0.0)

    def interval(self, counts: Reals, stake: float, alpha: float) -> tuple[float, float]:
        """Return the least and the greatest mean that bets of this size do not reject.

        Args:
            counts: number of draws of each value, shape (symbols,), of sum n.
            stake: chosen before the draws, above 0.
            alpha: chance of a miss, half on each side.
        """
        middle = float(counts @ self.values) / self.n
        low = self._end(counts, stake, alpha / 2, self._least, middle)
        return low, self._end(counts, -stake, alpha / 2, self._most, middle)

    @property
    def _least(self) -> float:
        return float(self.values.min())

    @property
    def _most(self) -> float:
        return float(self.values.max())

    def _end(self, counts: Reals, stake: float, alpha: float, far: float, near: float) -> float:
        """Bisect between a mean that the bet rejects, and one that it does not.

        Toward `far` the sum of ln(1 + s (W - m)) grows by at least n |s| / 2 per unit, and b by far
        less.
        """

        def rejects(mean: float) -> bool:
            log_wealth = float(counts @ np.log1p(stake * (self.values - mean)))
            return log_wealth >= self.threshold(stake, mean, alpha)

        if near == far or not rejects(far + (near - far) * 1e-9):
            return far  # a mean at the end itself needs every draw there
        for _ in range(_HALVINGS):
            middle = (far + near) / 2
            if rejects(middle):
                far = middle
            else:
                near = middle
        return far


def _curve(number: Reals | float) -> Reals:
    """Compute (e^y - 1 - y) / y^2, near 0 by its first terms."""
    y = np.asarray(number, dtype=np.float64)
    small = np.abs(y) < 1e-3
    away = np.where(small, 1.0, y)
    curve: Reals = np.where(small, 0.5 + y / 6 + y * y / 24, (np.expm1(away) - away) / away**2)
    return curve
