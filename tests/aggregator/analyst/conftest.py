"""Aggregator on loopback with a study manager, devices that dial in, and an analyst."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio

from askance_aggregator import learners
from askance_aggregator.analyst import Aggregator, StudyExport, connect
from askance_aggregator.analyst.signed_counts import CountsSigner
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.callers import AuditRecorder, CallerLimits, Callers
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet, Settings
from askance_aggregator.server.services.analysts import AnalystsServicer, gate_of
from askance_aggregator.server.studies import StudyManager, SubmissionLimits
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies.study import Study
from askance_client.device import Policy
from askance_client.service import Identity, channel_options, token_digest
from askance_client.service.observable import connections_for
from askance_simulation.fleets import Devices
from askance_simulation.populations import Population, masked_parity
from askance_simulation.randomness import Seed, SeededCoins
from askance_simulation.stream_runner import StreamRunner

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
USERS = 300
# Of 61 answers or more: the account lists all populations of fewer, which takes two seconds.
TERMS = {"epsilon": "4", "beta": "1/200", "least_answers": 1}
SETTINGS = Settings(check_in_every_ms=20, stop_grace_s=0.2)


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


@dataclass
class ServedManager:
    """Served study manager with its devices."""

    address: str
    manager: StudyManager
    population: Population
    stop: Callable[[], None]
    now_s: Callable[[], int] = system_now_s

    def connected(self, key: Ed25519PrivateKey = KEY) -> Aggregator:
        return connect(self.address, key=key, now_s=self.now_s)

    def study(self, **changed: object) -> Study:
        """Two rounds over MASKED-PARITY's people."""
        schema = self.population.schema
        settings: dict[str, object] = {**TERMS, **changed}
        return Study(learners.masked_parity(schema), schema, **settings)  # type: ignore[arg-type]  # as a caller's keywords


@contextmanager
def serving(
    *,
    devices: bool,
    limits: SubmissionLimits | None = None,
    store: SqliteStore | None = None,
    population: Population | None = None,
    now_s: Callable[[], int] = system_now_s,
    callers: CallerLimits | None = None,
    counts_signer: CountsSigner | None = None,
) -> Iterator[ServedManager]:
    """A served manager; with `devices`, all users answer, else none does.

    `now_s` is the clock of the aggregator, the analyst and the devices.
    """
    population = population or masked_parity(USERS, Seed.of(5), 4)
    store = store or SqliteStore.in_memory()
    identities = [
        Identity(b"device %d" % n, hashlib.sha256(b"token %d" % n).digest())
        for n in range(population.size)
    ]
    if not store.population():
        store.enrol((one.device_id, token_digest(one.token)) for one in identities)
    managers: list[StudyManager] = []
    with ExitStack() as held:
        executor = held.enter_context(ThreadPoolExecutor(4))

        def add(server: aio.Server, fleet: ServiceFleet) -> None:
            managers.append(
                StudyManager(
                    store,
                    fleet,
                    analysts=frozenset({public(KEY), public(OTHER_KEY)}),
                    limits=limits,
                    now_s=now_s,
                    look_s=0.01,
                    random_bytes=bytes,
                )
            )
            gate = gate_of(
                Callers(lambda: managers[0].analysts),
                AuditRecorder(store.audit, now_s),
                executor=executor,
                now_s=now_s,
                limits=callers,
            )
            servicer = AnalystsServicer(
                managers[0],
                executor=executor,
                gate=gate,
                now_s=now_s,
                counts_signer=counts_signer,
            )
            server.add_generic_rpc_handlers((servicer.handler(),))

        server = held.enter_context(
            AggregatorServer.start(store, settings=SETTINGS, parts=ServerParts(services=(add,)))
        )
        managers[0].resume()
        held.callback(managers[0].stop)
        held.callback(server.stop)
        if devices:
            held.enter_context(_answering(population, identities, server, now_s))
        yield ServedManager(server.address, managers[0], population, server.stop, now_s)


@contextmanager
def _answering(
    population: Population,
    identities: list[Identity],
    server: AggregatorServer,
    now_s: Callable[[], int],
) -> Iterator[None]:
    """Every device holds its stream open, in the service's loop (gRPC has one queue a process)."""
    analysts = frozenset({public(KEY), public(OTHER_KEY)})
    policy = Policy(analysts, 100 * 10**9, refresh_days=7)
    fleet = Devices(population, policy, SeededCoins(Seed.of(1)), now_s)

    async def serve() -> None:
        async with AsyncExitStack() as held:
            channels = [
                await held.enter_async_context(
                    aio.insecure_channel(server.address, channel_options(own_connection=True))
                )
                for _ in range(connections_for(len(identities)))
            ]
            runners = [
                StreamRunner(fleet[n], one, channels[n % len(channels)]).participate()
                for n, one in enumerate(identities)
            ]
            await asyncio.gather(*runners)

    running = asyncio.run_coroutine_threadsafe(serve(), server.loop)
    try:
        yield
    finally:
        running.cancel()
        with suppress(CancelledError):
            running.result(10)


@pytest.fixture
def served() -> Iterator[ServedManager]:
    """With devices that answer."""
    with serving(devices=True) as served:
        yield served


@pytest.fixture
def quiet_served() -> Iterator[ServedManager]:
    """With devices that are enrolled and away."""
    with serving(devices=False) as served:
        yield served


@pytest.fixture
def other_key() -> Ed25519PrivateKey:
    """Another analyst's."""
    return OTHER_KEY


@pytest.fixture
def open_served() -> Callable[..., AbstractContextManager[ServedManager]]:
    """Factory of served study managers."""
    return serving


@pytest.fixture(scope="session")
def done() -> StudyExport:
    """The export of a study that is done."""
    with serving(devices=True) as served, served.connected() as aggregator:
        handle = aggregator.submit(served.study())
        handle.result(timeout_s=60)
        return handle.fetch()
