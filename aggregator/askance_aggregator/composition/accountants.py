"""Accountants: the (epsilon, delta) of many releases together.

The sum; Theorem III.3; and the least epsilon that is true if no more than each (epsilon, delta) is
known.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, fsum, gcd, inf, lcm, sqrt, tanh
from typing import Any, Protocol

from askance_aggregator.composition.events import (
    Approximate,
    Concentrated,
    Event,
    EventCounts,
    check_exact,
    log_inverse,
    outward,
    upward,
)
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


_MOST_CELLS = 1 << 22  # of a distribution of losses
_CONVOLVED = Fraction(1, 10**15)  # of delta, a release: 25 times what convolving floats was off
_TAIL = 1e-15  # mass that a convolution may move to an infinite loss


@dataclass(frozen=True, slots=True)
class Optimal:
    """Convolves the privacy losses of randomized response, the worst of all pure releases.

    Privacy: every (epsilon, delta)-DP release is a post-processing of the one whose loss is
    infinite with delta, else +-epsilon with odds e^epsilon. Losses are rounded up to multiples of
    an interval: one that divides every epsilon, so that nothing is rounded, unless that takes more
    than 4 million cells. The convolution is of floats (fast Fourier transforms), and its errors
    grow with the releases: 10^-15 of delta are given up for each of them; where that is half of
    delta, Theorem III.3 stands in. Never more than that theorem or the sum.

    Source: Kairouz, Oh, Viswanath, "The composition theorem for differential privacy" (2015);
      Murtagh, Vadhan (TCC 2016); computed by the library dp-accounting (Meiser, Mohammadi 2018;
      Koskela, Jalko, Honkela 2020).
    """

    name: str = "optimal"

    def counts(self, event: Event) -> bool:
        """Return whether the event has an epsilon; a bounded range is used as its epsilon only."""
        return not isinstance(event, Concentrated)

    def epsilon(self, totals: EventCounts, delta: Fraction) -> float:
        """Compute the least epsilon, to a relative error of about 10^-5 where no loss is rounded.

        Above some 700 nats, where e^-epsilon is no float, the error is one interval.
        """
        check(self, totals, delta)
        bound = Advanced().epsilon(totals, delta)
        given_up = _CONVOLVED * sum(count for _, count in totals)
        if bound == 0 or totals.sum_of_deltas() > delta or given_up >= delta / 2:
            return bound
        found = float(_losses(totals).get_epsilon_for_delta(float(delta - given_up)))
        return min(bound, outward(found))


def _losses(totals: EventCounts) -> Any:
    """The distribution of the privacy loss of all of it, by dp-accounting."""
    interval = _interval(totals)
    composed = None
    # In one order, whatever order the events came in: floats are not associative.
    for event, count in sorted(totals, key=lambda item: _key(item[0])):
        many = _loss(event, interval).self_compose(count, _TAIL)
        composed = many if composed is None else composed.compose(many, _TAIL)
    return composed


def _key(event: Event) -> tuple[Fraction, Fraction]:
    assert not isinstance(event, Concentrated)
    return event.epsilon, event.delta if isinstance(event, Approximate) else Fraction(0)


def _loss(event: Event, interval: Fraction) -> Any:
    """The loss of the worst release with this guarantee, in units of the interval, rounded up."""
    try:
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    except ImportError:
        raise InvalidParameter(
            "composition: expected the package dp-accounting (askance[curator]) for accountant"
            " 'optimal', got none"
        ) from None
    epsilon, delta = _key(event)
    less = exp(-float(epsilon))
    masses: dict[int, float] = {}
    for loss, mass in ((epsilon, 1 / (1 + less)), (-epsilon, less / (1 + less))):
        cell = ceil(loss / interval)
        masses[cell] = masses.get(cell, 0.0) + mass * (1 - float(delta))
    return PrivacyLossDistribution.create_from_rounded_probability(
        masses, float(delta), upward(interval)
    )


def _interval(totals: EventCounts) -> Fraction:
    """The largest that divides every epsilon, or the least that makes no more cells than fit."""
    epsilons = [_key(event)[0] for event, _ in totals]
    denominator = lcm(*(epsilon.denominator for epsilon in epsilons))
    numerator = gcd(*(int(epsilon * denominator) for epsilon in epsilons))
    total = sum((count * _key(event)[0] for event, count in totals), Fraction(0))
    return max(Fraction(numerator, denominator), 2 * total / _MOST_CELLS)
