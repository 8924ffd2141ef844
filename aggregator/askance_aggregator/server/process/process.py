"""A serving aggregator, from its configuration to the end of its last call."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from grpc import aio
from prometheus_client import CollectorRegistry, ProcessCollector

from askance_aggregator.clock import system_now_s
from askance_aggregator.names import named_schema_from_toml
from askance_aggregator.server.callers import AuditRecorder, Callers, Gate
from askance_aggregator.server.devices import (
    AggregatorServer,
    CertifiedListener,
    ConnectionLimits,
    ServerParts,
    ServiceFleet,
    Settings,
)
from askance_aggregator.server.outer.settings import OuterSettings
from askance_aggregator.server.outer.supervisor import InnerSocket, OuterProcess, listen_at
from askance_aggregator.server.process.capacity import (
    allow_connections,
    descriptors_of,
    memory_limit_bytes,
    share_one_arena,
)
from askance_aggregator.server.process.configuration import (
    Configuration,
    DeviceTls,
    TelemetrySettings,
)
from askance_aggregator.server.process.control import taking_commands
from askance_aggregator.server.process.failures import Failures
from askance_aggregator.server.process.figures import FleetReader, process_counts
from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.health import Health
from askance_aggregator.server.process.logs import logger
from askance_aggregator.server.process.metrics import MetricsPage, PrometheusObserver
from askance_aggregator.server.process.moved_store import MovedStore
from askance_aggregator.server.process.reloading import (
    CurrentEnrolment,
    Reloader,
    Rereading,
    TlsParts,
)
from askance_aggregator.server.process.silence import SilenceReader
from askance_aggregator.server.process.tokens import counts_signer
from askance_aggregator.server.services.analysts import AnalystsServicer, gate_of
from askance_aggregator.server.services.operators import OperatorsServicer
from askance_aggregator.server.studies import (
    Collector,
    OuterCounter,
    StudyManager,
    SubmissionLimits,
    standing_of_approver,
)
from askance_aggregator.server.webhooks.deliverer import delivering
from askance_aggregator.store import AuditLog, Store
from askance_client.addresses import Address
from askance_client.errors import InvalidRecord, StoreError
from askance_client.garbage_collection import rare_collections
from askance_client.queries import Schema

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE_S = 60.0  # how long a busy event loop may take to change what the health service says
_LAST_WORD_S = 0.5  # and when it is to end: a flooded event loop is not waited for
_LOOK_EVERY_S = 1.0
_CERTIFICATE_DAYS = 30  # before its end an operator is warned
_COLLECTION_S = 5.0  # for the step of a deletion that is under way; the rest at the next start
_ANALYSTS_THREADS = 4  # analysts' calls that wait for the disk at one time
_VALVE = "askance_valve"  # before the names of its process's metrics
_PLANNING_THREADS = 2  # studies that are planned at one time; each keeps a processor busy

_LOG = logger(__name__)


@dataclass(frozen=True, slots=True)
class Listening:
    """A process that is ready.

    Args:
      address: where analysts call, and devices to be enrolled, as HOST:PORT.
      metrics: where the page of metrics is, likewise; None: there is none.
      certificates_port: where devices with certificates call; None: all devices call `address`.
    """

    address: str
    metrics: str | None
    studies_resumed: int
    certificates_port: int | None = None

    @classmethod
    def of(
        cls, address: str, devices_port: int | None, page: MetricsPage | None, resumed: int
    ) -> Listening:
        """Return the state of a server that has just started."""
        return cls(address, None if page is None else str(page.address), resumed, devices_port)

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object."""
        return {
            "listening": self.address,
            "metrics": self.metrics,
            "studies_resumed": self.studies_resumed,
            "certificates_port": self.certificates_port,
        }


