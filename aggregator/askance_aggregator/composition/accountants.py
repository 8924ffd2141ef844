"""Accountants: the (epsilon, delta) of many releases together. The sum, and Theorem III.3."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import fsum, inf, sqrt, tanh
from typing import Protocol

from askance_aggregator.composition.events import (
    Concentrated,
    Event,
    check_exact,
    log_inverse,
    outward,
    upward,
)
from askance_aggregator.composition.totals import EventCounts
from askance_client.errors import InvalidParameter


class Accountant(Protocol):
    """Says what releases cost, when their number and budgets were fixed before the first."""

    @property
    def name(self) -> str:
        """Name of the accountant in the literature."""
        ...

    def counts(self, event: Event) -> bool:
        """Return whether a composition that includes such an event has a bound."""
        ...

    def epsilon(self, totals: EventCounts, delta: Fraction) -> float:
        """An epsilon for which all of it is (epsilon, delta)-DP; infinity: it knows of none.

        Args:
          totals: numbers of events, by event.
          delta: 0 or more and below 1; it covers the deltas of approximate events too.

        Raises:
          InvalidParameter: no such delta, or an event that it does not count.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sum:
    """Basic composition: epsilons and deltas add up.

    Privacy: holds for any releases, also with adaptively chosen budgets.

    Source: KLNRS08 Claim 2.1; DRV10 Theorem III.1.
    """

    name: str = "sum"

    def counts(self, event: Event) -> bool:
        """All but zCDP, which has no epsilon of its own."""
        return not isinstance(event, Concentrated)

    def epsilon(self, totals: EventCounts, delta: Fraction) -> float:
        """The sum of epsilons, if delta covers the sum of deltas."""
        check(self, totals, delta)
        return least_sum(totals, delta)


@dataclass(frozen=True, slots=True)
class Advanced:
    """Theorem III.3, for budgets that may differ; never more than the sum.

    Privacy: with delta' = delta - sum delta_i the releases are (eps', delta)-DP for

        eps' = sqrt(2 ln(1/delta') sum eps_i^2) + sum eps_i (e^eps_i - 1) / (e^eps_i + 1):

    a release's privacy loss is within +-eps_i and its mean at most the second sum's term, so
    Azuma's inequality bounds their sum.

    Source: DRV10 Theorem III.3. Deviations: budgets that differ; the mean divided by e^eps + 1, as
      in Kairouz, Oh, Viswanath, "The composition theorem for differential privacy" (2015), Theorem
      3.5; the minimum with the sum, which the print passes for few releases.
    """

    name: str = "advanced"

    def counts(self, event: Event) -> bool:
        """Return whether the event has an epsilon."""
        return not isinstance(event, Concentrated)

    def epsilon(self, totals: EventCounts, delta: Fraction) -> float:
        """The lesser of eps' and the sum."""
        check(self, totals, delta)
        plain = least_sum(totals, delta)
        left = delta - totals.sum_of_deltas()
        if left <= 0:
            return plain
        squares, means = Fraction(0), []
        for event, count in totals:
            if not isinstance(event, Concentrated):
                squares += count * event.epsilon**2
                each = upward(event.epsilon)
                means.append(count * each * tanh(each / 2))
        spread = sqrt(2 * log_inverse(left) * upward(squares))
        return min(plain, outward(spread + fsum(means)))


def check(accountant: Accountant, totals: EventCounts, delta: Fraction) -> None:
    """Refuse what an accountant cannot bound."""
    check_exact(delta, "delta")
    if not 0 <= delta < 1:
        raise InvalidParameter(f"delta: expected 0 or more and below 1, found {float(delta):g}")
    for event, _ in totals:
        if not accountant.counts(event):
            raise InvalidParameter(
                f"composition: expected what accountant {accountant.name!r} counts,"
                f" found {type(event).__name__}"
            )


def least_sum(totals: EventCounts, delta: Fraction) -> float:
    """The sum of epsilons; infinity where there is none, or delta does not cover the deltas."""
    total = totals.sum_of_epsilons()
    return inf if total is None or totals.sum_of_deltas() > delta else upward(total)
