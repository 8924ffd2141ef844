"""Estimates that are the mean of a score a report: any table that has a left inverse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, sqrt

import numpy as np

from askance_aggregator.estimation import relative_landing
from askance_aggregator.planning.tails import Failure, Reals, Tail, least_of_convex

_STEEPEST = 60.0  # tilts beyond it, a score's range being 1, are not looked at


@dataclass(frozen=True, slots=True)
class Scored(Tail):
    """A term is the score of a symbol; the symbol's law is some mixture of a table's rows.

    Args:
        rows: for each level the probabilities of the symbols.
        scores: for each value of the answer the scores of the symbols, in units of the value.
    """

    rows: tuple[tuple[float, ...], ...]
    scores: tuple[tuple[float, ...], ...]

    @property
    def span(self) -> float:
        """The length of the widest interval that the scores of one value lie in."""
        return max(max(each) - min(each) for each in self.scores)

    def exponent(self, tau: float) -> float:
        """Return max over s of s tau - K(s), of the value and side where it is least."""
        # K is the worst ln E[e^(s (W - E[W]))] over mixtures of rows. With (P, m) the mixture's
        # moment and mean, which fill the convex hull of the rows', it is ln P - s m: concave, and
        # growing with P, so that it is greatest on an edge, between two rows. At least Hoeffding's
        # 2 (tau / span)^2, and so never worse than Bernstein's or Bennett's for the worst variance.
        least = min((side.rate for pair in _sides(self, tau) for side in pair), default=inf)
        return max(least, 2 * (tau / self.span) ** 2)

    def least_variance(self) -> float:
        """Variance at the value and the row where it is least."""
        rows, scores = np.asarray(self.rows), np.asarray(self.scores).T
        return float((rows @ scores**2 - (rows @ scores) ** 2).min())

    def failure(self, tau: float) -> Failure:
        """Chernoff's bound times `relative_landing`, both sides, of the worst value."""
        # A mixture's variance is at least the least of its parts', under the tilted law, too.
        pairs = _sides(self, tau)

        def both(users: float) -> float:
            return max(sum(side.bound(users) for side in pair) for pair in pairs)

        return both


@dataclass(frozen=True, slots=True)
class _Side:
    """Side of one value: its exponent, and the factor before the exponential."""

    rate: float
    tilt: float
    deviation: float

    def bound(self, users: float) -> float:
        if self.tilt * self.deviation == 0:
            return exp(-users * self.rate)
        # The scores' range is 1, so no term is further from its mean.
        before = relative_landing(self.tilt, self.deviation, 1.0) / sqrt(users)
        return exp(-users * self.rate) * min(1.0, before)


@lru_cache(maxsize=256)
def _sides(tail: Scored, tau: float) -> tuple[tuple[_Side, _Side], ...]:
    return tuple(_both_sides(tail, tau))


def _both_sides(tail: Scored, tau: float) -> Iterator[tuple[_Side, _Side]]:
    rows = np.asarray(tail.rows)
    for each in tail.scores:
        scores = np.asarray(each)
        span = float(scores.max() - scores.min())
        unit = (scores - scores.min()) / span  # in 0 .. 1
        yield _side(rows, unit, tau / span), _side(rows, 1 - unit, tau / span)


def _side(rows: Reals, unit: Reals, shift: float) -> _Side:
    means = rows @ unit
    least, tilt = least_of_convex(
        lambda s: _log_moment(rows, unit, means, s) - s * shift, 0.0, _STEEPEST
    )
    tilted = rows * np.exp(tilt * unit)
    tilted /= tilted.sum(axis=1, keepdims=True)
    centres = tilted @ unit
    variances = tilted @ unit**2 - centres**2
    return _Side(max(-least, 0.0), tilt, sqrt(max(float(variances.min()), 0.0)))


def _log_moment(rows: Reals, unit: Reals, means: Reals, s: float) -> float:
    """The greatest ln E[e^(s (W - E[W]))] of a mixture of two rows."""
    # Between rows x and y, at part w of y, the derivative of ln P - s m is 0 at
    # P = (P_y - P_x) / (s (m_y - m_x)).
    if s == 0:
        return 0.0
    moments = rows @ np.exp(s * unit)
    up, along = moments - moments[:, None], s * (means - means[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.nan_to_num((up / along - moments[:, None]) / up, nan=0.0)
    part = np.clip(part, 0.0, 1.0)
    best = np.log(moments[:, None] + part * up) - s * means[:, None] - part * along
    return float(best.max())