@dataclass(frozen=True, slots=True)
class _Base:
    """Store, instruments and addresses on which services are built; open until a stack ends.

    Args:
      outer: the process at the public address; None: without TLS there is none.
      page: the page of metrics; None: the operator wants none.
    """

    store: Store
    registry: CollectorRegistry
    observer: PrometheusObserver
    health: Health
    failures: Failures
    page: MetricsPage | None
    outer: OpenAddress | None

    @classmethod
    def open(
        cls,
        configuration: Configuration,
        tls: TlsParts | None,
        moved: MovedStore | None,
        now_s: Callable[[], int],
        held: ExitStack,
    ) -> _Base:
        """Open all until `held` ends."""
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, processor time and descriptors
        observer, sending = _instruments(configuration.telemetry, registry, configuration.listen)
        health = Health()
        failures = Failures(observer, health.failing_soon)
        store = _open_store(configuration, failures, held, moved)
        held.enter_context(sending)  # ends before the store, which its metrics read
        _show_store(store, observer)
        held.enter_context(
            delivering(
                store.webhooks, configuration.webhooks, now_s=now_s, tried=observer.webhook_tried
            )
        )
        observer.memory_limit(memory_limit_bytes())
        _show_certificate(tls, observer, now_s)
        page = _metrics_page(configuration, registry, health, held)
        outer = None if tls is None else OpenAddress(configuration, tls, held)
        return cls(store, registry, observer, health, failures, page, outer)


def serve(
    configuration: Configuration,
    *,
    stopping: threading.Event,
    ready: Callable[[Listening], None],
    rereading: Rereading,
    moved: MovedStore | None = None,
    now_s: Callable[[], int] = system_now_s,
) -> None:
    """Serve until `stopping` is set, then drain: end calls, and commit what has arrived.

    Open studies stay open in the store; the next process resumes them. `ready` is called once, when
    every service answers; `rereading` says when and from where the configuration is read again.
    `moved` is the last move of the store that is known; a store from before it is not served.
    """
    tls = None if configuration.tls is None else TlsParts.of(configuration.tls, now_s)
    enrolment = CurrentEnrolment.of(configuration.enrolment_key, now_s)
    connections = allow_connections(
        configuration.limits.service.max_connections, descriptors_of(tls=tls is not None)
    )
    share_one_arena()
    with rare_collections(), ExitStack() as held:
        base = _Base.open(configuration, tls, moved, now_s, held)
        store, outer = base.store, base.outer
        executor = held.enter_context(ThreadPoolExecutor(_ANALYSTS_THREADS, "askance-analysts"))
        planner = held.enter_context(ThreadPoolExecutor(_PLANNING_THREADS, "askance-planning"))
        recorder = held.enter_context(_recording(store.audit, now_s))
        beside = _Beside(
            *(configuration, store, base.observer, executor, planner, base.health, now_s, recorder)
        )
        parts = ServerParts(
            certified=None if outer is None else outer.certified(now_s),
            enrolment=enrolment,
            observer=base.observer,
            services=(beside.add_to,),
            now_s=now_s,
        )
        server = _start(configuration, connections.held, store, parts)
        held.enter_context(beside.collecting())
        held.callback(beside.manager.stop)  # after the service, for which its studies wait
        held.callback(server.stop)
        held.enter_context(taking_commands(configuration.store, store, server.loop, now_s))
        address = server.address if outer is None else outer.address
        beside.announce(server, address)
        resumed = beside.resume(server, address)
        if outer is not None:
            ProcessCollector(_VALVE, lambda: server.valve_pid, registry=base.registry)
            outer.start()
        held.callback(_leave, store)  # first of all: the devices are about to be another replica's
        devices_port = None if outer is None else server.port
        ready(Listening.of(address, devices_port, base.page, resumed))
        connections.log(usual=Settings().max_connections)

        def change(found: Configuration) -> None:
            beside.change(server, connections.held, found)
            if outer is not None:
                outer.change(found)

        reloader = Reloader(configuration, rereading, tls, enrolment, change, now_s)
        _wait(stopping, server, (partial(base.failures.look, store), reloader.look))
        _go_down(base.health, server)
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


def _open_store(
    configuration: Configuration, failures: Failures, held: ExitStack, moved: MovedStore | None
) -> Store:
    """Open the store as a replica with a name, until `held` ends."""
    store = configuration.store.open(failures)
    held.callback(store.close)
    if moved is not None:
        moved.check(store.audit, f"store {configuration.store}")
    store.replicas.register(
        configuration.replica or f"{socket.gethostname()}:{os.getpid()}",
        needs_approval=configuration.approval,
    )
    return store


