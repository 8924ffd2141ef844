"""Callers for whom a console makes pages: its own, or each person who has logged in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from askance.console.history import FleetHistory
from askance.console.link import AggregatorLink


@dataclass(slots=True)
class ConsoleCaller:
    """A caller of the aggregator; what is read for one is shown to no other.

    Args:
      link: calls the aggregator with the caller's key or token.
      history: readings of the fleet that the caller was permitted to make.
      person: the subject at the issuer; empty: the console's own caller.
      live_pages: streams that are open for the caller.
    """

    link: AggregatorLink
    history: FleetHistory
    person: str = ""
    live_pages: int = 0

    @classmethod
    def of(
        cls, link: AggregatorLink, clock_s: Callable[[], float], person: str = ""
    ) -> ConsoleCaller:
        """Return a caller of whom nothing was read yet."""
        return cls(link, FleetHistory(link, clock_s), person)
