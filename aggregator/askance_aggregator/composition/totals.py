"""Totals: the number of occurrences of each event, in no order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from askance_aggregator.composition.events import (
    Approximate,
    BoundedRange,
    Concentrated,
    Event,
    Pure,
)
from askance_client.errors import InvalidParameter


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
