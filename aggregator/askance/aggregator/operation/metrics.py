"""What Prometheus is told of an aggregator: counts, times and reasons, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from wsgiref.simple_server import WSGIServer

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from askance.aggregator.operation.files import NotOperable
from askance.aggregator.store import StudyState
from askance.client.accounting import NANO_NATS_PER_NAT
from askance.client.addresses import Address
from askance.client.messages import AckStatus, Reason

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REPORTS = tuple(float(4**power) for power in range(8))  # one commit takes 8,192 at most


class PrometheusObserver:
    """Counts what the service tells (see `service.Observer`).

    Args:
      registry: where the metrics are collected; one of its own for every aggregator.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._streams = _gauge(registry, "askance_streams", "Devices that hold a stream open.")
        self._open_rounds = _gauge(registry, "askance_open_rounds", "Rounds that are being asked.")
        self._check_ins = Histogram(
            "askance_check_in_seconds",
            "How long unary check-ins took to answer.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._commit_seconds = Histogram(
            "askance_commit_seconds",
            "How long commits of reports took.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._commit_reports = Histogram(
            "askance_commit_reports",
            "How many reports were made durable by one commit.",
            buckets=_REPORTS,
            registry=registry,
        )
        self._spent = Counter(
            "askance_epsilon_spent_nats",
            "What counted answers cost their devices together, as the devices say.",
            registry=registry,
        )
        self._calls_refused = Counter(
            "askance_calls_refused", "Calls that were refused.", ["code"], registry=registry
        )
        reports = Counter("askance_reports", "Reports delivered.", ["status"], registry=registry)
        self._reports = {s: reports.labels(word(s)) for s in AckStatus}
        refusals = Counter(
            "askance_refusals", "Devices' refusals, counted.", ["reason"], registry=registry
        )
        self._refusals = {r: refusals.labels(word(r)) for r in Reason}
        studies = Gauge("askance_studies", "Studies.", ["state"], registry=registry)
        self._studies = {s: studies.labels(word(s)) for s in StudyState}

    def studies_found(self, states: Iterable[StudyState]) -> None:
        """Counts the studies that were there before anything was told."""
        for state in states:
            self._studies[state].inc()

    def population(self, count: Callable[[], int]) -> None:
        """Shows how many devices are enrolled, asked anew each time the page is read."""
        devices = _gauge(self._registry, "askance_devices", "Devices enrolled.")
        devices.set_function(lambda: float(count()))

    def stream_opened(self) -> None:
        """Counts it."""
        self._streams.inc()

    def stream_closed(self) -> None:
        """Counts it."""
        self._streams.dec()

    def checked_in(self, seconds: float) -> None:
        """Counts it."""
        self._check_ins.observe(seconds)

    def committed(self, reports: int, seconds: float) -> None:
        """Counts it."""
        self._commit_reports.observe(reports)
        self._commit_seconds.observe(seconds)

    def acknowledged(self, status: AckStatus) -> None:
        """Counts it."""
        self._reports[status].inc()

    def refused(self, reason: Reason) -> None:
        """Counts it."""
        self._refusals[reason].inc()

    def charged(self, nano_nats: int) -> None:
        """Counts it; a picture for people, while accounts are kept in whole nano-nats."""
        self._spent.inc(nano_nats / NANO_NATS_PER_NAT)

    def round_opened(self) -> None:
        """Counts it."""
        self._open_rounds.inc()

    def round_closed(self) -> None:
        """Counts it."""
        self._open_rounds.dec()

    def study_submitted(self) -> None:
        """Counts it."""
        self._studies[StudyState.OPEN].inc()

    def study_concluded(self, state: StudyState) -> None:
        """Counts it."""
        self._studies[StudyState.OPEN].dec()
        self._studies[state].inc()

    def call_refused(self, code: grpc.StatusCode) -> None:
        """Counts it."""
        self._calls_refused.labels(word(code)).inc()


class MetricsPage:
    """A registry's metrics over HTTP, served by a thread of its own."""

    def __init__(self, server: WSGIServer, thread: threading.Thread, address: Address) -> None:
        """Use `start`."""
        self._server = server
        self._thread = thread
        self.address = address

    @classmethod
    def start(cls, address: Address, registry: CollectorRegistry) -> MetricsPage:
        """Starts to serve; port 0 takes a free one.

        Raises:
          NotOperable: the address cannot be listened on.
        """
        try:
            server, thread = start_http_server(address.port, address.host, registry)
        except OSError as error:
            raise NotOperable(f"metrics: cannot listen on {address}: {error.strerror}") from None
        return cls(server, thread, Address(address.host, server.server_port))

    def stop(self) -> None:
        """Serves no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def word(item: AckStatus | Reason | StudyState | grpc.StatusCode) -> str:
    """A status, reason or state as a label: "over-study-budget"."""
    return item.name.lower().replace("_", "-")


def _gauge(registry: CollectorRegistry, name: str, what: str) -> Gauge:
    return Gauge(name, what, registry=registry)
