"""The service as one object: started on a store, stopped in bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from grpc import aio

from askance_aggregator.clock import SteadyClock, SystemSteadyClock, system_now_s
from askance_aggregator.server.devices.admission import Admission, EnrolmentVerifier
from askance_aggregator.server.devices.certification import (
    TOKENS_ALONE,
    CallerProofs,
    CertificateIssuer,
    Certification,
)
from askance_aggregator.server.devices.connection_guard import ConnectionGuard
from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.devices.hub import Hub
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.devices.passages import Passages
from askance_aggregator.server.devices.peers import Peers
from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_aggregator.server.devices.settings import Settings
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.server.loops import new_loop
from askance_aggregator.server.outer.supervisor import listen_at
from askance_aggregator.server.outer.valve import ValveSettings
from askance_aggregator.store import Store
from askance_client.addresses import Address
from askance_client.errors import StoreError
from askance_client.service.observable import Jitter, Sleep, sleep_ms, system_jitter

_STOP_MARGIN_S = 10.0
_LAG_EVERY_S = 1.0
_INNER_STREAMS = 4_096  # of the outer process, which has one connection and bounds its calls
_SOCKET_MODE = 0o600


AddService = Callable[[aio.Server, ServiceFleet], None]
"""Adds a service of its own to the server, before it starts, in its event loop."""


@dataclass(frozen=True, slots=True)
class CertifiedListener:
    """Devices by certificates: every caller at the service's address shows one.

    Args:
      credentials: of TLS, with client authentication.
      issuer: signs the certificates.
      now_s: the time in Unix seconds.
      inner: path of a Unix socket, for what the outer process passes on.
      needed: whether devices without a certificate are refused; otherwise the outer process may
        pass them on.
      advertised: where devices are told to call; None: the service's own port, at the host that
        they know.
      connect_every_ms: the shortest wait between two check-ins by Connect; 0: there are none.
    """

    credentials: grpc.ServerCredentials
    issuer: CertificateIssuer
    now_s: Callable[[], int]
    inner: Path
    needed: bool = True
    advertised: Address | None = None
    connect_every_ms: int = 0


@dataclass(frozen=True, slots=True)
class ServerParts:
    """Parts of a service besides its store and its limits.

    Args:
      certified: devices show certificates, and all others call over a Unix socket; None: all call
        at one address, in plain text.
      enrolment: verifies enrolment tokens; None: no enrolment over the network.
      services: other services, for all callers but devices with certificates.
      jitter: where the randomness of waiting comes from.
      clock: by which rounds close.
      now_s: the time in Unix seconds, for the day on which a device called.
    """

    certified: CertifiedListener | None = None
    enrolment: EnrolmentVerifier | None = None
    observer: Observer = SILENT
    services: Sequence[AddService] = ()
    jitter: Jitter = system_jitter
    clock: SteadyClock = field(default_factory=SystemSteadyClock)
    sleep: Sleep = sleep_ms
    now_s: Callable[[], int] = system_now_s


class AggregatorServer:
    """Running service: an event loop in a thread, a hub in it, and a gRPC server around it.

    It does not own the store: its owner closes it, after `stop`.

        with AggregatorServer.start(store) as server:
            StudyManager(store, server.fleet, analysts=keys).resume()
    """

    def __init__(
        self, store: Store, host: str, port: int, settings: Settings, parts: ServerParts
    ) -> None:
        """Use `start`."""
        self._store = store
        self._address = (host, port)
        self._settings = settings
        self._parts = parts
        self._started: Future[None] = Future()
        self._stopping: asyncio.Event
        self.loop: asyncio.AbstractEventLoop  # in which `hub` is called, and in no other thread
        self._thread = threading.Thread(target=self._run, name="askance-service", daemon=True)
        self._thread.start()
        self._started.result()

    @classmethod
    def start(
        cls,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: Settings | None = None,
        parts: ServerParts | None = None,
    ) -> AggregatorServer:
        """Start serving `store`'s devices; port 0 selects a free port."""
        return cls(store, host, port, settings or Settings(), parts or ServerParts())

    @property
    def host(self) -> str:
        """Address on which the server listens."""
        return self._address[0]

    @property
    def port(self) -> int:
        """Address on which the server listens."""
        return self._address[1]

    @property
    def address(self) -> str:
        """host:port, as a channel takes it."""
        return f"{self.host}:{self.port}"

    @property
    def fleet(self) -> ServiceFleet:
        """The devices, for a session in another thread."""
        return ServiceFleet(self.hub, self._store, self.loop)

    @property
    def valve_pid(self) -> int:
        """The number of the valve's process, which runs now or ran last.

        Raises:
          AttributeError: connections are not guarded, so there is none.
        """
        return self._passages.pid

    @property
    def running(self) -> bool:
        """True if the service still runs; False after `stop` or after a failure."""
        return self._thread.is_alive()

    def change(self, settings: Settings) -> None:
        """Keep other limits on streams, members and unproven callers, and other waits, from now on.

        Networks of proxies are trusted by the guard of connections too.

        Settings of the connections themselves (`Settings.server_options`) stay as they are.
        """
        self.loop.call_soon_threadsafe(self._servicer.change, settings)
        self.loop.call_soon_threadsafe(self._peers.change, settings.unproven)
        if self._guard is not None:
            self._guard.trust(settings.unproven.trusted)

    def stop(self) -> None:
        """End every call, commit the reports that have arrived, and return within bounded time."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(self._settings.stop_grace_s + _STOP_MARGIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _made_guard(self) -> ConnectionGuard | None:
        limits, observer = self._settings.guard, self._parts.observer
        if limits is None:
            return None
        return ConnectionGuard(limits, lambda reason: observer.peer_refused(f"guard-{reason}"))

    def _proofs(self, executor: Executor, standings: Standings) -> CallerProofs:
        listener = self._parts.certified
        if listener is None:
            return TOKENS_ALONE
        issuer, now_s = listener.issuer, listener.now_s
        return Certification(
            self._store,
            executor,
            issuer,
            now_s,
            check_gateway=standings.check_gateway,
        )

    async def _listen(self, servicer: DevicesServicer) -> list[aio.Server]:
        """Start the listeners and return their servers."""
        certified, options = self._parts.certified, self._settings.server_options()
        server = aio.server(options=options)
        if certified is None:
            server.add_generic_rpc_handlers((servicer.handler(),))
            self._add_services(server)
            self._bind_devices(server, None)
            await server.start()
            return [server]
        server.add_generic_rpc_handlers((servicer.certified_handler(),))
        self._bind_devices(server, certified.credentials)
        settings = replace(self._settings, connection_streams=_INNER_STREAMS, guard=None)
        inner = aio.server(options=settings.server_options())
        handler = servicer.inner_handler(
            self.port,
            certified.advertised,
            devices=not certified.needed,
            connect_every_ms=certified.connect_every_ms,
        )
        inner.add_generic_rpc_handlers((handler,))
        self._add_services(inner)
        _bind(inner, f"unix:{certified.inner}", None)
        certified.inner.chmod(_SOCKET_MODE)
        await inner.start()
        await server.start()
        return [server, inner]

    def _bind_devices(self, server: aio.Server, credentials: grpc.ServerCredentials | None) -> None:
        """Listen at the service's address, by a valve where connections are guarded."""
        settings = self._settings
        if settings.guard is None:
            self._address = (self.host, _bind(server, self.address, credentials))
            return
        valve = ValveSettings(
            settings.guard.paces,
            settings.max_connections,
            first_byte_s=settings.handshake_s,
            settled_s=settings.settled_s,
        )
        self._passages = Passages(listen_at(Address(self.host, self.port)), valve)
        self._address = (self.host, self._passages.port)
        _bind(server, f"unix:{self._passages.inner}", credentials)

    def _add_services(self, server: aio.Server) -> None:
        for add in self._parts.services:
            add(server, self.fleet)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            try:
                runner.run(self._serve())
            except Exception as error:
                if self._started.done():
                    raise
                self._started.set_exception(error)

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        # Two threads: a lookup need not queue behind a commit in Python, only at the store's lock.
        with ThreadPoolExecutor(2, thread_name_prefix="askance-store") as executor:
            parts = self._parts
            self.hub = Hub(
                self._store, executor, parts.observer, clock=parts.clock, sleep=parts.sleep
            )
            peers = self._peers = Peers(self._settings.unproven)
            guard = self._guard = self._made_guard()
            standings = Standings(
                self._store, executor, parts.now_s, lambda: self.hub.connected_users
            )
            await standings.load()
            admission = Admission(self._store, executor, peers, standings)
            servicer = self._servicer = DevicesServicer(
                self.hub,
                admission,
                self._settings,
                parts.jitter,
                parts.observer,
                parts.enrolment,
                self._proofs(executor, standings),
                guard,
            )
            servers = await self._listen(servicer)
            if guard is not None:
                await self.loop.run_in_executor(executor, self._passages.start)
                guard.watch(self._passages)
            self._started.set_result(None)
            beside = [
                asyncio.ensure_future(_measure_lag(parts.observer)),
                asyncio.ensure_future(standings.watch(servicer.apply)),
            ]
            await self._stopping.wait()
            for task in beside:
                task.cancel()
            if guard is not None:
                await self.loop.run_in_executor(executor, guard.stop)
                self._passages.refuse()
            # Together: while what has arrived is committed, no new call is taken.
            grace_s = self._settings.stop_grace_s
            await asyncio.gather(self.hub.stop(), *(one.stop(grace_s) for one in servers))
            if guard is not None:
                await self.loop.run_in_executor(executor, self._passages.stop)


def _bind(server: aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """Listen at an address and return its port; raise StoreError if that is not possible."""
    try:
        if credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, credentials))
    except RuntimeError:
        raise StoreError(
            f"service: cannot listen on {address}: it is in use, or not this machine's"
        ) from None


async def _measure_lag(observer: Observer) -> None:
    """Tell the observer, every second, how late the event loop is."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + _LAG_EVERY_S
        await asyncio.sleep(_LAG_EVERY_S)
        observer.loop_lagged(max(loop.time() - due_s, 0.0))
