"""Observer of the service's events: counts, times and reasons, never a user's value or name."""

from __future__ import annotations

from typing import Protocol

import grpc

from askance_aggregator.store import StudyState
from askance_client.messages import AckStatus, Reason


class Observer(Protocol):
    """Interface for observers of the service.

    Called from the service's event loop and from studies' threads; each call returns at once
    and raises nothing.
    """

    def stream_opened(self) -> None:
        """A device holds a stream open."""

    def stream_closed(self) -> None:
        """Count a device that closed its stream."""

    def checked_in(self, seconds: float) -> None:
        """A unary check-in was answered, so long after it came."""

    def committed(self, reports: int, seconds: float) -> None:
        """Count reports that were made durable together, and the seconds that it took."""

    def acknowledged(self, status: AckStatus) -> None:
        """A report was acknowledged."""

    def refused(self, reason: Reason) -> None:
        """A device's refusal was counted."""

    def charged(self, nano_nats: int) -> None:
        """Count an answer and the charge that its device reported."""

    def round_opened(self) -> None:
        """A round is being asked."""

    def round_closed(self) -> None:
        """Count a round that closed."""

    def study_submitted(self) -> None:
        """Count an accepted study."""

    def study_concluded(self, state: StudyState) -> None:
        """A study has ended."""

    def call_refused(self, code: grpc.StatusCode) -> None:
        """A call ended with this status."""

    def peer_refused(self, reason: str) -> None:
        """Count a peer that was refused before it identified itself.

        Args:
          reason: one of a few fixed words, "too-many-streams"; a label of a metric.
        """

    def descriptors_exhausted(self) -> None:
        """Count a connection or file that could not be opened for want of descriptors."""

    def loop_lagged(self, seconds: float) -> None:
        """Note how much later than due the event loop came to a task."""


class Silent:
    """Observer that discards all events."""

    def stream_opened(self) -> None:
        """Do nothing."""

    def stream_closed(self) -> None:
        """Do nothing."""

    def checked_in(self, seconds: float) -> None:
        """Do nothing."""

    def committed(self, reports: int, seconds: float) -> None:
        """Do nothing."""

    def acknowledged(self, status: AckStatus) -> None:
        """Do nothing."""

    def refused(self, reason: Reason) -> None:
        """Do nothing."""

    def charged(self, nano_nats: int) -> None:
        """Do nothing."""

    def round_opened(self) -> None:
        """Do nothing."""

    def round_closed(self) -> None:
        """Do nothing."""

    def study_submitted(self) -> None:
        """Do nothing."""

    def study_concluded(self, state: StudyState) -> None:
        """Do nothing."""

    def call_refused(self, code: grpc.StatusCode) -> None:
        """Do nothing."""

    def peer_refused(self, reason: str) -> None:
        """Do nothing."""

    def descriptors_exhausted(self) -> None:
        """Do nothing."""

    def loop_lagged(self, seconds: float) -> None:
        """Do nothing."""


SILENT = Silent()
