"""The reports that an aggregator has not acknowledged."""

from __future__ import annotations

from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus
from askance_client.service.observable import batches

MAX_UNACKNOWLEDGED = 1024


class Outbox:
    """Keeps each report's bytes until its request is acknowledged, whatever the acknowledgement.

    What is lost with the process is not lost: the ledger has it, and an aggregator that misses it
    sends the request again.
    """

    __slots__ = ("_reports",)

    def __init__(self) -> None:
        self._reports: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, request_digest: bytes, report: bytes) -> None:
        """Keep a report.

        Raises:
          RemoteProtocolError: the aggregator asks and asks and acknowledges nothing.
        """
        if len(self._reports) >= MAX_UNACKNOWLEDGED and request_digest not in self._reports:
            raise RemoteProtocolError(
                f"exchange: expected at most {MAX_UNACKNOWLEDGED} reports without an"
                " acknowledgement, found one more request"
            )
        self._reports[request_digest] = report

    def acknowledge(self, request_digest: bytes, status: AckStatus) -> None:
        """Forget a report: accepted or not, to send it again would change nothing."""
        self._reports.pop(request_digest, None)

    def batches(self, size: int) -> list[tuple[bytes, ...]]:
        """All that is kept, oldest first, at most `size` in each batch."""
        return batches(tuple(self._reports.values()), size)
