"""Spans of studies, submissions, rounds and commits for OpenTelemetry."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry

from askance_aggregator.server.process.metrics import PrometheusObserver

_PROPAGATOR = TraceContextTextMapPropagator()
_MAX_SUBMITTED = 1_024  # submissions whose study's run has not begun; a repeated one never does


class TracingObserver(PrometheusObserver):
    """Observer that records spans beside the metrics.

    A study's span is a child of its submission's, and a round's of its study's; a study that is
    resumed begins a trace of its own. A commit of reports has a span of its own trace, drawn
    with probability 1 / `commits_per_span`.

    Args:
      registry: as of `PrometheusObserver`.
      tracer: records every span that is begun.
      commits_per_span: number of commits, on average, of which one has a span; 1: all.
      draw: gives a number in range(n) for n; a span is no secret, so any source will do.
      now_ns: the time in nanoseconds since 1970.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        tracer: Tracer,
        *,
        commits_per_span: int,
        draw: Callable[[int], int] = random.randrange,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        super().__init__(registry)
        self._tracer = tracer
        self._commits_per_span = commits_per_span
        self._draw = draw
        self._now_ns = now_ns
        self._submitted: dict[bytes, Context] = {}
        self._running: dict[bytes, Context] = {}

    @contextmanager
    def submission_span(self, study: bytes, trace: str | None) -> Iterator[None]:
        """Record the acceptance of a study as a child of the analyst's span."""
        carrier = {} if trace is None else {"traceparent": trace}
        with self._span("submission", study, _PROPAGATOR.extract(carrier, Context())) as context:
            self._submitted[study] = context  # until the study's thread has begun
            while len(self._submitted) > _MAX_SUBMITTED:
                self._submitted.pop(next(iter(self._submitted)), None)
            yield

    @contextmanager
    def study_span(self, study: bytes) -> Iterator[None]:
        """Record the run of a study as a child of its submission, if that was here."""
        parent = self._submitted.pop(study, Context())
        with self._span("study", study, parent) as context:
            self._running[study] = context
            try:
                yield
            finally:
                self._running.pop(study, None)

    @contextmanager
    def round_span(self, study: bytes, number: int, epoch: int, asked: int) -> Iterator[None]:
        """Record a round as a child of its study."""
        parent = self._running.get(study, Context())
        counts = {"askance.round": number, "askance.epoch": epoch, "askance.asked": asked}
        with self._span("round", study, parent, **counts):
            yield

    def committed(self, reports: int, seconds: float) -> None:
        """Count the event, and record a sample of the commits."""
        super().committed(reports, seconds)
        if self._draw(self._commits_per_span) == 0:
            end_ns = self._now_ns()
            span = self._tracer.start_span(
                "commit",
                Context(),
                attributes={"askance.reports": reports},
                start_time=end_ns - int(seconds * 1e9),
            )
            span.end(end_ns)

    @contextmanager
    def _span(self, name: str, study: bytes, parent: Context, **counts: int) -> Iterator[Context]:
        """Record a span until the end of the block; yield the context of its children."""
        span: Span = self._tracer.start_span(
            name,
            parent,
            attributes={"askance.study": study.hex()[:16], **counts},
            start_time=self._now_ns(),
        )
        try:
            yield trace.set_span_in_context(span, Context())
        except BaseException as error:
            # Its type alone: the text may repeat what an analyst or a device sent.
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            span.end(self._now_ns())
