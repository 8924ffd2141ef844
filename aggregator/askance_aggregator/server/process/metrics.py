"""Metrics of an aggregator for Prometheus: counts, times and reasons, over HTTP."""

from __future__ import annotations

import io
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, TextIO, TypeAlias, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from askance_aggregator.server.devices import Observer, RoundProgress
from askance_aggregator.server.process.failures import KINDS
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.store import RoundAnswers, StudyState, WebhookFigures
from askance_aggregator.store.register import SeenDevices
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.addresses import Address
from askance_client.console.server import BoundedThreads
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, Reason

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
SilentDevices: TypeAlias = tuple[Sequence[SeenDevices], Sequence[RoundAnswers]]
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_REPORTS = tuple(float(4**power) for power in range(8))  # one commit takes 8,192 at most

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_OF_PROCESS = "Of the process that serves this page: each replica has its own."
_OF_STORE = "Of the store: the same at each replica."

LIVE, READY = "/live", "/ready"
MAX_AT_ONCE = 64  # connections: those of a few collectors and probes
_REQUEST_S = 10  # for a request to be whole
_ANSWER_S = 30  # for each write of an answer


class PrometheusObserver(Observer):
    """Observer that counts the service's events as metrics.

    Args:
      registry: where the metrics are collected; one of its own for every aggregator.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._streams = _gauge(registry, "streams", "Open streams of devices and gateways.")
        self._connected = _gauge(registry, "connected", "Devices that are connected.")
        self._rounds_begun = _counter(registry, "rounds", "Rounds that began to be asked.")
        self._check_ins = _histogram(
            registry, "check_in_seconds", "How long unary check-ins took to answer."
        )
        self._commit_seconds = _histogram(
            registry, "commit_seconds", "How long commits of reports took."
        )
        self._commit_reports = _histogram(
            registry, "commit_reports", "Reports made durable by one commit.", _REPORTS
        )
        self._spent = _counter(
            registry,
            "epsilon_spent_nats",
            "What counted answers cost their devices together, as these say.",
        )
        self._calls_refused = _counter(
            registry, "calls_refused", "Calls that were refused.", "code"
        )
        reports = _counter(registry, "reports", "Reports delivered.", "status")
        self._reports = {s: reports.labels(word(s)) for s in AckStatus}
        refusals = _counter(registry, "refusals", "Devices' refusals, counted.", "reason")
        self._refusals = {r: refusals.labels(word(r)) for r in Reason}
        self._commit_failures = _counter(
            registry, "commit_failures", "Operations of the store that its disk failed."
        )
        self._descriptors = _counter(
            registry,
            "descriptors_exhausted",
            "Files or connections that could not be opened for want of descriptors.",
        )
        in_a_row = _gauge(registry, "failures_in_a_row", "Failures since the last success.", "kind")
        self._in_a_row = {kind: in_a_row.labels(kind) for kind in KINDS}
        self._peers = _counter(
            registry,
            "peers_refused",
            "Peers that were refused before they said who they are.",
            "reason",
        )
        self._webhook_tries = _counter(
            registry,
            "webhook_tries",
            "Tries to deliver an end of a study to a webhook.",
            *("receiver", "outcome"),
        )
        self._lag = _histogram(
            registry,
            "event_loop_lag_seconds",
            "How much later than due the event loop came to a task.",
        )

    def population(self, count: Callable[[], int]) -> None:
        """Show how many devices are enrolled, asked anew each time the page is read."""
        what = "Devices enrolled, revoked ones included and forgotten ones not."
        self._show_stored("devices", what, count)

    def open_rounds(self, count: Callable[[], int]) -> None:
        """Show how many rounds take reports, asked anew each time the page is read."""
        self._show_stored("open_rounds", "Rounds that take reports.", count)

    def studies(self, count: Callable[[], Mapping[StudyState, int]]) -> None:
        """Show the studies of the store by state, asked anew each time the page is read.

        Other replicas submit and end studies too.
        """
        self.registry.register(_Stored[Mapping[StudyState, int]](count, {}, _of_studies))

    def webhooks(self, figures: Callable[[], Sequence[WebhookFigures]]) -> None:
        """Show the queue of each webhook, asked anew each time the page is read."""
        self.registry.register(_Stored[Sequence[WebhookFigures]](figures, (), _of_webhooks))

    def memory_limit(self, size_bytes: int) -> None:
        """Show the memory that the process may use."""
        what = "Bytes that the process may use: its control group's, or the machine's."
        _gauge(self.registry, "memory_limit_bytes", what).set(size_bytes)

    def store_size(self, size_bytes: Callable[[], int]) -> None:
        """Show the store's size, read each time the page is."""
        self._show_stored("store_bytes", "Bytes of the store on its disk.", size_bytes)

    def certificate(self, expires_unix_s: Callable[[], int]) -> None:
        """Show the end of the server's certificate, asked anew each time the page is read."""
        what = "End of the server's certificate, in seconds since 1970, UTC."
        name = "certificate_expires_timestamp_seconds"
        _gauge(self.registry, name, what).set_function(expires_unix_s)

    def rounds(self, rounds: Callable[[], Sequence[RoundProgress]]) -> None:
        """Show the open rounds, read each time the page is."""
        self.registry.register(_Stored[Sequence[RoundProgress]](rounds, (), _of_rounds))

    def _show_stored(self, name: str, what: str, read: Callable[[], int]) -> None:
        """Show a fact of the store."""
        gauge = Gauge(f"askance_{name}", f"{what} {_OF_STORE}", registry=self.registry)
        gauge.set_function(_last_known(read))

    def silence(
        self,
        seen: Callable[[], Sequence[SeenDevices]],
        rounds: Callable[[], Sequence[RoundAnswers]],
    ) -> None:
        """Show devices by their last call, and by what they owe to open rounds, by tag."""
        self.registry.register(
            _Stored[SilentDevices](lambda: (seen(), rounds()), ((), ()), _of_silence)
        )

    def stream_opened(self) -> None:
        self._streams.inc()

    def connected(self, devices: int) -> None:
        self._connected.set(devices)

    def stream_closed(self) -> None:
        self._streams.dec()

    def checked_in(self, seconds: float) -> None:
        self._check_ins.observe(seconds)

    def committed(self, reports: int, seconds: float) -> None:
        self._commit_reports.observe(reports)
        self._commit_seconds.observe(seconds)

    def acknowledged(self, status: AckStatus, reports: int = 1) -> None:
        self._reports[status].inc(reports)

    def refused(self, reason: Reason) -> None:
        self._refusals[reason].inc()

    def charged(self, nano_nats: int) -> None:
        """Count the charge as a float, for display; accounts are kept in whole nano-nats."""
        self._spent.inc(nano_nats / NANO_NATS_PER_NAT)

    def round_opened(self) -> None:
        self._rounds_begun.inc()

    def call_refused(self, code: grpc.StatusCode) -> None:
        self._calls_refused.labels(word(code)).inc()

    def peer_refused(self, reason: str) -> None:
        self._peers.labels(reason).inc()

    def commit_failed(self) -> None:
        self._commit_failures.inc()

    def descriptors_exhausted(self) -> None:
        self._descriptors.inc()

    def failures_in_a_row(self, kind: str, count: int) -> None:
        self._in_a_row[kind].set(count)

    def loop_lagged(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def webhook_tried(self, receiver: str, delivered: bool) -> None:
        """Count a try to deliver to a webhook."""
        self._webhook_tries.labels(receiver, "delivered" if delivered else "failed").inc()


class _Stored(Collector, Generic[T]):
    """Metrics of what is read anew; as it was last known while the store cannot be read."""

    def __init__(
        self, read: Callable[[], T], nothing: T, metrics: Callable[[T], Iterator[Metric]]
    ) -> None:
        self._read = read
        self._nothing = self._known = nothing
        self._metrics = metrics

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without samples, so that they are found by their names."""
        return self._metrics(self._nothing)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as of now."""
        with suppress(StoreError):
            self._known = self._read()
        return self._metrics(self._known)


def _of_studies(counts: Mapping[StudyState, int]) -> Iterator[Metric]:
    """Yield the number of studies in each state."""
    metric = GaugeMetricFamily(
        "askance_studies", f"Studies by state. {_OF_STORE}", labels=["state"]
    )
    for state, number in counts.items():
        metric.add_metric([word(state)], number)
    yield metric


def _of_webhooks(figures: Sequence[WebhookFigures]) -> Iterator[Metric]:
    """Yield the ends of studies by receiver and state, and the wait of the oldest."""
    ends = GaugeMetricFamily(
        "askance_webhook_ends",
        f"Ends of studies and epochs in the queue of a webhook. {_OF_STORE}",
        labels=["receiver", "state"],
    )
    oldest = GaugeMetricFamily(
        "askance_webhook_oldest_pending_seconds",
        f"Since the end that waits longest for its delivery; 0 without one. {_OF_STORE}",
        labels=["receiver"],
    )
    for one in figures:
        for state in ("pending", "failed", "delivered"):
            ends.add_metric([one.receiver, state], getattr(one, state))
        oldest.add_metric([one.receiver], one.oldest_pending_s)
    yield from (ends, oldest)


def _of_rounds(rounds: Sequence[RoundProgress]) -> Iterator[Metric]:
    """Yield progress and age of open rounds, by the first half of their studies' digests."""
    asked = GaugeMetricFamily(
        "askance_round_asked", f"Answers that a round asks for. {_OF_STORE}", labels=["study"]
    )
    answered = GaugeMetricFamily(
        "askance_round_answered",
        f"Answers and refusals that are in, at whichever replica. {_OF_STORE}",
        labels=["study"],
    )
    age = GaugeMetricFamily(
        "askance_round_age_seconds",
        f"Since it was first opened, by whichever process. {_OF_STORE}",
        labels=["study"],
    )
    for one in rounds:
        study = [one.study_digest.hex()[:16]]
        asked.add_metric(study, one.asked)
        answered.add_metric(study, one.answered)
        age.add_metric(study, one.age_s)
    yield from (asked, answered, age)
    yield GaugeMetricFamily(
        "askance_oldest_round_age_seconds",
        f"Age of the oldest open round; 0 without one. {_OF_STORE}",
        value=max((one.age_s for one in rounds), default=0.0),
    )


_LAST_SEEN = ("today", "week", "month", "older", "never")


def _of_silence(found: SilentDevices) -> Iterator[Metric]:
    """Yield devices by tag: by their last call, and by what they owe to open rounds."""
    seen, rounds = found
    by_call = GaugeMetricFamily(
        "askance_devices_last_seen",
        "Devices that may take part, by tag (empty: all) and last call: today, within 7 or 30"
        f" days, older, or never. {_OF_STORE}",
        labels=["tag", "seen"],
    )
    for one in seen:
        older = one.devices - one.month - one.never
        bins = (one.today, one.week - one.today, one.month - one.week, older, one.never)
        for name, number in zip(_LAST_SEEN, bins, strict=True):
            by_call.add_metric([one.tag, name], number)
    by_answer = GaugeMetricFamily(
        "askance_round_devices",
        "Devices that an open round asks, by tag (empty: all): answered (or refused), silent"
        f" (connected to any replica), or away. {_OF_STORE}",
        labels=["study", "epoch", "round", "tag", "state"],
    )
    for row in rounds:
        for name, number in (
            ("answered", row.answered),
            ("silent", row.silent),
            ("away", row.away),
        ):
            of = [row.study, str(row.epoch), str(row.number), row.tag, name]
            by_answer.add_metric(of, number)
    yield from (by_call, by_answer)


class MetricsPage:
    """A registry's metrics and the probes' answers over HTTP, served by a thread of its own."""

    def __init__(self, server: WSGIServer, thread: threading.Thread, address: Address) -> None:
        """Use `start`."""
        self._server = server
        self._thread = thread
        self.address = address

    @classmethod
    def start(
        cls, address: Address, registry: CollectorRegistry, is_serving: Callable[[], bool]
    ) -> MetricsPage:
        """Start to serve (see `pages_server`); raise NotOperable if it cannot listen there."""
        try:
            server = pages_server(address, registry, is_serving)
        except OSError as error:
            raise NotOperable(f"metrics: cannot listen on {address}: {error.strerror}") from None
        thread = threading.Thread(target=server.serve_forever, name="askance-pages", daemon=True)
        thread.start()
        return cls(server, thread, Address(address.host, server.server_port))

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def word(item: AckStatus | Reason | StudyState | grpc.StatusCode) -> str:
    """A status, reason or state as a label: "over-study-budget"."""
    return item.name.lower().replace("_", "-")


def _last_known(read: Callable[[], int]) -> Callable[[], float]:
    """Return what `read` returns, or what it last returned while the store cannot be read."""
    known = float("nan")

    def value() -> float:
        nonlocal known
        with suppress(StoreError):
            known = float(read())
        return known

    return value


def _gauge(registry: CollectorRegistry, name: str, what: str, *labels: str) -> Gauge:
    """Return a gauge of what the process counts for itself."""
    return Gauge(f"askance_{name}", f"{what} {_OF_PROCESS}", labels, registry=registry)


def _counter(registry: CollectorRegistry, name: str, what: str, *labels: str) -> Counter:
    return Counter(f"askance_{name}", f"{what} {_OF_PROCESS}", labels, registry=registry)


def _histogram(
    registry: CollectorRegistry, name: str, what: str, buckets: Sequence[float] = _SECONDS
) -> Histogram:
    text = f"{what} {_OF_PROCESS}"
    return Histogram(f"askance_{name}", text, registry=registry, buckets=buckets)


def pages_server(
    address: Address, registry: CollectorRegistry, is_serving: Callable[[], bool]
) -> WSGIServer:
    """Make a server that listens, and answers once its `serve_forever` runs.

    `/live` answers 200 while the process runs; `/ready` answers 200 while the health service says
    SERVING, and 503 otherwise; every other path is the page of metrics.

    Args:
      address: where it listens; port 0 takes a free one.
      registry: the metrics.
      is_serving: whether the health service says SERVING; called from the server's threads.
    """
    ((family, *_), *_) = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    kind = _ServerV6 if family == socket.AF_INET6 else _Server
    server = kind((address.host, address.port), _SilentHandler)
    server.set_app(_with_probes(make_wsgi_app(registry), is_serving))
    return server


def _with_probes(metrics: WSGIApplication, is_serving: Callable[[], bool]) -> WSGIApplication:
    def application(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environment["PATH_INFO"]
        if path == LIVE:
            return _answer(HTTPStatus.OK, b"live\n", start)
        if path == READY and is_serving():
            return _answer(HTTPStatus.OK, b"serving\n", start)
        if path == READY:
            return _answer(HTTPStatus.SERVICE_UNAVAILABLE, b"not serving\n", start)
        try:
            return metrics(environment, start)
        except Exception as error:  # a caller's headers, or a collector's
            _LOGGER.warning("the page of metrics failed", exc_info=error)
            return _answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed\n", start)

    return application


def _answer(status: HTTPStatus, text: bytes, start: StartResponse) -> Iterable[bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
    start(f"{status.value} {status.phrase}", headers)
    return [text]


class _Server(BoundedThreads, WSGIServer):
    """Server of the pages."""

    request_queue_size = MAX_AT_ONCE
    request_s = _REQUEST_S

    def server_bind(self) -> None:
        """Bind without the look-up of the host's full name, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failure in one line; a connection that broke is none."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _LOGGER.warning("a page failed", exc_info=error)


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _SilentHandler(WSGIRequestHandler):
    server: _Server
    timeout = _ANSWER_S

    def parse_request(self) -> bool:
        """Read the head of a request, which is all of it."""
        whole = super().parse_request()
        self.server.has_asked(self.connection)
        return whole

    def get_stderr(self) -> TextIO:
        """Drop the trace of a connection that broke: stderr holds JSON lines only."""
        return io.StringIO()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
