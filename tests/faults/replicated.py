"""Two replicas on one PostgreSQL database, in one event loop and on one hand-made clock.

Renewals of leases and looks at the other replica happen when an operation says so. A lease ends by
the database's clock: for a replica that pauses, its leases are set to have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_aggregator.server.studies import StudyManager, SubmissionRefused
from askance_aggregator.store import PostgresqlLocation, Store, StudyState
from askance_client.errors import StoreError
from askance_simulation.disturbances.unlucky import Life, mortal
from tests.faults.deployment import Change, Deployment, Process, _servicer, _waits
from tests.faults.people import PUBLIC, Setup
from tests.postgresql import PostgresqlServer

T = TypeVar("T")
NAMES = ("first", "second")
_DRIVERS = frozenset({"open_round", "note_deadline", "close_round", "conclude"})
_HOLDER = """
SELECT replica FROM leases JOIN studies ON studies.number = leases.study WHERE digest = %s
"""
_TABLES = """
SELECT relname::text FROM pg_class WHERE relnamespace = 'askance'::regnamespace
  AND relkind IN ('r', 'p') AND NOT relispartition AND relname NOT IN ('holder', 'schema_steps')
"""
_PARTITIONS = """
SELECT relname::text FROM pg_class WHERE relnamespace = 'askance'::regnamespace
  AND relispartition AND relkind = 'r' AND relname <> 'reports_0'
"""


class SharedDatabase:
    """Database of one history after the other: `clear` leaves what a migration leaves."""

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server
        self._name = server.new_database().partition("@/")[2].partition("?")[0]
        self.location = PostgresqlLocation(server.url(self._name))
        self.location.migrate()
        self._tables = [name for (name,) in self.execute(_TABLES)]
        self._first = {
            name: rows
            for name in self._tables
            if (rows := self.execute(f"SELECT json_agg(t)::text FROM askance.{name} t")[0][0])
        }

    def clear(self) -> None:
        """Delete every row, and put back those that a migration leaves."""
        steps = [f"DROP TABLE askance.{name}" for (name,) in self.execute(_PARTITIONS)]
        steps += [f"DELETE FROM askance.{name}" for name in self._tables]
        steps += [
            f"INSERT INTO askance.{name} SELECT * FROM"
            f" json_populate_recordset(null::askance.{name}, '{rows}')"
            for name, rows in self._first.items()
        ]
        self.execute(
            "; ".join(["BEGIN; SET LOCAL session_replication_role = replica", *steps, "COMMIT"])
        )

    def stop(self) -> None:
        """End every connection, and refuse new ones."""
        self._server.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
        self._server.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = '{self._name}'"
        )

    def start(self) -> None:
        """Let connections in again."""
        self._server.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")

    def end_leases(self, name: str) -> None:
        """Let the leases of a replica have ended by the database's clock."""
        self.execute(f"UPDATE askance.leases SET expires_at = '-infinity' WHERE replica = '{name}'")

    def execute(self, statement: str) -> list[Any]:
        """Run a statement as the superuser and return its rows."""
        return self._server.execute(statement, self._name)


class SteppedReplicas:
    """Replicas that renew and look once when `stepping`, and not by themselves."""

    def __init__(self, replicas: Any) -> None:
        self._replicas = replicas
        self.stepping = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replicas, name)

    def renewals(self, stopping: threading.Event) -> Iterator[frozenset[bytes]]:
        if self.stepping:
            yield next(self._replicas.renewals(stopping))

    def looks(self, stopping: threading.Event) -> Iterator[None]:
        if self.stepping:
            yield None


class ReplicaStore:
    """Store as one replica sees it: it dies with its process, and writes of a driver are noted.

    Args:
      store: opened for this replica alone.
      life: of its process.
      note: is called with a study's digest when a write that only its driver may make succeeds,
        and with the name of the replica that had its lease before.
    """

    def __init__(
        self, store: Store, life: Life, holder: Callable[[bytes], str], note: Callable[[str], None]
    ) -> None:
        self.opened = store
        self.replicas = SteppedReplicas(mortal(store.replicas, life))
        self._store = mortal(store, life)
        self._holder = holder
        self._note = note
        self._interrupted: tuple[str, str] = ("", "")
        self._interrupt: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)
        if name not in _DRIVERS:
            return operation
        return lambda digest, *rest: self._driven(name, digest, lambda: operation(digest, *rest))

    def log(self, digest: bytes, epoch: int = 0) -> _DrivenLog:
        """Return a transcript."""
        log = self._store.log(digest, epoch)
        return _DrivenLog(log, lambda work: self._driven("append", digest, work))

    def interrupt(self, write: str, moment: str, event: Callable[[], None]) -> None:
        """Let an event happen "before" or "after" each write of a kind."""
        self._interrupted, self._interrupt = (write, moment), event

    def _driven(self, write: str, digest: bytes, work: Callable[[], T]) -> T:
        if self._interrupted == (write, "before"):
            self._interrupt()
        before = self._holder(digest)
        result = work()
        self._note(before)
        if self._interrupted == (write, "after"):
            self._interrupt()
        return result


class _DrivenLog:
    def __init__(self, log: Any, driven: Callable[[Callable[[], None]], None]) -> None:
        self._log = log
        self._driven = driven

    def append(self, line: str) -> None:
        self._driven(lambda: self._log.append(line))

    def lines(self) -> Iterator[str]:
        return cast(Iterator[str], self._log.lines())


