"""Composition by zero-concentration: rhos add up, and one conversion ends in (epsilon, delta)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np

from askance_aggregator.composition.accountants import check, least_sum
from askance_aggregator.composition.events import Event
from askance_aggregator.composition.rounding import log_inverse, outward, upward
from askance_aggregator.composition.totals import EventCounts

# Every order gives a bound, so a fixed grid is safe, and monotone; these are 0.8 % apart.
_ABOVE_ONE = np.geomspace(1e-7, 1e9, 4600)
_ORDERS = 1 + _ABOVE_ONE
_SHARE = np.log1p(-1 / _ORDERS) - np.log(_ORDERS) / _ABOVE_ONE


def epsilon_of_rho(rho: Fraction, delta: Fraction) -> float:
    """An epsilon for which rho-zCDP implies (epsilon, delta)-DP; infinity at delta 0.

    For any order a > 1 it may be a rho + (ln(1/delta) - ln a) / (a - 1) + ln(1 - 1/a); this is
    the least over a grid of orders. It is below rho + 2 sqrt(rho ln(1/delta)).

    rho is 0 or more; delta is 0 or more and below 1.

    Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy" (2020),
      Proposition 12; the weaker closed form is Bun, Steinke (2016), Proposition 1.3.
    """
    if rho == 0:
        return 0.0
    if delta == 0:
        return inf
    least = float((_ORDERS * upward(rho) + log_inverse(delta) / _ABOVE_ONE + _SHARE).min())
    return outward(max(least, 0.0))


@dataclass(frozen=True, slots=True)
class ZeroConcentrated:
    """Sums rhos: of zCDP releases their own, epsilon^2/8 of bounded range, epsilon^2/2 of pure.

    Privacy: an approximate release is delta_i-approximate (epsilon_i^2 / 2)-zCDP; the deltas add up
    and what is left of delta converts the sum of rhos. Never more than the sum of epsilons, where
    all have one.

    Source: Bun, Steinke (2016), Lemma 1.7 and section 8; see `rho_of`, `epsilon_of_rho`.
    """

    name: str = "zcdp"

    def counts(self, event: Event) -> bool:
        """Everything."""
        return True

    def epsilon(self, totals: EventCounts, delta: Fraction) -> float:
        """The conversion of the sum of rhos, or the sum of epsilons if that is less."""
        check(self, totals, delta)
        left = delta - totals.sum_of_deltas()
        if left < 0:
            return inf
        return min(least_sum(totals, delta), epsilon_of_rho(totals.sum_of_rhos(), left))
