"""Group commit: one writer, no timer, and every waiting caller gets an outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.devices import Hub, Peers, ReportGroupCommit, Settings
from askance_aggregator.server.devices.admission import Admission
from askance_aggregator.server.devices.commits import GroupedReads
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.store import EnrolledDevice, SqliteStore, StoredReport
from askance_client.errors import StoreError
from askance_client.messages import AckStatus
from askance_client.service import token_digest
from askance_client.service.gateway_exchange import Join

Run = Callable[[Any], Any]
REQUEST = bytes(32)


class CountingStore(SqliteStore):
    """Counts the transactions that read devices."""

    reads = 0

    def find_devices(self, device_ids: Sequence[bytes]) -> list[EnrolledDevice | None]:
        self.reads += 1
        return super().find_devices(device_ids)

    def acknowledged_sequences(self, ordinals: Sequence[int]) -> list[int]:
        self.reads += 1
        return super().acknowledged_sequences(ordinals)


class SlowStore(SqliteStore):
    """Commits when it is let to, and remembers how many reports were in each."""

    def __init__(self, *opened: Any) -> None:
        super().__init__(*opened)
        self.batches: list[int] = []
        self.let = threading.Semaphore(0)
        self.fail = False

    def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        self.batches.append(len(arrivals))
        assert self.let.acquire(timeout=10)
        if self.fail:
            raise StoreError("disk full")
        return super().accept(arrivals)


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def message(*ordinals: int) -> list[StoredReport]:
    return [StoredReport(REQUEST, ordinal, b"x") for ordinal in ordinals]


async def begun(store: SlowStore, count: int) -> None:
    while len(store.batches) < count:
        await asyncio.sleep(0.001)


def test_what_arrives_during_one_commit_is_the_next(run: Run, executor: Executor) -> None:
    store = SlowStore.in_memory()

    async def scenario() -> None:
        commits = ReportGroupCommit(store, executor)
        first = commits.submit(message(0))
        await begun(store, 1)
        others = [commits.submit(message(ordinal)) for ordinal in range(1, 51)]
        await asyncio.sleep(0.01)
        assert store.batches == [1]  # one writer: the others wait
        assert not first.done()
        store.let.release()
        assert await first == [AckStatus.ACCEPTED]
        await begun(store, 2)
        assert not any(other.done() for other in others)
        store.let.release()
        assert await asyncio.gather(*others) == [[AckStatus.ACCEPTED]] * 50
        assert store.batches == [1, 50]

    run(scenario())


def test_a_lone_report_waits_for_nobody(run: Run, executor: Executor) -> None:
    async def scenario() -> None:
        commits = ReportGroupCommit(SqliteStore.in_memory(), executor)
        for ordinal in range(3):
            assert await commits.submit(message(ordinal)) == [AckStatus.ACCEPTED]

    run(scenario())


def test_everybody_of_a_failed_commit_hears_of_it_and_the_next_goes_on(
    run: Run, executor: Executor
) -> None:
    store = SlowStore.in_memory()

    async def scenario() -> None:
        commits = ReportGroupCommit(store, executor)
        store.fail = True
        futures = [commits.submit(message(ordinal)) for ordinal in range(3)]
        store.let.release(2)
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(outcome, StoreError) for outcome in outcomes)
        store.fail = False
        assert await commits.submit(message(0)) == [AckStatus.ACCEPTED]

    run(scenario())


def test_what_is_stored_and_cannot_be_counted_is_not_acknowledged(
    run: Run, executor: Executor
) -> None:
    def uncounted(_: object) -> None:
        raise ZeroDivisionError

    store = SlowStore.in_memory()
    store.let.release(10)

    async def scenario() -> None:
        commits = ReportGroupCommit(store, executor)
        lost, good = commits.submit(message(0), uncounted), commits.submit(message(1))
        with pytest.raises(StoreError, match="stored, and not counted"):
            await lost
        assert await good == [AckStatus.ACCEPTED]
        assert store.batches == [2]

    run(scenario())


def test_any_failure_is_a_store_error(run: Run, executor: Executor) -> None:
    class Broken(SqliteStore):
        def accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
            raise ZeroDivisionError

    async def scenario() -> None:
        with pytest.raises(StoreError):
            await ReportGroupCommit(Broken.in_memory(), executor).submit(message(0))

    run(scenario())


def test_who_stopped_waiting_does_not_disturb_the_others(run: Run, executor: Executor) -> None:
    store = SlowStore.in_memory()

    async def scenario() -> None:
        commits = ReportGroupCommit(store, executor)
        futures = [commits.submit(message(ordinal)) for ordinal in range(2)]
        await begun(store, 1)
        futures[0].cancel()
        store.let.release(2)
        assert await futures[1] == [AckStatus.ACCEPTED]
        assert store.report(REQUEST, 0) == b"x"  # durable all the same

    run(scenario())


def test_nor_when_the_commit_fails(run: Run, executor: Executor) -> None:
    store = SlowStore.in_memory()
    store.fail = True

    async def scenario() -> None:
        commits = ReportGroupCommit(store, executor)
        futures = [commits.submit(message(ordinal)) for ordinal in range(2)]
        await begun(store, 1)
        futures[0].cancel()
        store.let.release(2)
        with pytest.raises(StoreError, match="disk full"):
            await futures[1]

    run(scenario())


def test_closing_commits_what_is_queued_and_takes_no_more(run: Run, executor: Executor) -> None:
    store = SlowStore.in_memory()
    store.let.release(10)

    async def scenario() -> None:
        commits = ReportGroupCommit(store, executor)
        futures = [commits.submit(message(ordinal)) for ordinal in range(3)]
        await commits.close()
        assert [future.result() for future in futures] == [[AckStatus.ACCEPTED]] * 3
        with pytest.raises(StoreError, match="closed"):
            await commits.submit(message(3))

    run(scenario())


def test_a_message_is_committed_whole_and_answered_in_order(run: Run, executor: Executor) -> None:
    store = SlowStore.in_memory()
    store.let.release(10)

    async def scenario() -> None:
        commits = ReportGroupCommit(store, executor)
        both, again = commits.submit(message(0, 1)), commits.submit(message(1, 2, 1))
        assert await both == [AckStatus.ACCEPTED] * 2
        assert await again == [AckStatus.DUPLICATE, AckStatus.ACCEPTED, AckStatus.DUPLICATE]
        assert store.batches == [5]

    run(scenario())


def test_the_members_of_a_batch_are_read_together(run: Run, executor: Executor) -> None:
    """A read per member took most of the time in which a gateway of many users connects."""
    store = CountingStore.in_memory()
    store.enrol([(b"device %d" % number, token_digest(b"token")) for number in range(60)])
    joins = [Join(number, b"device %d" % number, b"token") for number in range(60)]

    async def scenario() -> None:
        standings = Standings(store, executor, system_now_s)
        admission = Admission(store, executor, Peers(Settings().unproven), standings)
        found = await admission.members(joins, "")
        assert [device and device.ordinal for device in found] == list(range(60))
        hub = Hub(store, executor)
        assert await hub.acknowledged_sequences(range(60)) == [0] * 60
        assert store.reads == 2

    run(scenario())


def test_what_is_asked_during_one_read_is_the_next(run: Run, executor: Executor) -> None:
    let, read = threading.Semaphore(0), list[tuple[int, ...]]()

    def values(keys: Sequence[int]) -> list[int]:
        read.append(tuple(keys))
        assert let.acquire(timeout=10)
        if 0 in keys:
            raise StoreError("disk full")
        return [10 * key for key in keys]

    async def scenario() -> None:
        reads = GroupedReads(values, executor)
        first = asyncio.ensure_future(reads.get(0))
        while not read:
            await asyncio.sleep(0.001)
        others = [asyncio.ensure_future(reads.get(key)) for key in (1, 2, 1)]
        await asyncio.sleep(0)
        let.release(2)
        with pytest.raises(StoreError, match="disk full"):
            await first
        assert await asyncio.gather(*others) == [10, 20, 10]
        assert read == [(0,), (1, 2)]

    run(scenario())