def _leave(store: Store) -> None:
    """Take this process off the list of replicas; without the store it is dropped in time."""
    with suppress(StoreError):
        store.replicas.leave()


def _metrics_page(
    configuration: Configuration, registry: CollectorRegistry, health: Health, held: ExitStack
) -> MetricsPage | None:
    """Serve the page of metrics until `held` ends; None where the operator wants none."""
    if configuration.metrics is None:
        return None
    page = MetricsPage.start(configuration.metrics, registry, lambda: health.is_serving)
    held.callback(page.stop)
    return page


def _schemas_in(files: Sequence[Path]) -> tuple[Schema, ...]:
    try:
        return tuple(map(named_schema_from_toml, files))
    except InvalidRecord as error:
        raise NotOperable(f"schemas: {error}") from None


class _Beside:
    """Services beside the devices' calls; built when the service has a fleet to offer."""

    manager: StudyManager
    gate: Gate
    silence: SilenceReader

    def __init__(
        self,
        configuration: Configuration,
        store: Store,
        observer: PrometheusObserver,
        executor: Executor,
        planner: Executor,
        health: Health,
        now_s: Callable[[], int],
        recorder: AuditRecorder,
    ) -> None:
        self.health = health
        self._recorder = recorder
        self._configuration = configuration
        self._names = configuration.analysts
        self._schemas = _schemas_in(configuration.schemas)
        self._store = store
        self._observer = observer
        self._executor = executor
        self._planner = planner
        self._now_s = now_s
        self._stopping = threading.Event()
        self.collector = Collector(
            store,
            configuration.keep,
            now_s,
            self._stopping.wait,
            configuration.devices.lapse_after_days,
        )

        self.outer_counter = OuterCounter(store)

    def resume(self, server: AggregatorServer, address: str) -> int:
        """Go on with open studies, then report all as served; return how many studies go on."""
        resumed = self.manager.resume()
        asyncio.run_coroutine_threadsafe(self.health.serving(), server.loop).result(_PATIENCE_S)
        _LOG.info("serving", address=address, studies_resumed=resumed)
        return resumed

    def announce(self, server: AggregatorServer, address: str) -> None:
        """Show the open rounds, and let other replicas know this one and its counts."""
        silence, counts = self.silence, partial(process_counts, self._observer.registry)
        self._store.replicas.announce(address, counts, silence.own_rounds)
        self._observer.silence(silence.seen, silence.rounds)
        self._observer.rounds(server.hub.rounds)

    def change(self, server: AggregatorServer, connections: int, found: Configuration) -> None:
        """Give other analysts' keys and limits to the parts that keep them."""
        limits = found.limits
        self._names = found.analysts
        self.manager.change(
            self._configuration.callers.signing.union(found.analysts),
            self._submission_limits(found),
        )
        self.figures.user_nano_nats = limits.user_nano_nats
        server.change(replace(limits.service, max_connections=connections))
        server.loop.call_soon_threadsafe(self.gate.change, limits.callers)

    def _submission_limits(self, found: Configuration) -> SubmissionLimits:
        """Return the limits of a configuration that may have been read again since the start."""
        return SubmissionLimits(
            found.limits.open_studies,
            found.limits.user_nano_nats,
            keep=self._configuration.keep,
            quotas=found.quotas,
            approval=self._configuration.approval,
            seen_within_days=found.devices.seen_within_days,
        )

    def add_to(self, server: aio.Server, fleet: ServiceFleet) -> None:
        """Add the analysts' calls and the health service."""
        limits = self._configuration.limits
        self.manager = StudyManager(
            self._store,
            fleet,
            analysts=self._configuration.callers.signing.union(self._names),
            limits=self._submission_limits(self._configuration),
            now_s=self._now_s,
            observer=self._observer,
            deleted=self.collector.wake,
            ended=self.outer_counter.wake,
            may_approve=lambda approval, analyst_key: standing_of_approver(
                approval, analyst_key, callers.may_approve, callers.names_of
            ),
        )
        manager = self.manager
        callers = Callers(
            lambda: manager.analysts,
            self._configuration.callers.named,
            self._configuration.callers.tokens(self._now_s),
            names=lambda: self._names,
        )
        self.gate = gate_of(
            callers,
            self._recorder,
            executor=self._executor,
            now_s=self._now_s,
            limits=limits.callers,
        )
        analysts = AnalystsServicer(
            manager,
            now_s=self._now_s,
            executor=self._executor,
            planner=self._planner,
            gate=self.gate,
            observer=self._observer,
            schemas=self._schemas,
            counts_signer=counts_signer(self._configuration.enrolment_key),
        )
        self.figures = FleetReader(
            self._observer.registry, self._store, limits.user_nano_nats, self._now_s
        )
        self.silence = SilenceReader(self._store, fleet.asked_users, self._now_s)
        operators = OperatorsServicer(
            manager,
            gate=self.gate,
            figures=self.figures.read,
            silence=self.silence.read,
            executor=self._executor,
        )
        server.add_generic_rpc_handlers((analysts.handler(), operators.handler()))
        self.health.add_to(server)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Delete what is due, and count releases, in threads of their own, during a block."""
        chores = ((self.collector, "askance-collector"), (self.outer_counter, "askance-outer"))
        threads = [
            threading.Thread(target=chore.run, args=(self._stopping,), name=name, daemon=True)
            for chore, name in chores
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for chore, _ in chores:
                chore.wake()
            for thread in threads:
                thread.join(_COLLECTION_S)


def _show_store(store: Store, observer: PrometheusObserver) -> None:
    """Show what the store has, and warn of one that goes on from a backup."""
    observer.population(lambda: store.register.count().enrolled)
    observer.open_rounds(lambda: store.open_rounds().number)
    observer.store_size(store.size_bytes)
    observer.studies(store.listing.count)
    observer.webhooks(store.webhooks.figures)
    _warn_of_restores(store)


def _warn_of_restores(store: Store) -> None:
    """Say which open studies go on from a backup: what came after it, this store does not know."""
    restores = store.restores()
    if not restores:
        return
    last = restores[-1]
    _LOG.warning(
        "the store was restored; later reports and studies are unknown to it",
        restored_unix_s=last.restored_unix_s,
        backup_unix_s=last.backup_unix_s,
        open_studies=[digest.hex()[:16] for digest in store.listing.open_studies()],
    )


def _show_certificate(
    tls: TlsParts | None, observer: PrometheusObserver, now_s: Callable[[], int]
) -> None:
    """Show the end of the certificate, if there is one, and warn of one that ends soon."""
    if tls is None:
        return
    shown = tls.certified
    observer.certificate(lambda: shown.ends_unix_s)
    days = (shown.ends_unix_s - now_s()) // 86_400
    if days < _CERTIFICATE_DAYS:
        _LOG.warning("the certificate ends soon", days=days)


def _start(
    configuration: Configuration, connections: int, store: Store, parts: ServerParts
) -> AggregatorServer:
    """Start the devices' service at the address of the configuration."""
    tls = configuration.tls
    settings = replace(configuration.limits.service, max_connections=connections)
    listen = configuration.listen if tls is None else tls.devices.listen
    if parts.certified is not None:
        guard = ConnectionLimits(trusted=settings.unproven.trusted)
        settings = replace(settings, guard=guard)
    return AggregatorServer.start(
        store,
        host=listen.bare_host,
        port=listen.port,
        settings=settings,
        parts=parts,
    )


