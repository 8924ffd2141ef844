"""The models of leases and of delivery drive the real stores: each says what the other says.

Leases are those of PostgreSQL, on its own clock: a lease lasts an hour here, and is set to have
ended when the model's has. Reports are taken by two processes on PostgreSQL, and by the one process
of a SQLite store, which is started again.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from askance_aggregator.store import (
    LeaseLost,
    PostgresqlLocation,
    SqliteStore,
    Store,
    StoredReport,
)
from askance_aggregator.store.postgresql import replicas as postgresql_replicas
from askance_aggregator.store.replicas import LEASE_S
from askance_client.messages import AckStatus, SignedStudy
from tests.models import delivery_model, lease_model
from tests.models.delivery_model import ACCEPTED, DUPLICATE, LATE, DeliveryModel
from tests.models.lease_model import LOST, NOTHING, REFUSED, TAKEN, LeaseModel
from tests.postgresql import PostgresqlServer

SIGNED = SignedStudy(b"a study", b"a key", b"a signature")
NAMES = ("first", "second")
STATUS = {
    AckStatus.ACCEPTED: ACCEPTED,
    AckStatus.DUPLICATE: DUPLICATE,
    AckStatus.LATE: LATE,
}
STEADY = settings(
    max_examples=6,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Shared:
    """Database of all examples of a test; each has a study and a request of its own."""

    location: PostgresqlLocation
    studies = 0
    running: ClassVar[dict[int, Store]] = {}
    """Processes that outlive an example, by the number of their replica."""

    @classmethod
    def next_study(cls) -> bytes:
        cls.studies += 1
        return cls.studies.to_bytes(32, "big")


@pytest.fixture
def shared(postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("_ACQUIRE", "_RENEW"):
        statement = getattr(postgresql_replicas, name)
        patched = statement.replace(f"secs => {LEASE_S}", "secs => 3600")
        assert patched != statement
        monkeypatch.setattr(postgresql_replicas, name, patched)
    Shared.location = PostgresqlLocation(postgresql.new_database())
    Shared.location.migrate()
    yield
    for number in list(Shared.running):
        end(number)


def begin(number: int) -> Store:
    """Start the process of a replica, if it does not run."""
    if number not in Shared.running:
        store = Shared.location.open()
        store.replicas.register(NAMES[number])
        store.replicas.announce(f"127.0.0.1:{number + 1}")
        Shared.running[number] = store
    return Shared.running[number]


def end(number: int) -> None:
    """End the process of a replica."""
    Shared.running.pop(number).close()


class LeaseMachine(RuleBasedStateMachine):
    """Two replicas on one database."""

    @initialize()
    def begin(self) -> None:
        self.model = LeaseModel(lease_model.Bounds(ticks=1_000, lines=1_000, tokens=1_000))
        self.state = self.model.initial
        self.study = Shared.next_study()
        self.stores: list[Any] = [begin(0), begin(1)]
        self.stores[0].add_study(self.study, SIGNED)

    def step(self, name: str, *words: int) -> object:
        """Do an operation in the model."""
        assert (name, *words) in list(self.model.operations(self.state))
        self.state, said = self.model.apply(self.state, (name, *words))
        assert self.model.broken(self.state) is None
        return said

    def may(self, name: str, number: int) -> bool:
        return (name, number) in list(self.model.operations(self.state))

    @rule()
    def tick(self) -> None:
        before = self.model.has_ended(self.state)
        self.step("tick")
        if self.model.has_ended(self.state) and not before:
            with psycopg.connect(Shared.location.url) as connection:
                connection.execute(
                    "UPDATE askance.leases SET expires_at = '-infinity' FROM askance.studies"
                    " WHERE leases.study = studies.number AND digest = %s",
                    (self.study,),
                )

    @rule(number=st.integers(0, 1))
    def acquire(self, number: int) -> None:
        if self.may("acquire", number):
            expected = self.step("acquire", number)
            taken = self.stores[number].replicas.acquire(self.study)
            assert (TAKEN if taken else REFUSED) == expected

    @rule(number=st.integers(0, 1))
    def renew(self, number: int) -> None:
        if self.may("renew", number):
            expected = self.step("renew", number)
            lost = next(self.stores[number].replicas.renewals(threading.Event()))
            assert (LOST if self.study in lost else NOTHING) == expected

    @rule(number=st.integers(0, 1))
    def release(self, number: int) -> None:
        if self.may("release", number):
            self.step("release", number)
            self.stores[number].replicas.release(self.study)

    @rule(number=st.integers(0, 1))
    def write(self, number: int) -> None:
        if self.may("write", number):
            expected = self.step("write", number)
            token = self.state.replicas[number].held
            try:
                self.stores[number].log(self.study).append(str(token))
                found = NOTHING
            except LeaseLost:
                found = LOST
            assert found == expected
            lines = list(self.stores[number].log(self.study).lines())
            assert lines == [str(line) for line in self.state.lines]

    @rule(number=st.integers(0, 1))
    def die(self, number: int) -> None:
        if self.may("die", number):
            self.step("die", number)
            end(number)

    @rule(number=st.integers(0, 1))
    def start(self, number: int) -> None:
        if self.may("start", number):
            self.step("start", number)
            self.stores[number] = begin(number)


class DeliveryMachine(RuleBasedStateMachine):
    """Devices, and the processes that take their reports."""

    replicas = 2

    def open(self, number: int) -> Store:
        return begin(number)

    def end(self, number: int) -> None:
        end(number)

    @initialize()
    def begin(self) -> None:
        bounds = delivery_model.Bounds(devices=3, replicas=self.replicas, deaths=2)
        self.model = DeliveryModel(bounds)
        self.state = self.model.initial
        self.prepare()
        self.study = Shared.next_study()
        self.request = bytes([7]) + self.study[1:]
        self.stores: list[Any] = [self.open(number) for number in range(self.replicas)]
        driver = self.stores[0]
        driver.add_study(self.study, SIGNED)
        assert driver.replicas.acquire(self.study)
        driver.log(self.study).append("header")
        driver.open_round(self.study, 0, [self.request], None)

    def prepare(self) -> None:
        """Make what the processes share."""

    @precondition(lambda self: any(True for _ in self.model.operations(self.state)))
    @rule(data=st.data())
    def happen(self, data: st.DataObject) -> None:
        """Do any operation that the model allows."""
        operations = list(self.model.operations(self.state))
        operation: Any = data.draw(st.sampled_from(operations))
        name, *words = operation
        before = self.state
        self.state, said = self.model.apply(self.state, operation)
        assert self.model.broken(self.state) is None
        match name:
            case "commit":
                self.commit(before, said, *words)
            case "die":
                self.end(words[0])
            case "start":
                self.stores[words[0]] = self.open(words[0])
            case "close":
                self.driver().close_round(self.study, 0)
            case "count":
                stored = [ordinal for ordinal, _ in self.driver().reports(self.request)]
                assert [stored.count(ordinal) for ordinal in range(3)] == list(self.state.result)

    def driver(self) -> Store:
        store: Store = self.stores[0]
        store.replicas.acquire(self.study)
        return store

    def commit(self, before: Any, said: object, number: int, device: int) -> None:
        """Deliver a report; every message of a device has the same bytes."""
        report = StoredReport(self.request, device, b"report %d" % device)
        if before.closed and self.replicas == 1 and said == LATE:
            return  # the one process of a store answers it before the store is asked
        (status,) = self.stores[number].accept([report])
        assert STATUS[status] == said
        assert self.stores[number].report(self.request, device) == (
            b"report %d" % device if self.state.rows[device] else None
        )

    @precondition(lambda self: any(one.up for one in self.state.replicas))
    @rule()
    def look(self) -> None:
        """Compare all stored reports, from every process."""
        rows = [(d, b"report %d" % d) for d in range(3) if self.state.rows[d]]
        for store, replica in zip(self.stores, self.state.replicas, strict=True):
            if replica.up:
                assert list(store.reports(self.request)) == rows


class SoleMachine(DeliveryMachine):
    """The one process of a SQLite store."""

    replicas = 1

    def prepare(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "store.sqlite"
        SqliteStore.create(self._path).close()

    def open(self, number: int) -> Store:
        return SqliteStore.open(self._path)

    def end(self, number: int) -> None:
        self.stores[number].close()

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            if self.state.replicas[0].up:
                self.end(0)
            self._folder.cleanup()


@pytest.mark.usefixtures("shared")
def test_leases() -> None:
    run_state_machine_as_test(LeaseMachine, settings=STEADY)


@pytest.mark.usefixtures("shared")
def test_delivery_to_two_replicas() -> None:
    run_state_machine_as_test(DeliveryMachine, settings=STEADY)


def test_delivery_to_the_one_process_of_a_store() -> None:
    run_state_machine_as_test(SoleMachine, settings=settings(STEADY, max_examples=25))
