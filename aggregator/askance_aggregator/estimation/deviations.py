"""Deviation of the mean of decode values from its target, by the table's own law.

Chernoff's bound with the worst logarithm of a moment, times the normal law's factor (`landing`).
Any tilt gives a bound that holds, so that a search which ends too early costs width and never
coverage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.estimation.landing import (
    BERRY_ESSEEN,
    BERRY_ESSEEN_UNLIKE,
    relative_landing,
)
from askance_aggregator.estimation.statistics import Decode
from askance_aggregator.learners import Question, SampleMean
from askance_client.randomizers import COIN_SPACE, Channel

Reals = NDArray[np.float64]

_GENTLEST, _STEEPEST = 1e-4, 60.0  # tilts, the span being 1; gentler ones cancel in floats
_TILTS = 64  # that are looked at together
_PASSES = 4  # each between the neighbours of the one that was best before


@dataclass(frozen=True, eq=False, slots=True)
class Deviation:
    """Deviation to one side: the mean of users' decode values above or below its expectation.

    A user's law is a mixture of two rows. Of users drawn from a population they are any two:
    ln E[e^(sW)] - s E[W] is ln P - s m with (P, m) in the convex hull of the rows', is concave and
    grows with P, and so is greatest on an edge. Of a user at hand, whose number was rounded at
    random, they are neighbours; users' laws differ, and their logarithms add up.

    Args:
        rows: shape (levels, symbols).
        unit: for each symbol its decode value, scaled to 0..1; mirrored for the side below.
        ends: shape (2, edges): which two rows.
        constant: of Berry and Esseen.
    """

    rows: Reals
    unit: Reals
    ends: NDArray[np.int64]
    constant: float

    def log_moments(self, tilts: Reals) -> Reals:
        """The greatest ln E[e^(s (W - E[W]))] of a user, for each tilt s > 0."""
        means = self.rows @ self.unit
        moments = self.rows @ np.exp(np.outer(self.unit, tilts))
        first, second = self.ends
        start, up = moments[first], moments[second] - moments[first]
        along = np.outer(means[second] - means[first], tilts)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.nan_to_num((up / along - start) / up, nan=0.0)
        parts = np.clip(np.stack([np.zeros_like(up), inside, np.ones_like(up)]), 0.0, 1.0)
        found = np.log(start + parts * up) - np.outer(means[first], tilts) - parts * along
        worst: Reals = found.max(axis=(0, 1))
        return worst

    def landing(self, tilt: float) -> float:
        """A of `relative_landing`; a mixture varies at least as much as one of its parts."""
        return self.landings(np.array([tilt]))[0]

    def landings(self, tilts: Reals) -> list[float]:
        """Compute `landing` for each tilt."""
        weights = np.exp(np.outer(self.unit, tilts))
        total, first, second = (
            self.rows @ (weights * self.unit[:, None] ** power) for power in range(3)
        )
        least = (second / total - (first / total) ** 2).min(axis=0).tolist()
        return [
            relative_landing(tilt, sqrt(variance), 1.0, self.constant) if variance > 0 else inf
            for tilt, variance in zip(tilts.tolist(), least, strict=True)
        ]

    def rate(self, shift: float) -> tuple[float, float]:
        """About the greatest of s shift - K(s), never more than that, and the tilt s of it."""
        least, tilt = _least(lambda tilts: self.log_moments(tilts) - tilts * shift)
        return max(-least, 0.0), tilt

    def half_width(self, n: int, alpha: float) -> float:
        """About the least x with P[mean - expectation >= x] <= alpha, never less than that."""

        def widths(tilts: Reals) -> Reals:
            landed = np.array([log(min(each / sqrt(n), 1.0)) for each in self.landings(tilts)])
            found: Reals = (self.log_moments(tilts) + (landed - log(alpha)) / n) / tilts
            return found

        return min(_least(widths)[0], 1.0)


class Deviations(NamedTuple):
    """Both sides, in units of the span of the decode values.

    Args:
        span: from the least decode value to the greatest, on [-1, 1].
    """

    above: Deviation
    below: Deviation
    span: float


@lru_cache(maxsize=64)
def of_population(channel: Channel, decode: Decode) -> Deviations:
    """For users drawn from any population: about its mean."""
    edges = list(combinations(range(channel.levels), 2))
    return _deviations(channel, decode, edges, BERRY_ESSEEN)


@lru_cache(maxsize=64)
def of_sample(channel: Channel, decode: Decode) -> Deviations:
    """For any users at hand: about their mean."""
    return _deviations(channel, decode, list(pairwise(range(channel.levels))), BERRY_ESSEEN_UNLIKE)


def deviations(question: Question, channel: Channel, decode: Decode) -> Deviations:
    """Compute the deviation of an answer, from the sample's mean if that is the target."""
    kind = of_sample if isinstance(question.aim, SampleMean) else of_population
    return kind(channel, decode)


def _deviations(
    channel: Channel, decode: Decode, edges: list[tuple[int, int]], constant: float
) -> Deviations:
    rows = np.array(channel.table, dtype=np.float64) / COIN_SPACE
    least, span = min(decode), max(decode) - min(decode)
    unit = np.array([float((value - least) / span) for value in decode])
    ends = np.array(edges, dtype=np.int64).T
    above, below = (Deviation(rows, each, ends, constant) for each in (unit, 1 - unit))
    return Deviations(above, below, float(span))


def _least(value: Callable[[Reals], Reals]) -> tuple[float, float]:
    """About the least value at a tilt, and the tilt."""
    low, high = _GENTLEST, _STEEPEST
    best = inf, low
    for _ in range(_PASSES):
        tilts = np.geomspace(low, high, _TILTS)
        found = value(tilts)
        place = int(np.argmin(found))
        best = min(best, (float(found[place]), float(tilts[place])))
        low, high = float(tilts[max(place - 1, 0)]), float(tilts[min(place + 1, _TILTS - 1)])
    return best
