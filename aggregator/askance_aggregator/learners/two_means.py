"""Difference of two means whose estimates are independent, from their intervals at all levels.

Let P be the least chance at which an end of an interval excludes the true mean. It is a p-value:
P is at most x with a chance of at most x. For two independent ones, P1 P2 is at most x with a
chance of at most x (1 - ln x) (Fisher 1925). So a difference is rejected, on one side, if every
pair of means that has it has a product P1 P2 of at most x, where x (1 - ln x) is half of alpha.
This holds for every number of users, and costs little: with normal intervals of equal width the
difference's is 1.1 times as wide as the normal law's, where the sum of both is 1.6 times as wide.

Intervals are known on a grid of levels. Between two of them the wider interval counts, so that a
grid costs width and never coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.learning import END_PART, Answer, SamplingLaw

Reals = NDArray[np.float64]

_LEVELS = np.concatenate([np.geomspace(1e-12, 1e-3, 8)[:-1], np.geomspace(1e-3, 0.999, 18)])
_CHANCES = END_PART * _LEVELS  # of each end
_UP_TO = np.append(_CHANCES[1:], 1.0)
"""Of a mean that an end at a level does not exclude, and at the next does: its P, at most."""
_HALVINGS = 60


@dataclass(frozen=True, eq=False, slots=True)
class MeanCurve:
    """Ends of a mean's intervals at the levels of the grid, least level first.

    Args:
        lows: shape (levels,), not falling.
        highs: shape (levels,), not rising.
        whole: the range of the mean.
    """

    lows: Reals
    highs: Reals
    whole: tuple[float, float]

    @classmethod
    def of(cls, law: SamplingLaw, whole: tuple[float, float]) -> MeanCurve:
        """The curve of an answer of one value."""
        answers = [law.at(level) for level in _LEVELS.tolist()]
        lows = np.maximum.accumulate([answer.low for answer in answers])
        highs = np.minimum.accumulate([answer.high for answer in answers])
        return cls(lows, highs, whole)


def difference_interval(one: MeanCurve, two: MeanCurve, alpha: float) -> tuple[float, float]:
    """Compute the interval of the second mean less the first.

    Utility: it misses with a chance of at most alpha, half on each side, if the estimates are
    independent.
    """
    product = fisher_product(alpha / 2)
    # The first mean's P is up to each of `_UP_TO`; the second's is then above this.
    places = np.searchsorted(_CHANCES, product / _UP_TO, side="right") - 1
    known, possible = places >= 0, product < _UP_TO  # else no second P is large enough
    lows = np.where(known, two.lows[places], two.whole[0]) - one.highs
    highs = np.where(known, two.highs[places], two.whole[1]) - one.lows
    return float(lows[possible].min()), float(highs[possible].max())


def equality_p_value(one: MeanCurve, two: MeanCurve) -> float:
    """Compute the p-value of equal means, both sides counted.

    Utility: valid if the estimates are independent: it is at most x with a chance of at most x.
    """
    # Were both means m, at most the first's high end and at least the second's low one.
    above = _greatest_product(one.highs, two.lows)
    below = _greatest_product(-one.lows, -two.highs)
    return min(2 * min(fisher(above), fisher(below)), 1.0)


def _greatest_product(highs: Reals, lows: Reals) -> float:
    """Return the greatest P1 P2 of a common mean, that of the first no more than its high ends."""
    places = np.searchsorted(lows, highs, side="right")  # the first level whose low end is above m
    seconds = np.append(_CHANCES, 1.0)[places]
    return float((_UP_TO * seconds).max())


def fisher(product: float) -> float:
    """Return P[P1 P2 <= product] for independent uniform P1 and P2."""
    return product * (1 - log(product)) if product > 0 else 0.0


@lru_cache(maxsize=64)
def fisher_product(chance: float) -> float:
    """Return the product that `fisher` gives this chance, rounded down."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fisher(middle) <= chance else (low, middle)
    return low


def apart(answers: tuple[Answer, Answer]) -> tuple[float, float]:
    """Return the interval of the difference that two joint intervals leave."""
    one, two = answers
    return two.low - one.high, two.high - one.low
