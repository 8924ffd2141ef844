"""Server process of `service.py`, durable or raw: a part, not a program.

Both serve the Devices service's two calls. The durable one is the aggregator's own service on a
store, SQLite's unless an address is given; it asks whole rounds. The raw one reads and writes
messages of the same bytes on the same library and event loop, and looks at none of them: the
ceiling.

    python benchmarks/service_server.py durable|certified|raw|postgresql://... DEVICES QUESTIONS
      [GATEWAYS [STUDIES [REPLICA]]]

The devices are members of so many gateways, of equal shares in their order (1). All of them are
asked by so many studies at one time (1). Replica 0, 1 ... of a database drives the one study of its
number, and follows those that the others drive; without a number a process drives all studies.

It prints {"address": ...}, then obeys lines on standard input, answering each with a JSON line:
"connected N" waits for this many streams, "rounds R" asks R rounds of each study it drives,
"open" leaves a round open for check-ins, "quit" ends it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Protocol

import grpc
import numpy as np
import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc import aio
from numpy.typing import NDArray
from service_load import SHARED_STREAMS, gateway, token

from askance_aggregator.encoding import encode_request, sign_study
from askance_aggregator.exchange import (
    encode_response,
)
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import parity, predicate
from askance_aggregator.server.devices import (
    AggregatorServer,
    ConnectionLimits,
    PeerLimits,
    Settings,
)
from askance_aggregator.server.process.tokens import EnrolmentTokens
from askance_aggregator.store import SqliteStore, Store, store_location
from askance_aggregator.studies import Accounts, Cohort, Group, Permutation, Round
from askance_client.codec import digest_of
from askance_client.garbage_collection import rare_collections
from askance_client.messages import AckStatus, Request, SignedStudy, StudyTerms
from askance_client.queries import Bits, Schema
from askance_client.service import (
    SERVICE,
    CertificateFile,
    OpenSide,
    Response,
    gateway_metadata,
    system_now_s,
    token_digest,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.aggregator.server.certified_service import CertifiedService

COST = 10**8  # a tenth of a nat an answer
CONNECT_S = 300.0
NAME = "load"


class InOrder(Permutation):
    """Users in the order of their ordinals: "the first so many" can be asked."""

    def positions(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ordinals, which are the positions."""
        return ordinals

    def ordinals(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the ordinals start .. stop-1."""
        return np.arange(start, stop, dtype=np.int64)


class Questions:
    """A study of this many predicates, and its rounds."""

    def __init__(self, devices: int, questions: int, study: int = 0) -> None:
        self._schema = Schema(NAME, 1, x=Bits(questions))
        terms = StudyTerms(
            study.to_bytes(16, "little"),
            NAME,
            1,
            (),
            self._schema,
            1 << 62,
            1 << 40,
            "",
            fields=tuple(sorted(self._schema.fields)),
        )
        self.study: SignedStudy = sign_study(terms, Ed25519PrivateKey.from_private_bytes(bytes(32)))
        self.digest = digest_of(self.study.study)
        self._devices = devices
        self._questions = questions

    def round(self, number: int, members: int) -> Round:
        """Round `number`: the first `members` devices are asked every question."""
        randomizer = randomized_response(COST)
        asked = Cohort(InOrder(b"", self._devices), 0, members)
        groups = []
        for place in range(self._questions):
            mask = [int(bit == place) for bit in range(self._questions)]
            query = predicate(parity(self._schema.x, mask) == 1)
            payload = encode_request(Request(self.digest, number, place, query, randomizer))
            groups.append(
                Group(
                    payload,
                    digest_of(payload),
                    query,
                    randomizer,
                    COST,
                    asked,
                    bytes(32),
                )
            )
        return Round(number, self.study, self.digest, tuple(groups))

    def response(self, number: int) -> bytes:
        """Return the response that a device gets in a round after another.

        Acknowledgements, requests.
        """
        payloads = tuple(group.payload for group in self.round(number, 1).groups)
        acks = tuple((digest_of(payload), AckStatus.ACCEPTED) for payload in payloads)
        studies = (self.study,) if number == 0 else ()
        return encode_response(Response(acks=acks, studies=studies, requests=payloads))


class Server(Protocol):
    """Interface of both servers."""

    address: str

    def wait_connected(self, count: int) -> float:
        """Wait for this number of devices and return the seconds that it took."""
        ...

    def rounds(self, first: int, count: int, members: int) -> float:
        """Run rounds and return the seconds that they took."""
        ...

    def open(self) -> None:
        """Open a round."""
        ...

    def stop(self) -> None:
        """Stop the server."""
        ...


def enrol(store: Store, devices: int, gateways: int) -> None:
    """Enrol the devices as members of gateways; those that are enrolled stay as they are."""
    share = -(-devices // gateways)
    for first in range(0, devices, share):
        identity = gateway(first)
        store.enrol_with(
            [
                (b"load %d" % o, token_digest(token(o)))
                for o in range(first, min(first + share, devices))
            ],
            bytes(16),
            devices,
            (identity.device_id, token_digest(identity.token)),
        )


class Durable:
    """The aggregator's service on a store, which drives studies at one time."""

    def __init__(self, studies: Sequence[Questions], devices: int, store: Store) -> None:
        self._studies = studies
        self._devices = devices
        self._store = store
        settings = Settings(
            max_streams=max(50_000, devices),
            max_check_ins=10_000,
            connection_streams=2 * SHARED_STREAMS,
            unproven=PeerLimits(max(1_024, devices), max(1_024, devices)),
        )
        self._server = self._started(settings)
        self.address = self._server.address
        self._executor = ThreadPoolExecutor(len(studies))

    def _started(self, settings: Settings) -> AggregatorServer:
        return AggregatorServer.start(self._store, settings=settings)

    def wait_connected(self, count: int) -> float:
        """Measure the seconds until this many streams are open."""
        began = time.perf_counter()
        while self._server.hub.connected < count:
            _check_patience(began, count, self._server.hub.connected)
            time.sleep(0.005)
        return time.perf_counter() - began

    def rounds(self, first: int, count: int, members: int) -> float:
        """Measure the seconds for rounds `first` and on of each study, made before."""
        made = [[s.round(first + place, members) for place in range(count)] for s in self._studies]

        def ask(rounds: list[Round]) -> None:
            accounts = Accounts(self._devices, 1 << 62)
            for round_ in rounds:
                self._server.fleet.ask(round_, accounts)

        began = time.perf_counter()
        for asked in [self._executor.submit(ask, rounds) for rounds in made]:
            asked.result()
        return time.perf_counter() - began

    def open(self) -> None:
        """Leave a round open, for check-ins to answer."""
        asked = self._studies[0].round(1 << 20, self._devices)
        accounts = Accounts(self._devices, 1 << 62)
        self._executor.submit(self._server.fleet.ask, asked, accounts)
        while not self._server.hub.outstanding:
            time.sleep(0.01)

    def stop(self) -> None:
        """End it."""
        self._server.stop()
        self._executor.shutdown()
        self._store.close()


class Certified(Durable):
    """The same with TLS, behind a valve; every connection shows the certificate of its gateway.

    Args:
      certificate: a file for it and for the server's authority, which the load reads.
    """

    def __init__(
        self, studies: Sequence[Questions], devices: int, store: Store, certificate: Path
    ) -> None:
        self._certificate = certificate
        super().__init__(studies, devices, store)

    def _started(self, settings: Settings) -> AggregatorServer:
        tokens = EnrolmentTokens(bytes(32), system_now_s)
        guard = ConnectionLimits(
            streams=settings.connection_streams,
            holder_connections=1 << 16,
            trusted=frozenset({ip_network("127.0.0.1")}),
        )
        self._service = CertifiedService(
            self._store,
            tokens,
            system_now_s,
            settings=replace(settings, guard=guard),
            life_s=86_400,
        )
        ca = self._service.ca.certificate
        open_side = OpenSide(self._service.address, lambda: ca)
        file = CertificateFile(self._certificate, system_now_s, open_side)
        asyncio.run(file.obtain(gateway_metadata(gateway(0))))
        held = json.loads(self._certificate.read_text())
        self._certificate.write_text(json.dumps({**held, "ca": ca.decode()}))
        return self._service.server

    def stop(self) -> None:
        """End it."""
        self._service.stop()
        super().stop()


class Replica(Durable):
    """A process among several on a database: it asks what the others drive, as they record it."""

    def __init__(
        self,
        number: int,
        studies: Sequence[Questions],
        devices: int,
        store: Store,
    ) -> None:
        super().__init__([studies[number]], devices, store)
        self._followed = {study.digest: study for study in studies if study != studies[number]}
        self._stopping = threading.Event()
        store.replicas.register(f"replica-{number}")
        self._looking = threading.Thread(target=self._look)
        self._looking.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._looking.join()
        super().stop()

    def _look(self) -> None:
        fleet = self._server.fleet
        for _ in self._store.replicas.looks(self._stopping):
            taking = {
                shared.digest: shared.round
                for shared in self._store.replicas.open_studies()
                if shared.digest in self._followed and shared.round is not None
            }
            rounds = {digest: (round_.epoch, round_.number) for digest, round_ in taking.items()}
            fleet.keep_followed(rounds)
            for digest, (epoch, number) in rounds.items():
                if fleet.followed(digest) != (epoch, number):
                    asked = self._followed[digest].round(number, self._devices)
                    fleet.follow([(asked, Accounts(self._devices, 1 << 62), 0)])
            fleet.look()


class Raw:
    """The same messages, unread."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._first = questions.response(0)
        self._later = questions.response(1)
        self._streams: list[Any] = []
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._started.wait()

    def wait_connected(self, count: int) -> float:
        """Measure the seconds until this many streams are open."""
        began = time.perf_counter()
        while len(self._streams) < count:
            _check_patience(began, count, len(self._streams))
            time.sleep(0.005)
        return time.perf_counter() - began

    def rounds(self, first: int, count: int, members: int) -> float:
        """Measure the seconds for as many exchanges on every stream."""
        return asyncio.run_coroutine_threadsafe(self._rounds(first, count), self._loop).result()

    def open(self) -> None:
        """Do nothing: unary calls need no preparation."""

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _rounds(self, first: int, count: int) -> float:
        began = time.perf_counter()
        for number in range(first, first + count):
            message = self._first if number == 0 else self._later
            await asyncio.gather(*(self._exchange(stream, message) for stream in self._streams))
        return time.perf_counter() - began

    async def _exchange(self, stream: Any, message: bytes) -> None:
        await stream.write(message)
        await stream.read()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = aio.server(
            options=Settings(connection_streams=2 * SHARED_STREAMS).server_options()
        )
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "CheckIn": grpc.unary_unary_rpc_method_handler(self._check_in),
            "Participate": grpc.stream_stream_rpc_method_handler(self._participate),
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, handlers)
        server.add_generic_rpc_handlers((handler,))
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        self._started.set()
        await self._stopping.wait()
        await server.stop(0.2)

    async def _check_in(self, data: bytes, context: Any) -> bytes:
        return self._first

    async def _participate(self, _: object, context: Any) -> None:
        await context.read()
        self._streams.append(context)
        await self._stopping.wait()


def _check_patience(began: float, expected: int, found: int) -> None:
    if time.perf_counter() - began > CONNECT_S:
        raise TimeoutError(f"expected {expected} devices to connect, found {found}")


def obey(server: Server, members: int) -> None:
    """Execute the commands of standard input, line by line."""
    asked = 0
    for line in sys.stdin:
        word, *numbers = line.split()
        told: dict[str, Any] = {}
        if word == "connected":
            told["seconds"] = server.wait_connected(int(numbers[0]))
        elif word == "rounds":
            told["seconds"] = server.rounds(asked, int(numbers[0]), members)
            asked += int(numbers[0])
        elif word == "open":
            server.open()
        else:
            return
        print(json.dumps(told), flush=True)


def opened(kind: str, folder: Path) -> Store:
    """Open an empty store: a new file in `folder`, or a migrated database at the address `kind`."""
    if kind in ("durable", "certified"):
        return SqliteStore.create(folder / "store.sqlite")
    return store_location(kind).open()


def main(argv: Sequence[str]) -> int:
    """Serve until the command "quit", or until the parent process has ended."""
    kind, devices, questions = argv[0], int(argv[1]), int(argv[2])
    gateways, count = (int(word) for word in (*argv[3:5], "1", "1")[:2])
    studies = [Questions(devices, questions, study) for study in range(count)]
    with rare_collections(), tempfile.TemporaryDirectory(prefix="askance-") as folder:
        server: Server
        if kind == "raw":
            server = Raw(studies[0])
        else:
            store = opened(kind, Path(folder))
            enrol(store, devices, gateways)
            if kind == "certified":
                server = Certified(studies, devices, store, Path(folder) / "certificate.json")
            elif len(argv) > 5:
                server = Replica(int(argv[5]), studies, devices, store)
            else:
                server = Durable(studies, devices, store)
        told = {"address": server.address}
        if isinstance(server, Certified):
            told["certificate"] = str(Path(folder) / "certificate.json")
        print(json.dumps(told), flush=True)
        try:
            obey(server, devices)
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
