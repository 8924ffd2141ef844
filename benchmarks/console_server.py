"""Aggregator of `console.py`: a store that is filled once, and the process that serves from it.

    python benchmarks/console_server.py fill FOLDER DEVICES CONNECTED STUDIES ROUNDS
    python benchmarks/console_server.py serve FOLDER QUESTIONS

FOLDER gets a SQLite store with the devices, of which the first CONNECTED are members of gateways,
a tag per device, the studies, of which one has ROUNDS rounds, an audit log, the key of an
administrator, and `facts.json`, which says what is there.

The server has the services of `askance aggregator serve` over plain text, with the same parts. It
prints {"address": ...}, then obeys lines on standard input, answering each with a JSON line:
"connected N" waits for this many devices, "rounds R" asks R rounds of the connected devices,
"open" opens a round of devices that are not connected and tells the study's digest and the time,
"cancel" ends it, "quit" ends the server. A time is on the clock that never is set, in seconds.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from grpc import aio
from prometheus_client import CollectorRegistry
from service_server import InOrder, Questions, enrol

from askance_aggregator.analyst import sign_submission
from askance_aggregator.clock import system_now_s
from askance_aggregator.learners import Learner, find
from askance_aggregator.server.callers import AuditRecorder, Caller, Callers, Role
from askance_aggregator.server.devices import (
    AggregatorServer,
    PeerLimits,
    ServerParts,
    ServiceFleet,
    Settings,
)
from askance_aggregator.server.devices.hub import StudyCancelled
from askance_aggregator.server.process.figures import FleetReader
from askance_aggregator.server.process.metrics import PrometheusObserver
from askance_aggregator.server.process.silence import SilenceReader
from askance_aggregator.server.services.analysts import AnalystsServicer, gate_of
from askance_aggregator.server.services.operators import OperatorsServicer
from askance_aggregator.server.studies import StudyManager
from askance_aggregator.store import AuditEvent, Conclusion, SqliteStore, Store, StudyState
from askance_aggregator.studies import Accounts, Cohort, Round, Session
from askance_aggregator.studies.results import End, cohort_seed, conclusion
from askance_aggregator.studies.study import Study
from askance_client.codec import decode_study, digest_of
from askance_client.device import Policy
from askance_client.garbage_collection import rare_collections
from askance_client.queries import Category, Integer, Schema
from askance_simulation.fleets import ColumnFleet, Devices
from askance_simulation.populations import Population
from askance_simulation.randomness import Seed, SeededCoins

GATEWAYS = 4
ENTRIES = 1_000  # of the audit log at most: one per ten devices
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
SITES = 10  # tags; each tenth device has one
_AT_ONCE = 100_000
_ENDED_S = 1_800_000_000  # the first end of a study
_USERS = 60_000  # of the studies that were run
_BUDGET = 4  # nats
_WAIT_S = 300.0
_STATES = {n: state for n, state in enumerate(StudyState) if state is not StudyState.OPEN}


def fill(folder: Path, devices: int, connected: int, studies: int, rounds: int) -> dict[str, Any]:
    """Fill a new store and return what it has."""
    began = time.perf_counter()
    path = folder / "store.sqlite"
    with closing(SqliteStore.create(path)) as store:
        enrol(store, connected, GATEWAYS)
        for start in range(connected, devices, _AT_ONCE):
            ordinals = range(start, min(start + _AT_ONCE, devices))
            store.enrol([(b"other %d" % n, _digest(n)) for n in ordinals])
        long, short, waiting = add_studies(store, studies, rounds)
        event = AuditEvent(1, "ann", "operator", "Operators/TagDevices", "", "::1", "done")
        for _ in range(min(ENTRIES, devices // 10)):
            store.audit.append(event)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"INSERT INTO device_tags SELECT 'site=' || (ordinal % {SITES}), ordinal FROM devices"
        )
    (folder / "key.pem").write_bytes(
        KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    facts = {
        "devices": devices,
        "connected": connected,
        "studies": studies,
        "rounds": rounds,
        "long": long.hex(),
        "short": short.hex(),
        "open": waiting.hex(),
        "fill_s": time.perf_counter() - began,
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    return facts


def _digest(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


def add_studies(store: Store, studies: int, rounds: int) -> tuple[bytes, bytes, bytes]:
    """Keep studies that have ended, by turns of several analysts, and one that is open.

    Returns:
      Digests of a logistic regression of so many rounds, of a frequency, and of the open one.
    """
    generator = np.random.default_rng(1)
    schema = Schema("people", 1, site=Category([f"s{n}" for n in range(16)]))
    people = Population.from_columns(
        schema, {"site": [f"s{n}" for n in generator.integers(16, size=_USERS)]}
    )
    frequency = find("frequency").build(schema, {"column": "site"})
    short = add_run(store, frequency, people)
    content = store.conclusion(short)
    assert content is not None
    keys = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in range(1, 5)]
    for number in range(studies - 3):
        signed = sign_submission(Study(frequency, schema, epsilon=1), keys[number % len(keys)])
        digest = digest_of(signed.study)
        store.add_study(digest, signed)
        state = _STATES[1 + number % len(_STATES)]
        ended = Conclusion(state, state.name.lower(), "", content.result_json, 10**9)
        store.conclude(digest, ended, ended_unix_s=_ENDED_S + number)
    waiting = sign_submission(Study(frequency, schema, epsilon=1), KEY)
    store.add_study(digest_of(waiting.study), waiting)
    return add_run(store, *long_learner(rounds, generator)), short, digest_of(waiting.study)


def long_learner(rounds: int, generator: np.random.Generator) -> tuple[Learner[Any], Population]:
    """Return a learner of so many rounds, and its users."""
    schema = Schema(
        "patients", 1, age=Integer(0, 100), dose=Integer(0, 50), well=Category(("no", "yes"))
    )
    age, dose = generator.integers(101, size=_USERS), generator.integers(51, size=_USERS)
    well = np.where(age + 2 * dose > 100, "yes", "no")
    people = Population.from_columns(schema, {"age": age, "dose": dose, "well": list(well)})
    settings = {"label": "well", "columns": "age,dose", "rounds": str(rounds)}
    return find("logistic-regression").build(schema, settings), people


def add_run(store: Store, learner: Learner[Any], people: Population) -> bytes:
    """Run a study on simulated devices, keep its record and its result, and return its digest."""
    study = Study(learner, people.schema, epsilon=_BUDGET, least_answers=1)
    signed = sign_submission(study, KEY)
    digest, terms = digest_of(signed.study), decode_study(signed.study)
    policy = Policy(frozenset({PUBLIC}), _BUDGET * 10**9)
    store.add_study(digest, signed)
    session = Session(
        study=signed,
        learner=learner,
        fleet=ColumnFleet(Devices(people, policy, SeededCoins(Seed.of(1)), system_now_s)),
        log=store.log(digest),
        cohort_seed=cohort_seed(digest),
        leaf_key=bytes(32),
    )
    outcome = session.run()
    done = End(StudyState.DONE, "done")
    store.conclude(
        digest, conclusion(digest, terms, session.transcript, session.accounts, done, outcome)
    )
    return digest


class ConsoleServer:
    """Aggregator of a filled store.

    Args:
      store: it.
      facts: what it has.
      questions: of each round.
      held: what ends with the server.
    """

    def __init__(
        self, store: Store, facts: dict[str, Any], questions: int, held: ExitStack
    ) -> None:
        self._facts = facts
        self._store = store
        # Studies of this run: the store may have reports to those of another.
        self._first_study = secrets.randbits(100)
        self._questions = Questions(facts["devices"], questions, self._first_study)
        self._asked = 0
        self._opened: Questions | None = None
        registry = CollectorRegistry()
        self._observer = PrometheusObserver(registry)
        self._executor = held.enter_context(ThreadPoolExecutor(4))
        self._rounds = held.enter_context(ThreadPoolExecutor(2))
        connected = facts["connected"]
        settings = Settings(unproven=PeerLimits(max(1_024, connected), max(1_024, connected)))
        self._figures = FleetReader(registry, store, None, system_now_s)
        parts = ServerParts(observer=self._observer, services=(self._add,))
        self._server = AggregatorServer.start(store, settings=settings, parts=parts)
        held.callback(self._manager.stop)
        held.callback(self._server.stop)
        self._observer.population(store.population)
        self._observer.rounds(self._server.hub.rounds)
        self.address = self._server.address

    def _add(self, server: aio.Server, fleet: ServiceFleet) -> None:
        """Add the services for analysts and operators, as the aggregator's process does."""
        self._manager = StudyManager(self._store, fleet, analysts=frozenset({PUBLIC}))
        callers = Callers(lambda: self._manager.analysts, [Caller("ops", Role.ADMIN, PUBLIC)])
        recorder = AuditRecorder(self._store.audit, system_now_s)
        gate = gate_of(callers, recorder, executor=self._executor, now_s=system_now_s)
        analysts = AnalystsServicer(self._manager, executor=self._executor, gate=gate)
        operators = OperatorsServicer(
            self._manager,
            executor=self._executor,
            figures=self._figures.read,
            silence=SilenceReader(self._store, fleet.asked_users, system_now_s).read,
            gate=gate,
        )
        server.add_generic_rpc_handlers((analysts.handler(), operators.handler()))

    def wait_connected(self, count: int) -> float:
        """Return the seconds until this many devices are connected."""
        began = time.perf_counter()
        while self._server.hub.connected < count:
            if time.perf_counter() - began > _WAIT_S:
                raise TimeoutError(f"expected {count} devices, found {self._server.hub.connected}")
            time.sleep(0.01)
        return time.perf_counter() - began

    def ask(self, count: int) -> float:
        """Return the seconds that so many rounds of the connected devices take."""
        accounts = Accounts(self._facts["devices"], 1 << 62)
        first = self._asked
        self._asked += count
        made = [self._questions.round(first + n, self._facts["connected"]) for n in range(count)]
        began = time.perf_counter()
        for round_ in made:
            self._server.fleet.ask(round_, accounts)
        return time.perf_counter() - began

    def open(self, number: int) -> tuple[str, float]:
        """Open a round that no connected device answers; return its study, and when it was open."""
        devices = self._facts["devices"]
        self._opened = Questions(devices, 1, self._first_study + 1 + number)
        round_ = self._opened.round(0, 1)
        cohort = Cohort(InOrder(b"", devices), devices - 1, devices)
        groups = tuple(replace(group, cohort=cohort) for group in round_.groups)
        self._rounds.submit(self._hold, replace(round_, groups=groups))
        while not self._server.fleet.progress(self._opened.digest)[0]:
            time.sleep(0.001)
        return self._opened.digest.hex(), time.monotonic()

    def cancel(self) -> None:
        """End the round that is open."""
        assert self._opened is not None
        self._server.fleet.cancel(self._opened.digest)

    def _hold(self, round_: Round) -> None:
        try:
            self._server.fleet.ask(round_, Accounts(self._facts["devices"], 1 << 62))
        except StudyCancelled:
            return


def obey(server: ConsoleServer) -> None:
    """Execute the commands of standard input, line by line."""
    opened = 0
    for line in sys.stdin:
        word, *numbers = line.split()
        told: dict[str, Any] = {}
        if word == "connected":
            told["seconds"] = server.wait_connected(int(numbers[0]))
        elif word == "rounds":
            told["seconds"] = server.ask(int(numbers[0]))
        elif word == "open":
            told["study"], told["at_s"] = server.open(opened)
            opened += 1
        elif word == "cancel":
            server.cancel()
        else:
            return
        print(json.dumps(told), flush=True)


def main(argv: Sequence[str]) -> int:
    """Fill a store, or serve from one until the command "quit" or the end of the input."""
    folder = Path(argv[1])
    if argv[0] == "fill":
        print(json.dumps(fill(folder, *map(int, argv[2:6]))))
        return 0
    facts = json.loads((folder / "facts.json").read_text())
    with rare_collections(), ExitStack() as held:
        store = held.enter_context(closing(SqliteStore.open_to_serve(folder / "store.sqlite")))
        server = ConsoleServer(store, facts, int(argv[2]), held)
        print(json.dumps({"address": server.address}), flush=True)
        obey(server)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