class ReplicatedDeployment(Deployment):
    """Devices and two replicas; each device calls one of them, at first the one of its parity.

    Args:
      setup: users, plans and policies.
      database: what the replicas share.
    """

    def __init__(self, setup: Setup, database: SharedDatabase) -> None:
        self._database = database
        self._buried: list[Process] = []
        self.called = [ordinal % len(NAMES) for ordinal in range(setup.users)]
        self.stopped = False  # the database
        self._looked: dict[int, set[bytes]] = {}  # studies that had ended, by replica
        self.stale: list[str] = []  # replicas that wrote as drivers without the lease
        database.clear()
        super().__init__(setup, store=database.location)

    @property
    def manager(self) -> StudyManager:
        return self._alive()[0].manager

    @property
    def reachable(self) -> bool:
        return not self.stopped

    def servicer(self, ordinal: int) -> DevicesServicer | None:
        return _servicer(self._processes[self.called[ordinal]])

    async def submit(self, place: int) -> None:
        if self._alive():
            with suppress(StoreError, SubmissionRefused):
                self.manager.submit(self.setup.signed(place))
        await self.settle()

    async def submit_at(self, place: int, number: int) -> None:
        """Submit a plan at one replica."""
        process = self._processes[number]
        if not process.life.ended:
            with suppress(StoreError, SubmissionRefused):
                process.manager.submit(self.setup.signed(place))
        await self.settle()

    async def cancel_at(self, place: int, number: int) -> None:
        """Cancel a study at one replica, which need not drive it."""
        digest, process = self.digest(place), self._processes[number]
        if not process.life.ended:
            with suppress(StoreError):
                if self.disk.store.study(digest) is not None:
                    process.manager.cancel(digest, PUBLIC)
                    await self.look()
                    if process.manager.status(digest, PUBLIC).state is StudyState.CANCELLED:
                        self.cancelled.add(digest)
        await self.settle()

    async def look(self) -> None:
        """Let both replicas renew, look, and look again at what the other one did."""
        for number in (0, 1, 0):
            await self.look_at(number)

    async def look_at(self, number: int) -> None:
        """Let a replica renew its leases and look at the other one."""
        self._step(number)
        await self.settle()

    async def pause(self, number: int) -> None:
        """Pause a replica until the other one has its studies; it wakes up after that."""
        if not self.stopped:
            self.take_over(number)
        await self.settle()

    def take_over(self, number: int) -> None:
        """End a replica's leases, and let the other replica take its studies; for any thread."""
        self._database.end_leases(NAMES[number])
        self._step(1 - number)

    def _step(self, number: int) -> None:
        process = self._processes[number]
        if not process.life.ended:
            replicas = cast(ReplicaStore, process.store).replicas
            replicas.stepping = True
            with suppress(StoreError):  # a database that is stopped is not looked at
                self._looked[number] = set(self.disk.store.conclusions())
            process.manager._replication._renew()
            process.manager._replication._look()
            replicas.stepping = False

    async def end(self, number: int, *, killed: bool) -> None:
        """End a replica, if it runs."""
        process = self._processes[number]
        if not process.life.ended:
            if killed:
                process.life.end()
            await self._bury(process)
        await self.settle()

    async def begin(self, number: int) -> None:
        """Start a replica, if it does not run and the database does."""
        if self._processes[number].life.ended and not self.stopped:
            self._processes[number] = self._boot(number)
            await self.notice()
        await self.settle()

    async def stop_database(self) -> None:
        """End the database's connections; new ones are refused until `start_database`."""
        if not self.stopped:
            self.stopped = True
            self._database.stop()
        await self.settle()

    async def start_database(self) -> None:
        """Let processes use the database again."""
        if self.stopped:
            self._database.start()
            self.stopped = False
        await self.settle()

    def check(self) -> None:
        """Check that only holders of leases wrote as drivers."""
        assert self.stale == []

    def known_ends(self, ended: set[bytes]) -> set[bytes]:
        return ended.intersection(*self._looked.values())

    async def recover(self) -> None:
        await self.start_database()
        for number in range(len(NAMES)):
            await self.begin(number)
        await self.look()

    async def change(self, ordinal: int, change: Change) -> bool:
        return not self.stopped and await super().change(ordinal, change)

    async def notice(self) -> None:
        if not self.stopped:
            await super().notice()

    async def stop(self) -> None:
        await self.start_database()
        for phone in self.phones:
            await phone.hang_up()
        for process in self._alive():
            await self._bury(process)
        self.disk.close()

    def _alive(self) -> list[Process]:
        return [process for process in self._processes if not process.life.ended]

    def _start_all(self) -> list[Process]:
        return [self._boot(number) for number in range(len(NAMES))]

    def _boot(self, number: int) -> Process:
        life, opened = Life(), self._database.location.open()
        opened.replicas.register(NAMES[number])

        def note(holder: str) -> None:
            if holder != NAMES[number]:
                self.stale.append(f"{NAMES[number]} wrote with the lease of {holder}")

        store = ReplicaStore(opened, life, self._holder, note)
        process = self._start(cast(Store, store), life)
        self._looked[number] = set(self.disk.store.conclusions())
        for thread in process.manager._replication._threads:
            thread.join()  # they end at once: nothing is stepping
        return process

    def _holder(self, digest: bytes) -> str:
        database: Any = self.disk.store
        row = database._database.row(_HOLDER, (digest,))
        return "" if row is None else str(row[0])

    async def _bury(self, process: Process) -> None:
        self._buried.append(process)
        await self._end(process)
        cast(ReplicaStore, process.store).opened.close()

    async def _replace_dead(self) -> bool:
        dead = [one for one in self._processes if one.life.ended and one not in self._buried]
        for process in dead:
            await self._bury(process)
        return bool(dead)

    def _still(self) -> bool:
        return self.stopped or all(map(_waits, self._alive()))
