"""Spans of the service's operations, for a tracing system; discarded unless one is configured."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext


class SpanRecorder:
    """Recorder of spans that discards all; a subclass sends those it needs.

    A span has counts and the digest of a study, never a user's id, value or address. Called from
    any thread; entering and leaving a span returns at once and raises nothing.
    """

    def submission_span(self, study: bytes, trace: str | None) -> AbstractContextManager[None]:
        """Enclose the acceptance of a study.

        `trace` is the analyst's trace context, as W3C's header `traceparent`; None: there is none.
        """
        return nullcontext()

    def study_span(self, study: bytes) -> AbstractContextManager[None]:
        """Enclose the run of a study in this process, to its end or the service's."""
        return nullcontext()

    def round_span(
        self, study: bytes, number: int, epoch: int, asked: int
    ) -> AbstractContextManager[None]:
        """Enclose a round, from its first request to its end.

        Args:
          study: its study's digest.
          number: of the round in its study or epoch.
          epoch: 0 for a study that collects once.
          asked: number of answers that it asks for.
        """
        return nullcontext()
