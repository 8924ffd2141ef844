"""Telemetry: spans and metrics, sent to a collector by OTLP over gRPC (extra `otel`)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from urllib.parse import urlsplit

import grpc
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

from askance_aggregator.server.process.configuration import TelemetrySettings
from askance_aggregator.server.process.files import read_needed
from askance_aggregator.server.process.logs import logger
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_client.version import __version__

_PROPAGATOR = TraceContextTextMapPropagator()
_MAX_SUBMITTED = 1_024  # submissions whose study's run has not begun; a repeated one never does


class TracingObserver(PrometheusObserver):
    """Observer that records spans beside the metrics.

    A study's span is a child of its submission's, and a round's of its study's; a study that is
    resumed begins a trace of its own. A commit of reports has a span of its own trace, drawn
    with probability 1 / `commits_per_span`.

    Args:
      commits_per_span: number of commits, on average, of which one has a span; 1: all.
      draw: gives a number in range(n) for n; a span is no secret, so any source will do.
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


_SCOPE = InstrumentationScope("askance")
_SINCE_START = AggregationTemporality.CUMULATIVE


def metrics_data(
    families: Iterable[Family], resource: Resource, start_ns: int, now_ns: int
) -> MetricsData:
    """Convert families of metrics; names, labels and values stay as they are on the page."""
    metrics = [metric for family in families for metric in _converted(family, start_ns, now_ns)]
    scope = ScopeMetrics(_SCOPE, metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource, [scope], schema_url="")])


def _converted(family: Family, start_ns: int, now_ns: int) -> Iterator[Metric]:
    samples = [one for one in family.samples if not one.name.endswith("_created")]
    if not samples:
        return
    if family.type == "histogram":
        points = [_distribution(part, start_ns, now_ns) for part in _by_labels(samples).values()]
        data: Histogram | Sum | Gauge = Histogram(points, _SINCE_START)
        yield Metric(family.name, family.documentation, "", data)
        return
    numbers = [
        NumberDataPoint(dict(one.labels), start_ns, now_ns, float(one.value)) for one in samples
    ]
    if family.type == "counter":
        data = Sum(numbers, _SINCE_START, is_monotonic=True)
    else:
        data = Gauge(numbers)
    yield Metric(samples[0].name, family.documentation, "", data)


def _by_labels(samples: Iterable[Sample]) -> dict[tuple[tuple[str, str], ...], list[Sample]]:
    """Samples of a histogram by their labels other than the bucket's bound."""
    parts: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in samples:
        labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        parts.setdefault(labels, []).append(sample)
    return parts


def _distribution(samples: list[Sample], start_ns: int, now_ns: int) -> HistogramDataPoint:
    """Convert one histogram: a bucket counts what lies between two bounds, not below one."""
    below = {float(s.labels["le"]): int(s.value) for s in samples if s.name.endswith("_bucket")}
    bounds = sorted(below)
    counts = [below[bounds[0]], *(below[b] - below[a] for a, b in pairwise(bounds))]
    labels: Mapping[str, str] = {k: v for k, v in samples[0].labels.items() if k != "le"}
    return HistogramDataPoint(
        attributes=dict(labels),
        start_time_unix_nano=start_ns,
        time_unix_nano=now_ns,
        count=below[bounds[-1]],
        sum=next(float(s.value) for s in samples if s.name.endswith("_sum")),
        bucket_counts=counts,
        explicit_bounds=bounds[:-1],  # the last is infinity
        min=None,  # type: ignore[arg-type]  # not known; the encoder leaves None out
        max=None,  # type: ignore[arg-type]  # likewise
    )


_TIMEOUT_S = 5.0  # of one export, its retries included; the end of the service waits for it
_SPANS_EVERY_MS = 1_000.0

_LOG = logger(__name__)


class Telemetry:
    """An aggregator's spans and metrics on their way to a collector."""

    def __init__(
        self,
        settings: TelemetrySettings,
        registry: CollectorRegistry,
        instance: str,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        plain = urlsplit(settings.endpoint).scheme == "http"
        credentials = None
        if settings.ca is not None and not plain:
            root = read_needed(settings.ca, "telemetry.ca")
            credentials = grpc.ssl_channel_credentials(root)
        self._settings = settings
        self._registry = registry
        self._now_ns = now_ns
        self._start_ns = now_ns()
        self._resource = Resource.create(
            {
                "service.name": "askance-aggregator",
                "service.version": __version__,
                "service.instance.id": instance,
            }
        )
        self._metrics = OTLPMetricExporter(
            settings.endpoint, plain, credentials, timeout=_TIMEOUT_S
        )
        self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        spans = OTLPSpanExporter(settings.endpoint, plain, credentials, timeout=_TIMEOUT_S)
        self._provider.add_span_processor(
            BatchSpanProcessor(spans, schedule_delay_millis=_SPANS_EVERY_MS)
        )
        self._stopping = threading.Event()
        self.observer = TracingObserver(
            registry,
            self._provider.get_tracer("askance", __version__),
            commits_per_span=settings.commits_per_span,
            now_ns=now_ns,
        )

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send metrics at the interval during the block, and all that is left at its end."""
        thread = threading.Thread(target=self._send_metrics, name="askance-telemetry", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()
            self._provider.shutdown()
            self._metrics.shutdown()

    def _send_metrics(self) -> None:
        while True:
            last = self._stopping.wait(self._settings.interval_s)
            try:
                families = self._registry.collect()
                now_ns = self._now_ns()
                self._metrics.export(metrics_data(families, self._resource, self._start_ns, now_ns))
            except Exception as error:  # the service goes on without its telemetry
                _LOG.error("metrics were not sent", exc_info=error)
            if last:
                return
