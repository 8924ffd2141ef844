"""The record of what was released, in order."""

from __future__ import annotations

from askance_aggregator.bisection import least_whole
from askance_aggregator.composition.accountants import Accountant
from askance_aggregator.composition.events import Event, EventCounts, check_event
from askance_aggregator.composition.filters import Filter, Unlimited
from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter, PlanRefused


class ReleaseLedger:
    """Record of releases; the events of one call are recorded together or not at all.

    Privacy: that of its filter, for a caller that records every release *before* making it, and
    makes none that was refused.

    Args:
      budget: what may be recorded; everything by default.
    """

    def __init__(self, budget: Filter | None = None) -> None:
        self._budget = Unlimited() if budget is None else budget
        self._events: tuple[Event, ...] = ()
        self._totals = EventCounts()

    @property
    def events(self) -> tuple[Event, ...]:
        """Recorded events, in order."""
        return self._events

    @property
    def totals(self) -> EventCounts:
        """Number of occurrences of each event; the value does not change with the ledger."""
        return self._totals

    def epsilon(self, accountant: Accountant, delta: Rational) -> float:
        """Compute the cost of all events by this accountant; a delta of 1e-6 is a millionth."""
        return accountant.epsilon(self._totals, rational(delta, "delta"))

    def admits(self, *events: Event) -> bool:
        """Return whether `compose` would record these events."""
        return self._budget.within(self._tried(events))

    def compose(self, *events: Event) -> EventCounts:
        """Record these in order and return the new totals.

        Raises:
          InvalidParameter: one of them is no event, or none that the budget can be held against.
          PlanRefused: one of them would pass the budget. The error names the first such; nothing
            was recorded.
        """
        tried = self._tried(events)
        if not self._budget.within(tried):
            place = self._first_refused(events)
            raise PlanRefused(
                f"ledger: expected what is within the budget after {len(self._events)} releases,"
                f" found {_event_text(place, events)} to pass it; nothing was recorded"
            )
        self._events += events
        self._totals = tried
        return tried

    def _tried(self, events: tuple[Event, ...]) -> EventCounts:
        for place, event in enumerate(events):
            check_event(event, f"event {place}")
            if not self._budget.counts(event):
                raise InvalidParameter(
                    f"ledger: expected what {type(self._budget).__name__} counts,"
                    f" found {_event_text(place, events)}"
                )
        return self._totals.plus(events)

    def _first_refused(self, events: tuple[Event, ...]) -> int:
        """A filter is monotone, so the first that passes is found by halving."""

        def passes(number: int) -> bool:
            return not self._budget.within(self._totals.plus(events[:number]))

        return least_whole(passes, 0, len(events)) - 1


def _event_text(place: int, events: tuple[Event, ...]) -> str:
    return f"event {place} ({type(events[place]).__name__})"
