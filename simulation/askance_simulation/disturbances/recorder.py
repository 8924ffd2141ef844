"""Record of the faults on a fleet's connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from askance_client.messages import AckStatus
from askance_simulation.disturbances.faults import Fault


class FaultRecorder:
    """Recorder of every fault that took effect and of all acknowledgements to devices."""

    def __init__(self) -> None:
        self.happened: Counter[Fault] = Counter()
        self.accepted: Counter[tuple[int, bytes]] = Counter()

    def heard(self, ordinal: int, acks: Iterable[tuple[bytes, AckStatus]]) -> None:
        """Record acknowledgements sent to a device, whether or not they arrive."""
        for digest, status in acks:
            self.accepted[ordinal, digest] += status is AckStatus.ACCEPTED

    def summary(self) -> str:
        """Format the number of faults of each kind in one line."""
        found = [
            f"{self.happened[fault]:,} {fault.value}" for fault in Fault if self.happened[fault]
        ]
        return ", ".join(found) or "none took effect"
