"""Sending of spans and metrics to an OpenTelemetry collector: OTLP over gRPC (extra `otel`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import grpc
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry

from askance_aggregator.server.process.configuration import TelemetrySettings
from askance_aggregator.server.process.files import read_needed
from askance_aggregator.server.process.logs import logger
from askance_aggregator.server.process.registry_metrics import metrics_data
from askance_aggregator.server.process.tracing import TracingObserver
from askance_client.version import __version__

_TIMEOUT_S = 5.0  # of one export, its retries included; the end of the service waits for it
_SPANS_EVERY_MS = 1_000.0

_LOG = logger(__name__)


class Telemetry:
    """An aggregator's spans and metrics on their way to a collector.

    Args:
      settings: where they go.
      registry: whose metrics are sent.
      instance: names the process among replicas.
      now_ns: the time in nanoseconds since 1970.
    """

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