def _go_down(health: Health, server: AggregatorServer) -> None:
    """Let the health service say so, if the event loop has the time."""
    _LOG.info("draining")
    going_down = asyncio.run_coroutine_threadsafe(health.going_down(), server.loop)
    wait((going_down,), _LAST_WORD_S)


def _wait(
    stopping: threading.Event, server: AggregatorServer, looks: Sequence[Callable[[], None]]
) -> None:
    while not stopping.wait(_LOOK_EVERY_S):
        if not server.running:
            raise NotOperable("service: expected it to run until a signal, found it ended")
        for look in looks:
            look()


@contextmanager
def _recording(log: AuditLog, now_s: Callable[[], int]) -> Iterator[AuditRecorder]:
    """Provide a recorder; at the end record the refusals that were only counted."""
    # The number and the digest of the last entry are logged at the start and at the end: `audit
    # verify --expect` then finds a log that was cut off.
    recorder = AuditRecorder(log, now_s)
    _log_head(log)
    try:
        yield recorder
    finally:
        try:
            recorder.flush(all_of_them=True)
        except StoreError as error:
            _LOG.error("refusals were not recorded", error=str(error))
        _log_head(log)


def _log_head(log: AuditLog) -> None:
    try:
        head = log.head()
    except StoreError as error:
        _LOG.warning("the audit log cannot be read", error=str(error))
        return
    if head is not None:
        _LOG.info("audit log", entry=head.number, digest=head.digest.hex())


