"""What happened on the lines of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from askance.client.messages import AckStatus
from askance.simulation.faults.faults import Fault


class Witness:
    """Sees every fault that took effect, and what devices were told of their reports."""

    def __init__(self) -> None:
        self.happened: Counter[Fault] = Counter()
        self.accepted: Counter[tuple[int, bytes]] = Counter()

    def heard(self, ordinal: int, acks: Iterable[tuple[bytes, AckStatus]]) -> None:
        """The aggregator said this to a device, whether it arrives or not."""
        for digest, status in acks:
            self.accepted[ordinal, digest] += status is AckStatus.ACCEPTED

    def told(self) -> str:
        """In a line: how many of which."""
        found = [
            f"{self.happened[fault]:,} {fault.value}" for fault in Fault if self.happened[fault]
        ]
        return ", ".join(found) or "none took effect"
