"""Filters: whether releases stay within a budget, when each one's is chosen by earlier answers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Protocol

import numpy as np

from askance_aggregator.composition.accountants import check, least_sum
from askance_aggregator.composition.events import (
    Concentrated,
    Event,
    EventCounts,
    check_exact,
    log_inverse,
    outward,
    upward,
)
from askance_client.errors import InvalidParameter

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


class Filter(Protocol):
    """Says whether totals are within a budget; it depends on nothing else."""

    def counts(self, event: Event) -> bool:
        """Return whether the filter can hold such an event against its budget."""
        ...

    def within(self, totals: EventCounts) -> bool:
        """Return whether these totals may be released; parts of admissible totals are."""
        ...


@dataclass(frozen=True, slots=True)
class Unlimited:
    """No budget: everything is recorded, and nothing claimed."""

    def counts(self, event: Event) -> bool:
        """Everything."""
        return True

    def within(self, totals: EventCounts) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, slots=True)
class SumFilter:
    """Filter by sums of epsilons and of deltas.

    Privacy: all releases together are (epsilon, delta)-DP, also when the caller chooses every
    release, its budget and the end by the outcome of earlier ones.

    Args:
      epsilon: nats; delta: 0 for a pure budget.

    Source: Rogers, Roth, Ullman, Vadhan, "Privacy odometers and filters" (2016): basic composition.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _check_budget(self.epsilon, self.delta)

    def counts(self, event: Event) -> bool:
        """Return whether the event has an epsilon."""
        return not isinstance(event, Concentrated)

    def within(self, totals: EventCounts) -> bool:
        """Decided with fractions."""
        total = totals.sum_of_epsilons()
        return total is not None and total <= self.epsilon and totals.sum_of_deltas() <= self.delta


@dataclass(frozen=True, slots=True)
class AdaptiveFilter:
    """Filter with Theorem III.3's rate for budgets that are chosen adaptively, by sums of squares.

    Theorem: let release i, given all earlier answers, be delta_i-approximately rho_i-zCDP (pure:
    rho_i = epsilon_i^2 / 2). A caller may choose rho_i and delta_i by the earlier answers and ends
    before sum rho_i passes rho or sum delta_i passes delta'', has released what is delta''-
    approximately rho-zCDP, and so (epsilon, delta' + delta'')-DP for every epsilon that rho-zCDP
    implies with delta'. For pure releases that is at most

        sqrt(2 ln(1/delta') sum epsilon_i^2) + sum epsilon_i^2 / 2.

    Privacy: the theorem with delta' = delta - spare and delta'' = spare. `within` compares a bound
    that is rounded outward, so it refuses by 10^-12 too early and never too late.

    Args:
      delta: of everything together, above 0.
      spare: the part of delta that is kept for the deltas of approximate releases.

    Source: Whitehouse, Ramdas, Rogers, Wu, "Fully-adaptive composition in differential privacy"
      (ICML 2023), the filters for approximate zCDP and for (epsilon, delta). Deviation: the
      conversion of `epsilon_of_rho`, which is tighter than the closed form.
    """

    epsilon: Fraction
    delta: Fraction
    spare: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _check_budget(self.epsilon, self.delta)
        check_exact(self.spare, "spare")
        if not 0 <= self.spare < self.delta:
            raise InvalidParameter(
                "filter: expected a spare delta of 0 or more and below delta,"
                f" found {float(self.spare):g} of {float(self.delta):g}"
            )

    def counts(self, event: Event) -> bool:
        """Everything."""
        return True

    def within(self, totals: EventCounts) -> bool:
        """Return whether the bound of the sums is at most epsilon."""
        if totals.sum_of_deltas() > self.spare:
            return False
        found = epsilon_of_rho(totals.sum_of_rhos(), self.delta - self.spare)
        return Fraction(found) <= self.epsilon


def _check_budget(epsilon: Fraction, delta: Fraction) -> None:
    check_exact(epsilon, "epsilon")
    check_exact(delta, "delta")
    if epsilon <= 0:
        raise InvalidParameter(f"filter: expected an epsilon above 0, found {float(epsilon):g}")
    if not 0 <= delta < 1:
        raise InvalidParameter(f"filter: expected a delta of 0 .. 1, found {float(delta):g}")
