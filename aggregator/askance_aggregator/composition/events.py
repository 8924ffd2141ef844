"""Events: a release, described by its strongest known guarantee; and how many of each there are.

An event says nothing about what several of them cost together; an accountant does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, log, log1p, nextafter
from types import MappingProxyType

from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Pure:
    """A release that is epsilon-differentially private; epsilon in nats, 0 or more."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        _not_negative(self.epsilon, "epsilon")


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """Release with a bounded range: epsilon-DP, and epsilon^2/8-zCDP.

    Its log-ratio between any two neighbours has a range of at most epsilon over all outputs, like
    the exponential mechanism's.

    Source: Cesar, Rogers, "Bounding, concentrating, and truncating" (2020), Lemma 3.2.
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        _not_negative(self.epsilon, "epsilon")


@dataclass(frozen=True, slots=True)
class Approximate:
    """A release that is (epsilon, delta)-differentially private."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _not_negative(self.epsilon, "epsilon")
        check_exact(self.delta, "delta")
        if not 0 <= self.delta < 1:
            raise InvalidParameter(f"delta: expected 0 .. 1, found {float(self.delta):g}")


@dataclass(frozen=True, slots=True)
class Concentrated:
    """A release that is rho-zero-concentrated differentially private, as the Gaussian's is.

    Source: Bun, Steinke, "Concentrated differential privacy" (TCC 2016).
    """

    rho: Fraction

    def __post_init__(self) -> None:
        _not_negative(self.rho, "rho")


Event = Pure | BoundedRange | Approximate | Concentrated


def check_exact(value: Fraction, name: str) -> None:
    """Budgets are whole numbers or fractions: sums of floats would round, NaN is in no order."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise InvalidParameter(
            f"{name}: expected a whole number or a Fraction, found {type(value).__name__}"
        )


def _not_negative(value: Fraction, name: str) -> None:
    check_exact(value, name)
    if value < 0:
        raise InvalidParameter(f"{name}: expected 0 or more, found {float(value):g}")


_OUTWARD = 1 + 2.0**-40  # the bounds here take some tens of operations, each to 2^-52


def upward(exact: Fraction) -> float:
    """The least float that is not below."""
    try:
        near = float(exact)
    except OverflowError:
        return inf
    return near if near >= exact else nextafter(near, inf)


def outward(computed: float) -> float:
    """A bound of 0 or more that was computed from floats rounded upward, raised by their errors."""
    return computed * _OUTWARD


def log_inverse(probability: Fraction) -> float:
    """ln(1 / p), at least."""
    near = -log1p(float(probability - 1)) if probability > Fraction(1, 2) else _log_of(probability)
    return outward(near)


def _log_of(probability: Fraction) -> float:
    """By integers: a delta may be below every float."""
    return log(probability.denominator) - log(probability.numerator)


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Events and how often each happened; nothing at all by default.

    Args:
      counts: each at least 1; it is copied and cannot be changed.
    """

    counts: Mapping[Event, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for event, count in self.counts.items():
            check_event(event, "totals")
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise InvalidParameter("totals: expected every event to be counted once or more")
        object.__setattr__(self, "counts", MappingProxyType(dict(self.counts)))

    @classmethod
    def of(cls, events: Iterable[Event]) -> EventCounts:
        """The totals of these."""
        return cls(Counter(events))

    def plus(self, events: Iterable[Event]) -> EventCounts:
        """Add more events to these totals."""
        return EventCounts(Counter(self.counts) + Counter(events))

    def __iter__(self) -> Iterator[tuple[Event, int]]:
        """Iterate over events and their numbers of occurrences."""
        return iter(self.counts.items())

    def sum_of_epsilons(self) -> Fraction | None:
        """Sum of all epsilons; None if an event has no epsilon of its own."""
        total = Fraction(0)
        for event, count in self:
            if isinstance(event, Concentrated):
                return None
            total += count * event.epsilon
        return total

    def sum_of_deltas(self) -> Fraction:
        """Sum of the deltas of approximate events."""
        return sum(
            (count * event.delta for event, count in self if isinstance(event, Approximate)),
            Fraction(0),
        )

    def sum_of_rhos(self) -> Fraction:
        """Sum of `rho_of` over all events."""
        return sum((count * rho_of(event) for event, count in self), Fraction(0))


def rho_of(event: Event) -> Fraction:
    """The rho for which a release is rho-zCDP (an approximate one: but for its delta).

    Source: Bun, Steinke, "Concentrated differential privacy" (TCC 2016), Proposition 1.4 (epsilon^2
      / 2) and section 8 (approximate zCDP); Cesar, Rogers (2020), Lemma 3.2 (epsilon^2 / 8).
    """
    match event:
        case Concentrated(rho):
            return rho
        case BoundedRange(epsilon):
            return epsilon * epsilon / 8
        case Pure(epsilon) | Approximate(epsilon, _):
            return epsilon * epsilon / 2


def check_event(event: Event, place: str) -> None:
    """Refuse what is no event."""
    if not isinstance(event, Pure | BoundedRange | Approximate | Concentrated):
        raise InvalidParameter(f"{place}: expected a release, found {type(event).__name__}")
