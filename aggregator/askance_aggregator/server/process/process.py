"""A serving aggregator, from its configuration to the end of its last call."""

from __future__ import annotations

import asyncio
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from grpc import aio
from prometheus_client import CollectorRegistry, ProcessCollector

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.analysts.servicer import AnalystsServicer
from askance_aggregator.server.devices import (
    AggregatorServer,
    Observer,
    PeerLimits,
    ServerParts,
    ServiceFleet,
    Settings,
)
from askance_aggregator.server.process.certificates import expiry
from askance_aggregator.server.process.configuration import Configuration, StudyLimits, TlsFiles
from askance_aggregator.server.process.credentials import server_credentials
from askance_aggregator.server.process.failures import Failures
from askance_aggregator.server.process.files import NotOperable, read_needed
from askance_aggregator.server.process.health import Health
from askance_aggregator.server.process.logs import logger
from askance_aggregator.server.process.memory import share_one_arena
from askance_aggregator.server.process.metrics import MetricsPage, PrometheusObserver
from askance_aggregator.server.process.tokens import read_tokens
from askance_aggregator.server.studies import StudyManager, SubmissionLimits
from askance_aggregator.store import SqliteStore, Store
from askance_client.service import rare_collections

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE_S = 60.0  # how long a busy event loop may take to change what the health service says
_LAST_WORD_S = 0.5  # and when it is to end: a flooded event loop is not waited for
_OTHER_DESCRIPTORS = 256  # files, pages of metrics, check-ins' connections
_LOOK_EVERY_S = 1.0
_CERTIFICATE_DAYS = 30  # before its end an operator is warned
_ANALYSTS_THREADS = 4  # analysts' calls that wait for the disk at one time
_PLANNING_THREADS = 2  # studies that are planned at one time; each keeps a processor busy

_LOG = logger(__name__)


@dataclass(frozen=True, slots=True)
class Listening:
    """A process that is ready.

    Args:
      address: where devices and analysts call, as HOST:PORT.
      metrics: where the page of metrics is, likewise; None: there is none.
      studies_resumed: open studies that it resumes.
    """

    address: str
    metrics: str | None
    studies_resumed: int

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {
            "listening": self.address,
            "metrics": self.metrics,
            "studies_resumed": self.studies_resumed,
        }


def serve(
    configuration: Configuration,
    *,
    stopping: threading.Event,
    ready: Callable[[Listening], None],
    now_s: Callable[[], int] = system_now_s,
) -> None:
    """Serve until `stopping` is set, then drain: end calls, and commit what has arrived.

    Open studies stay open in the store; the next process resumes them.

    Args:
      configuration: settings of the operator.
      stopping: set by the caller to end the service.
      ready: called once, when every service answers.
      now_s: the time in Unix seconds.

    Raises:
      NotOperable: a file, an address or a key that is needed is missing or in use.
      StoreError: the store cannot be opened, or the address is in use.
    """
    credentials = None if configuration.tls is None else server_credentials(configuration.tls)
    enrolment = None
    if configuration.enrolment_key is not None:
        enrolment = read_tokens(configuration.enrolment_key, now_s)
    connections = _allow_connections(configuration.limits.connections)
    share_one_arena()
    with rare_collections(), ExitStack() as held:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, processor time and descriptors
        observer = PrometheusObserver(registry)
        health = Health()
        failures = Failures(observer, health.failing_soon)
        store = SqliteStore.open(configuration.store, failures)
        held.callback(store.close)
        observer.population(store.population)
        observer.store_size(store.size_bytes)
        observer.studies_found(store.count_studies())  # before any can be submitted and observed
        if configuration.tls is not None:
            _show_certificate(configuration.tls, observer, now_s)
        page = _metrics_page(configuration, registry, held)
        executor = held.enter_context(ThreadPoolExecutor(_ANALYSTS_THREADS, "askance-analysts"))
        planner = held.enter_context(ThreadPoolExecutor(_PLANNING_THREADS, "askance-planning"))
        beside = _Beside(configuration, store, observer, executor, planner, health, now_s)
        server = AggregatorServer.start(
            store,
            host=configuration.listen.bare_host,
            port=configuration.listen.port,
            settings=_settings(configuration.limits, connections),
            parts=ServerParts(
                credentials=credentials,
                enrolment=enrolment,
                observer=observer,
                services=(beside.add_to,),
            ),
        )
        held.callback(beside.manager.stop)  # after the service, for which its studies wait
        held.callback(server.stop)
        observer.rounds(server.hub.rounds)
        resumed = beside.manager.resume()
        asyncio.run_coroutine_threadsafe(beside.health.serving(), server.loop).result(_PATIENCE_S)
        listening = Listening(server.address, None if page is None else str(page.address), resumed)
        _LOG.info("serving", address=listening.address, studies_resumed=resumed)
        ready(listening)
        _wait(stopping, server, lambda: failures.look(store))
        _LOG.info("draining")
        going_down = asyncio.run_coroutine_threadsafe(beside.health.going_down(), server.loop)
        wait((going_down,), _LAST_WORD_S)
    _LOG.info("ended")


