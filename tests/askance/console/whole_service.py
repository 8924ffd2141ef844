"""A whole aggregator in this process, with simulated devices that are connected to it by gRPC."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio
from prometheus_client import CollectorRegistry

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.callers import AuditRecorder, Caller, Callers
from askance_aggregator.server.devices import AggregatorServer, ServerParts, ServiceFleet
from askance_aggregator.server.process.figures import FleetReader
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_aggregator.server.process.silence import SilenceReader
from askance_aggregator.server.services.analysts import AnalystsServicer, gate_of
from askance_aggregator.server.services.operators import OperatorsServicer
from askance_aggregator.server.studies import StudyManager
from askance_aggregator.store import SqliteStore
from askance_client.device import Policy
from askance_simulation.fleets import Devices
from askance_simulation.fleets.grpc import Runners
from askance_simulation.fleets.streams import SharedStreams
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins
from tests.aggregator.server.callers.role_server import KEYS, public

_GATEWAYS = 8
_LIFE_NANO_NATS = 20 * 10**9  # of a user


@dataclass(frozen=True, slots=True)
class WholeService:
    """A running aggregator, its store, and the devices that call it."""

    server: AggregatorServer
    store: SqliteStore
    runners: Runners

    def stay_away(self, ordinals: Collection[int]) -> None:
        """Disconnect these devices, and connect all others."""
        self.runners.attend(ordinals).result()


@contextmanager
def whole_service(people: Population, folder: Path) -> Iterator[WholeService]:
    """Serve devices of these people, analysts and operators, by the system's clock.

    The devices are members of a few gateways, each on a stream of its own.

    Args:
      people: records of the devices.
      folder: where the store is made.
    """
    registry = CollectorRegistry()
    observer = PrometheusObserver(registry)
    trusted = frozenset(map(public, KEYS.values()))
    policy = Policy(trusted, _LIFE_NANO_NATS)
    devices = Devices(people, policy, SeededCoins(Seed.of(7)), system_now_s)
    managers: list[StudyManager] = []
    with ExitStack() as held:
        store = SqliteStore.create(folder / "aggregator.sqlite")
        held.callback(store.close)
        executor = held.enter_context(ThreadPoolExecutor(4))

        def add(server: aio.Server, fleet: ServiceFleet) -> None:
            manager = StudyManager(
                store, fleet, analysts=trusted, now_s=system_now_s, observer=observer
            )
            managers.append(manager)
            named = [Caller(role, role, public(key)) for role, key in KEYS.items()]
            gate = gate_of(
                Callers(lambda: manager.analysts, named, None),
                AuditRecorder(store.audit, system_now_s),
                executor=executor,
                now_s=system_now_s,
            )
            analysts = AnalystsServicer(manager, executor=executor, now_s=system_now_s, gate=gate)
            figures = FleetReader(registry, store, None, system_now_s).read
            silence = SilenceReader(store, fleet.asked_users, system_now_s).read
            operators = OperatorsServicer(
                manager, executor=executor, figures=figures, silence=silence, gate=gate
            )
            server.add_generic_rpc_handlers((analysts.handler(), operators.handler()))

        streams = SharedStreams(devices, _GATEWAYS, range(len(devices)))
        streams.enrol(store)
        parts = ServerParts(services=(add,), observer=observer)
        server = held.enter_context(AggregatorServer.start(store, parts=parts))
        held.callback(managers[0].stop)
        observer.rounds(server.hub.rounds)
        runners = Runners(streams, server)
        held.callback(runners.stop)
        yield WholeService(server, store, runners)


def write_key(path: Path, key: Ed25519PrivateKey) -> Path:
    """Write a private key as the command line reads it."""
    from cryptography.hazmat.primitives import serialization

    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    return path
