"""Observer of the service: events, counts, times and spans, never a user's value or name."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import grpc

from askance_client.messages import AckStatus, Reason


class SpanRecorder:
    """Recorder of spans that discards all; a subclass sends those it needs.

    A span has counts and the digest of a study, never a user's id, value or address. Called from
    any thread; entering and leaving a span returns at once and raises nothing.
    """

    def submission_span(self, study: bytes, trace: str | None) -> AbstractContextManager[None]:
        """Enclose the acceptance of a study."""
        return nullcontext()

    def study_span(self, study: bytes) -> AbstractContextManager[None]:
        """Enclose the run of a study in this process, to its end or the service's."""
        return nullcontext()

    def round_span(
        self, study: bytes, number: int, epoch: int, asked: int
    ) -> AbstractContextManager[None]:
        """Enclose a round, from its first request to its end."""
        return nullcontext()


class Observer(SpanRecorder):
    """Observer of the service that discards all events; a subclass overrides those it needs.

    Called from the service's event loop and from studies' threads; each call returns at once
    and raises nothing.
    """

    def stream_opened(self) -> None:
        """Count a device or gateway that opened a stream."""

    def stream_closed(self) -> None:
        """Count a device or gateway that closed its stream."""

    def connected(self, devices: int) -> None:
        """Note how many devices are connected, those of gateways included."""

    def checked_in(self, seconds: float) -> None:
        """Count an answered check-in, and the seconds since it came."""

    def committed(self, reports: int, seconds: float) -> None:
        """Count reports that were made durable together, and the seconds that it took."""

    def acknowledged(self, status: AckStatus, reports: int = 1) -> None:
        """Count acknowledged reports."""

    def refused(self, reason: Reason) -> None:
        """Count a device's refusal."""

    def charged(self, nano_nats: int) -> None:
        """Count the charge that a device reported for one or more answers."""

    def round_opened(self) -> None:
        """Count a round that this process begins to ask."""

    def call_refused(self, code: grpc.StatusCode) -> None:
        """Count a call that ended with this status."""

    def peer_refused(self, reason: str) -> None:
        """Count a peer refused before it identified itself; `reason` is of a few fixed words."""

    def descriptors_exhausted(self) -> None:
        """Count a connection or file that could not be opened for want of descriptors."""

    def loop_lagged(self, seconds: float) -> None:
        """Note how much later than due the event loop came to a task."""


SILENT = Observer()