@contextmanager
def draining_at_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stopping = threading.Event()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def stop(_: int, __: FrameType | None) -> None:
        stopping.set()
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    for number in _SIGNALS:
        signal.signal(number, stop)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _metrics_page(
    configuration: Configuration, registry: CollectorRegistry, held: ExitStack
) -> MetricsPage | None:
    """Serve the page of metrics until `held` ends; None where the operator wants none."""
    if configuration.metrics is None:
        return None
    page = MetricsPage.start(configuration.metrics, registry)
    held.callback(page.stop)
    return page


class _Beside:
    """Services beside the devices' calls; built when the service has a fleet to offer."""

    manager: StudyManager

    def __init__(
        self,
        configuration: Configuration,
        store: Store,
        observer: Observer,
        executor: Executor,
        planner: Executor,
        health: Health,
        now_s: Callable[[], int],
    ) -> None:
        self.health = health
        self._configuration = configuration
        self._store = store
        self._observer = observer
        self._executor = executor
        self._planner = planner
        self._now_s = now_s

    def add_to(self, server: aio.Server, fleet: ServiceFleet) -> None:
        """Add the analysts' calls and the health service."""
        limits = self._configuration.limits
        self.manager = StudyManager(
            self._store,
            fleet,
            analysts=self._configuration.analysts,
            limits=SubmissionLimits(limits.open_studies, limits.user_nano_nats),
            now_s=self._now_s,
            observer=self._observer,
        )
        analysts = AnalystsServicer(
            self.manager, now_s=self._now_s, executor=self._executor, planner=self._planner
        )
        server.add_generic_rpc_handlers((analysts.handler(),))
        self.health.add_to(server)


def _allow_connections(connections: int) -> int:
    """Ask the system for a descriptor per connection; log where it gives fewer.

    Returns:
      How many connections can be held, so that descriptors are left for the store.
    """
    wanted = connections + _OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        _LOG.warning(
            "fewer descriptors than connections", descriptors=allowed, connections=connections
        )
    return max(1, min(connections, allowed - _OTHER_DESCRIPTORS))


def _settings(limits: StudyLimits, connections: int) -> Settings:
    return Settings(
        max_streams=limits.streams,
        max_check_ins=limits.check_ins,
        max_connections=connections,
        unproven=PeerLimits(
            limits.unproven_calls, limits.unproven_calls_per_address, limits.trusted_proxies
        ),
        handshake_s=limits.handshake_s,
        first_message_s=limits.first_message_s,
        idle_s=limits.idle_s,
        age_s=limits.age_s,
        retry_ms=limits.retry_ms,
    )


def _show_certificate(
    tls: TlsFiles, observer: PrometheusObserver, now_s: Callable[[], int]
) -> None:
    """Show the end of the certificate, and warn of one that ends soon."""
    expires = expiry(read_needed(tls.certificate, "certificate"))
    observer.certificate(expires)
    days = (expires - now_s()) // 86_400
    if days < _CERTIFICATE_DAYS:
        _LOG.warning("the certificate ends soon", days=days)


def _wait(stopping: threading.Event, server: AggregatorServer, look: Callable[[], None]) -> None:
    while not stopping.wait(_LOOK_EVERY_S):
        if not server.running:
            raise NotOperable("service: expected it to run until a signal, found it ended")
        look()
