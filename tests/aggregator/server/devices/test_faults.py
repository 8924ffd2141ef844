"""Disks that fail, services that die, acknowledgements that are lost: all count exactly once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from grpc import StatusCode, aio

from askance_aggregator.server.devices import AggregatorServer, Settings
from askance_aggregator.store import SqliteStore, StoredReport
from askance_aggregator.studies import Tally
from askance_client.errors import StoreError
from askance_client.ledger import LedgerFile
from askance_client.messages import AckStatus
from askance_client.service import channel_options

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
USERS = 12


class FaultyStore(SqliteStore):
    """A store whose commits fail a number of times, before or after they reached the disk."""

    before = after = failures = 0

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        if self.before:
            self.before -= 1
            self.failures += 1
            raise StoreError("store /secret/place: nothing was stored: disk full")
        statuses = super().accept(arrivals)
        if self.after:
            self.after -= 1
            self.failures += 1
            raise OSError("the disk did it and says it did not")
        return statuses


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_commit_acknowledges_nobody_and_everybody_counts_once(
    world: World, settings: Settings, participating: Any, run: Run, when: str
) -> None:
    store = FaultyStore.in_memory()
    setattr(store, when, 3)
    world.enrol(store, USERS)
    round_, devices = world.round(USERS), world.devices(USERS)
    failures: list[Any] = []

    async def scenario(server: AggregatorServer) -> tuple[Tally, ...]:
        async with participating(world, server.address, devices, on_failure=failures.append):
            return await asyncio.to_thread(server.fleet.ask, round_, world.accounts(USERS))

    with AggregatorServer.start(store, settings=settings) as server:
        assert run(scenario(server)) == world.straight(round_, world.devices(USERS))
    assert store.failures == 3
    assert {failure.code() for failure in failures} == {StatusCode.UNAVAILABLE}
    assert not any("secret" in str(failure) for failure in failures)
    assert [len(list(device.ledger.history())) for device in devices] == [1] * USERS
    for group in round_.groups:
        assert list(store.evidence(group.digest)) == []


def test_an_unacknowledged_report_stays_with_the_device(
    world: World, settings: Settings, run: Run
) -> None:
    store = FaultyStore.in_memory()
    store.before = 1
    world.enrol(store, 1)
    round_ = world.broadcast(1)
    device = world.device(0)

    async def scenario(server: AggregatorServer) -> tuple[Tally, ...]:
        asking = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, round_, world.accounts(1))
        )
        async with aio.insecure_channel(server.address) as channel:
            runner = world.runner(0, device, channel)
            while not server.hub.owed(0, set()):
                await asyncio.sleep(0.005)
            with pytest.raises(aio.AioRpcError) as caught:
                await runner.check_in_once()
            assert caught.value.code() is StatusCode.UNAVAILABLE
            assert runner.unacknowledged == 1
            assert store.report(round_.groups[0].digest, 0) is None
            await runner.check_in_once()
            assert runner.unacknowledged == 0
        return await asking

    with AggregatorServer.start(store, settings=settings) as server:
        assert run(scenario(server)) == world.straight(round_, world.devices(1))
    stored = device.ledger.stored(round_.groups[0].digest)
    assert store.report(round_.groups[0].digest, 0) == stored


def test_a_restarted_aggregator_asks_nobody_twice_and_counts_everybody(
    world: World, settings: Settings, participating: Any, run: Run, tmp_path: Path
) -> None:
    round_, devices = world.round(USERS), world.devices(USERS)
    early = [0, 1, 5, 8, 11]
    store = SqliteStore.create(tmp_path / "store")
    world.enrol(store, USERS)

    async def some_answer(server: AggregatorServer) -> None:
        asking = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, round_, world.accounts(USERS))
        )
        while not server.hub.owed(0, set()):
            await asyncio.sleep(0.005)
        async with aio.insecure_channel(server.address) as channel:
            for ordinal in early:
                await world.runner(ordinal, devices[ordinal], channel).check_in_once()
        await asyncio.to_thread(server.stop)
        with pytest.raises(Exception, match="stopped"):
            await asking

    with AggregatorServer.start(store, settings=settings) as server:
        run(some_answer(server))
    store.close()
    spent = [device.ledger.totals(bytes(32), 0).life for device in devices]
    assert [ordinal for ordinal, life in enumerate(spent) if life] == early

    asked: list[int] = []
    for ordinal, device in enumerate(devices):
        watch(device, ordinal, asked)
    accounts = world.accounts(USERS)

    async def the_rest(server: AggregatorServer) -> tuple[Tally, ...]:
        async with participating(world, server.address, devices):
            return await asyncio.to_thread(server.fleet.ask, round_, accounts)

    store = SqliteStore.open(tmp_path / "store")
    with AggregatorServer.start(store, settings=settings) as server:
        tallies = run(the_rest(server))
    store.close()
    assert tallies == world.straight(round_, world.devices(USERS))
    assert sorted(asked) == sorted(set(range(USERS)) - set(early))
    charged = sum(device.ledger.totals(bytes(32), 0).life for device in devices)
    assert accounts.spending().total_spent == charged


def watch(device: Any, ordinal: int, asked: list[int]) -> None:
    """Note when the device spends."""
    ledger = device.ledger

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(ledger, name)

        def commit(self, *arguments: Any) -> Any:
            asked.append(ordinal)
            return ledger.commit(*arguments)

    device._ledger = Watched()


def test_a_complete_round_is_answered_from_the_store_without_any_device(
    world: World, settings: Settings, participating: Any, run: Run
) -> None:
    store = SqliteStore.in_memory()
    world.enrol(store, USERS)
    round_ = world.round(USERS)

    async def ask(server: AggregatorServer, count: int) -> tuple[Tally, ...]:
        async with participating(world, server.address, world.devices(count)):
            return await asyncio.to_thread(server.fleet.ask, round_, world.accounts(USERS))

    with AggregatorServer.start(store, settings=settings) as server:
        first = run(ask(server, USERS))
    with AggregatorServer.start(store, settings=settings) as server:
        assert run(ask(server, 0)) == first


def test_a_ledger_on_a_disk_may_be_written_by_another_thread(
    world: World, settings: Settings, participating: Any, run: Run, tmp_path: Path
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    store = SqliteStore.in_memory()
    world.enrol(store, 4)
    round_ = world.broadcast(4)
    ledgers = [LedgerFile.create(tmp_path / f"ledger {n}").ledger() for n in range(4)]
    devices = [world.device(ordinal, ledger) for ordinal, ledger in enumerate(ledgers)]
    threads: set[str] = set()
    for device in devices:
        note_thread(device, threads)

    async def scenario(server: AggregatorServer) -> tuple[Tally, ...]:
        with ThreadPoolExecutor(2, thread_name_prefix="disk") as executor:
            async with participating(world, server.address, devices, offload=executor):
                return await asyncio.to_thread(server.fleet.ask, round_, world.accounts(4))

    with AggregatorServer.start(store, settings=settings) as server:
        tallies = run(scenario(server))
    for ledger in ledgers:
        ledger.close()
    assert tallies == world.straight(round_, world.devices(4))
    assert threads
    assert all(name.startswith("disk") for name in threads)


def note_thread(device: Any, threads: set[str]) -> None:
    """Note where the device's answers are committed, which waits for the disk."""
    ledger = device._ledger

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(ledger, name)

        def commit(self, *arguments: Any) -> Any:
            threads.add(threading.current_thread().name)
            return ledger.commit(*arguments)

    device._ledger = Watched()


def test_a_device_whose_ledger_fails_sends_nothing(
    world: World, settings: Settings, run: Run
) -> None:
    store = SqliteStore.in_memory()
    world.enrol(store, 1)
    device = world.device(0)

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return getattr(device.ledger, name)

        def commit(self, *_: Any) -> Any:
            raise StoreError("ledger: nothing was spent: disk full")

    broken = world.device(0, Broken())
    round_ = world.broadcast(1)

    async def scenario(server: AggregatorServer) -> None:
        asking = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, round_, world.accounts(1))
        )
        async with aio.insecure_channel(server.address, options=channel_options()) as channel:
            runner = world.runner(0, broken, channel)
            with pytest.raises(StoreError, match="disk full"):
                await runner.participate()
            assert runner.unacknowledged == 0
            assert store.report(round_.groups[0].digest, 0) is None
            await world.runner(0, device, channel).check_in_once()
        await asking

    with AggregatorServer.start(store, settings=settings) as server:
        run(scenario(server))