def _instruments(
    settings: TelemetrySettings | None, registry: CollectorRegistry, listen: Address
) -> tuple[PrometheusObserver, AbstractContextManager[None]]:
    """Make the service's observer, and a block during which spans and metrics are sent."""
    # settings: where spans and metrics are sent; None: nowhere.
    # registry: where the metrics are collected, for the page and for sending.
    # listen: where the process listens; with the machine's name it tells replicas apart.
    if settings is None:
        return PrometheusObserver(registry), nullcontext()
    try:
        from askance_aggregator.server.process.telemetry import Telemetry
    except ImportError as error:
        raise NotOperable(
            f"telemetry: expected OpenTelemetry, got {error} (pip install 'askance[otel]')"
        ) from None
    telemetry = Telemetry(settings, registry, f"{socket.gethostname()}:{listen.port}")
    return telemetry.observer, telemetry.sending()


class OpenAddress:
    """The outer process at the public address, and the socket by which it is passed on.

    Args:
      tls: its parts; another certificate is read from them at a reload.
    """

    def __init__(self, configuration: Configuration, tls: TlsParts, held: ExitStack) -> None:
        self._configuration = configuration
        self._tls = tls
        self._listening = held.enter_context(listen_at(configuration.listen))
        self._inner = held.enter_context(InnerSocket())
        # Ended after the service is, whose last answers it passes on.
        self._held = held.enter_context(ExitStack())
        self._process: OuterProcess | None = None

    @property
    def address(self) -> str:
        """The public address."""
        return str(self._configuration.listen.at_port(self._listening.getsockname()[1]))

    def certified(self, now_s: Callable[[], int]) -> CertifiedListener:
        """Return the devices' listener."""
        certified, devices = self._tls.certified, self._devices
        connect = self._configuration.connect
        return CertifiedListener(
            certified.credentials(),
            self._tls.issuer,
            now_s,
            self._inner,
            devices.needed,
            devices.advertised,
            0 if connect is None else 1000 * connect.check_in_every_s,
        )

    def start(self) -> None:
        """Start the process."""
        settings = self._settings(self._configuration)
        process = OuterProcess(self._listening, self._inner, settings)
        self._process = self._held.enter_context(process)

    def change(self, configuration: Configuration) -> None:
        """Show the certificate that has been read again, and keep other limits."""
        if self._process is not None:
            self._process.change(self._settings(configuration))

    @property
    def _devices(self) -> DeviceTls:
        assert self._configuration.tls is not None  # as of `serve`
        return self._configuration.tls.devices

    def _settings(self, configuration: Configuration) -> OuterSettings:
        limits, pair = configuration.limits.service, self._tls.certified.pair
        connect = configuration.connect
        return OuterSettings(
            certificate=pair.chain.decode("ascii", "replace"),
            key=pair.key.decode("ascii", "replace"),
            trusted=tuple(sorted(str(network) for network in limits.unproven.trusted)),
            header_senders=tuple(sorted(map(str, configuration.limits.header_senders))),
            connect=self._configuration.connect is not None,  # which waits for the next start
            origins=() if connect is None else connect.origins,
            devices=not self._devices.needed,
            handshake_s=limits.handshake_s,
            idle_s=limits.idle_s,
            age_s=limits.age_s,
        )
