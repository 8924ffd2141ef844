"""Many members in one process: what one of them lacks is no matter of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import SqliteStore
from askance_client.device import Policy
from askance_client.errors import StoreError
from askance_client.ledger import LedgerFile
from askance_client.messages import Reason, Refusal
from askance_client.service import Gateway, Member, channel_options
from askance_simulation.fleets.memory_ledger import MemoryLedger
from tests.ports import free_port

MEMBERS = 6


class Notes:
    """Record of a gateway's events."""

    def __init__(self) -> None:
        self.answers: list[Reason | None] = []
        self.failures: list[str] = []
        self.connections: list[tuple[int, bool]] = []

    def answered(self, refusal: Reason | None) -> None:
        self.answers.append(refusal)

    def refused(self, refusal: Refusal) -> None:
        """The text is of no interest."""

    def failed(self, failure: str) -> None:
        self.failures.append(failure)

    def connection(self, number: int, *, up: bool) -> None:
        self.connections.append((number, up))


class FullDisk(MemoryLedger):
    """Ledger that can keep nothing until there is space."""

    room = False

    def commit(self, *arguments: Any) -> Any:
        if not self.room:
            raise StoreError("ledger: nothing was spent: disk full")
        return super().commit(*arguments)


@asynccontextmanager
async def running(gateway: Gateway) -> Any:
    task = asyncio.ensure_future(gateway.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def gateway(world: Any, address: str, notes: Notes, ledgers: Any, life: int = 10**10) -> Gateway:
    return Gateway(
        [
            Member(
                str(ordinal),
                world.identity(ordinal),
                world.schema.encode({"smoker": ordinal % 2}),
                ledger,
            )
            for ordinal, ledger in enumerate(ledgers)
        ],
        schema=world.schema,
        policy=Policy(frozenset({world.key.public_key().public_bytes_raw()}), life),
        coins_for=lambda name: world.device(int(name))._coins,
        now_s=lambda: int(world.now_s),
        channel=lambda: aio.insecure_channel(address, options=channel_options(own_connection=True)),
        connections=2,
        watcher=notes,
        identity=world.gateway(),
        jitter=lambda bound: min(bound, 10),
    )


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_members_answer_as_devices_of_their_own_would(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any, tmp_path: Path
) -> None:
    world.enrol(store, MEMBERS)
    round_, notes = world.broadcast(MEMBERS), Notes()
    file = LedgerFile.create(tmp_path / "ledgers")

    async def serve() -> Any:
        ledgers = [file.ledger(str(ordinal)) for ordinal in range(MEMBERS)]
        async with running(gateway(world, server.address, notes, ledgers)):
            return await asyncio.to_thread(server.fleet.ask, round_, world.accounts(MEMBERS))

    tallies = run(serve())
    alone = world.straight(round_, world.devices(MEMBERS))
    assert [tally.counts for tally in tallies] == [tally.counts for tally in alone]
    assert notes.answers == [None] * MEMBERS
    assert {number for number, up in notes.connections if up} == {0}
    assert len(file.members()) == MEMBERS
    file.close()


def test_many_members_check_in_at_one_time(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    """More calls at one time than a connection has streams: the others wait for no connection."""
    members = 100
    world.enrol(store, members)
    notes = Notes()
    ledgers = [MemoryLedger() for _ in range(members)]

    async def serve() -> Any:
        asking = asyncio.to_thread(
            server.fleet.ask, world.broadcast(members), world.accounts(members)
        )
        asked = asyncio.ensure_future(asking)
        await until(lambda: len(server.hub.rounds()) == 1)
        outcome = await gateway(world, server.address, notes, ledgers).check_in_once()
        (tally,) = await asked
        return outcome, tally

    outcome, tally = run(serve())
    assert (outcome.answered, outcome.failures) == (members, {})
    assert tally.answered == members


def test_a_ledger_that_cannot_keep_anything_stops_its_own_member_until_it_can(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    world.enrol(store, MEMBERS)
    full, notes = FullDisk(), Notes()
    ledgers = [full, *(MemoryLedger() for _ in range(MEMBERS - 1))]

    async def serve() -> None:
        async with running(gateway(world, server.address, notes, ledgers)):
            asking = asyncio.ensure_future(
                asyncio.to_thread(
                    server.fleet.ask, world.broadcast(MEMBERS), world.accounts(MEMBERS)
                )
            )
            await until(lambda: len(notes.answers) == MEMBERS - 1 and len(notes.failures) > 2)
            assert not asking.done()
            full.room = True
            await asking

    run(serve())
    assert set(notes.failures) == {"ledger: nothing was spent: disk full"}
    assert notes.answers == [None] * MEMBERS


def test_a_refusal_is_told_by_its_reason(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    world.enrol(store, 1)
    notes = Notes()

    async def serve() -> None:
        async with running(gateway(world, server.address, notes, [MemoryLedger()], life=1)):
            await asyncio.to_thread(server.fleet.ask, world.broadcast(1), world.accounts(1))

    run(serve())
    assert notes.answers == [Reason.OVER_LIFE_BUDGET]


class Broken(MemoryLedger):
    """A ledger with a defect: an exception that no caller foresees, with a value in its text."""

    whole = False

    def standing(self, *arguments: Any) -> Any:
        if not self.whole:
            raise ZeroDivisionError("smoker=1")
        return super().standing(*arguments)


def test_any_exception_in_one_members_task_ends_neither_the_gateway_nor_the_others(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    """Once, the exception ended all streams; its text must not reach a log."""
    world.enrol(store, MEMBERS)
    round_, notes, broken = world.broadcast(MEMBERS), Notes(), Broken()
    ledgers = [broken, *(MemoryLedger() for _ in range(MEMBERS - 1))]

    async def serve() -> Any:
        async with running(gateway(world, server.address, notes, ledgers)) as task:
            asking = asyncio.ensure_future(
                asyncio.to_thread(server.fleet.ask, round_, world.accounts(MEMBERS))
            )
            await until(lambda: len(notes.answers) == MEMBERS - 1 and len(notes.failures) > 1)
            assert not task.done()
            broken.whole = True  # and that member tries again
            return await asking

    (tally,) = run(serve())
    assert tally.answered == MEMBERS
    assert set(notes.failures) == {"ZeroDivisionError"}


def test_any_exception_in_one_check_in_is_counted_by_its_type(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    world.enrol(store, MEMBERS)
    ledgers = [Broken(), *(MemoryLedger() for _ in range(MEMBERS - 1))]

    async def serve() -> Any:
        asking = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, world.broadcast(MEMBERS), world.accounts(MEMBERS))
        )
        await until(lambda: server.hub.outstanding == MEMBERS)
        outcome = await gateway(world, server.address, Notes(), ledgers).check_in_once()
        ledgers[0].whole = True  # type: ignore[attr-defined]  # the first one is broken
        last = await gateway(world, server.address, Notes(), ledgers).check_in_once()
        await asking
        return outcome, last

    outcome, last = run(serve())
    assert outcome.answered == MEMBERS - 1
    assert dict(outcome.failures) == {"ZeroDivisionError": 1}
    assert last.failures.total() == 0


@pytest.mark.parametrize("ledgers", [1, 5])
def test_one_check_in_counts_who_failed(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any, ledgers: int
) -> None:
    world.enrol(store, 1)  # of five members the first alone
    members = [MemoryLedger() for _ in range(ledgers)]
    outcome = run(gateway(world, server.address, Notes(), members).check_in_once())
    assert (outcome.members, outcome.failures.total()) == (ledgers, ledgers - 1)
    assert all(failure.startswith("UNAUTHENTICATED") for failure in outcome.failures)


def test_no_connection_is_lost_before_there_was_one(
    world: Any, store: SqliteStore, settings: Any, run: Any
) -> None:
    """While the aggregator is away, failures alone are noted."""
    world.enrol(store, 1)
    notes, port = Notes(), free_port()

    async def serve() -> None:
        async with running(gateway(world, f"127.0.0.1:{port}", notes, [MemoryLedger()])):
            await until(lambda: len(notes.failures) > 1)
            assert notes.connections == []
            later = await asyncio.to_thread(
                lambda: AggregatorServer.start(store, port=port, settings=settings)
            )
            await until(lambda: bool(notes.connections))
            await asyncio.to_thread(later.stop)

    run(serve())
    assert notes.connections[0] == (0, True)


def test_an_aggregator_that_comes_back_is_told_of(
    world: Any, store: SqliteStore, settings: Any, run: Any
) -> None:
    world.enrol(store, MEMBERS)
    notes, ledgers = Notes(), [MemoryLedger() for _ in range(MEMBERS)]
    first = AggregatorServer.start(store, port=free_port(), settings=settings)

    async def serve() -> None:
        async with running(gateway(world, first.address, notes, ledgers)):
            await until(lambda: notes.connections == [(0, True)])
            await asyncio.to_thread(first.stop)
            await until(lambda: (0, False) in notes.connections and bool(notes.failures))
            again = await asyncio.to_thread(
                lambda: AggregatorServer.start(store, port=first.port, settings=settings)
            )
            try:
                round_, accounts = world.broadcast(MEMBERS), world.accounts(MEMBERS)
                await asyncio.to_thread(again.fleet.ask, round_, accounts)
                await until(lambda: notes.connections.count((0, True)) == 2)
            finally:
                await asyncio.to_thread(again.stop)

    run(serve())
    assert notes.answers == [None] * MEMBERS
