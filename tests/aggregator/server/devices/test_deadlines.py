"""Rounds that end by the clock: when, with whose answers, and what becomes of the late ones."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from grpc import StatusCode

from askance_aggregator.server.devices import Hub, ServiceStopped, status_of
from askance_aggregator.store import SqliteStore, Store, StoredReport
from askance_aggregator.studies import Round, Tally
from askance_client.codec import decode_study, digest_of, encode_report
from askance_client.device import Device
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, Report

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
USERS = 4
DEADLINE_S = 60


class Clock:
    """A clock that is set, and waits that end when it passes their end."""

    def __init__(self, now_s: int) -> None:
        self.now_s = now_s
        self.boot = "the first boot"
        self.longest_ms = 0.0
        self.waits = 0
        self._until_ms = 0.0

    def now_ms(self) -> int:
        return 1000 * self.now_s

    async def sleep(self, milliseconds: float) -> None:
        self.longest_ms = max(self.longest_ms, milliseconds)
        self._until_ms = self.now_ms() + milliseconds
        self.waits += 1
        while self.asleep:
            await asyncio.sleep(0)

    @property
    def asleep(self) -> bool:
        """True if the hub waits for this clock."""
        return self.now_ms() < self._until_ms


@dataclass
class Deployment:
    """A store and a clock that outlive the hubs."""

    world: World
    store: Store
    clock: Clock
    executor: Executor

    def __post_init__(self) -> None:
        self.study = self.world.signed_study(round_deadline_s=DEADLINE_S)
        self.round = self.world.round(USERS, study=self.study)
        self.devices = self.world.devices(USERS)
        for device in self.devices:
            assert device.introduce(self.study) is None

    def report(self, ordinal: int, device: Device | None = None) -> bytes:
        """Return the answer of this user."""
        (group,) = [group for group in self.round.groups if ordinal in group.cohort.members]
        return (device or self.devices[ordinal]).answer(group.payload)

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[tuple[Hub, asyncio.Task[tuple[Tally, ...]]]]:
        """A hub that asks the round and waits for its end; it is stopped after the block."""
        ends = decode_study(self.round.study.study).conduct.round_deadline_s > 0
        waits = self.clock.waits
        hub = Hub(self.store, self.executor, clock=self.clock, sleep=self.clock.sleep)
        task = asyncio.ensure_future(hub.open(self.round, self.world.accounts(USERS)))
        while hub.progress(self.round.study_digest) == (0, 0) and not task.done():
            await asyncio.sleep(0.001)  # it is noted first, however busy the disk is
        while ends and self.clock.waits == waits and not task.done():
            await asyncio.sleep(0.001)  # what is stored is entered, and the clock is looked at
        try:
            yield hub, task
        finally:
            await hub.stop()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def deployment(world: World, tmp_path: Path) -> Iterator[Deployment]:
    store = SqliteStore.create(tmp_path / "store")
    world.enrol(store, USERS)
    with ThreadPoolExecutor(1) as executor:
        yield Deployment(world, store, Clock(world.now_s), executor)
    store.close()


async def delivered(hub: Hub, deployment: Deployment, *ordinals: int) -> list[AckStatus]:
    return [
        status
        for ordinal in ordinals
        for _, status in await hub.deliver(ordinal, [deployment.report(ordinal)])
    ]


async def still_open(task: asyncio.Task[tuple[Tally, ...]]) -> bool:
    """Return whether the round stays open while the clock stands still."""
    await asyncio.sleep(0.02)
    return not task.done()


def answered(tallies: tuple[Tally, ...]) -> tuple[int, int]:
    return sum(tally.answered for tally in tallies), sum(tally.asked for tally in tallies)


def test_a_round_closes_at_its_deadline_and_no_second_sooner(
    deployment: Deployment, run: Run
) -> None:
    async def scenario() -> None:
        async with deployment.asking() as (hub, task):
            accepted = [AckStatus.ACCEPTED] * 2
            assert await delivered(hub, deployment, 0, 3) == accepted
            deployment.clock.now_s += DEADLINE_S - 1
            assert await still_open(task)
            deployment.clock.now_s += 1
            assert answered(await task) == (2, USERS)

    run(scenario())


def test_a_round_that_everybody_answers_waits_for_no_deadline(
    deployment: Deployment, run: Run
) -> None:
    async def scenario() -> None:
        async with deployment.asking() as (hub, task):
            await delivered(hub, deployment, *range(USERS))
            assert answered(await task) == (USERS, USERS)

    run(scenario())


def test_without_a_deadline_no_time_closes_it(deployment: Deployment, run: Run) -> None:
    deployment.round = deployment.world.round(USERS)

    async def scenario() -> None:
        async with deployment.asking() as (_, task):
            deployment.clock.now_s += 10 * 365 * 86_400
            assert await still_open(task)

    run(scenario())


def test_the_clock_is_looked_at_every_minute(deployment: Deployment, run: Run) -> None:
    deployment.study = deployment.world.signed_study(round_deadline_s=86_400)
    deployment.round = deployment.world.round(USERS, study=deployment.study)

    async def scenario() -> None:
        async with deployment.asking():
            assert 0 < deployment.clock.longest_ms <= 60_000

    run(scenario())


def test_a_restart_gives_nobody_more_time(deployment: Deployment, run: Run) -> None:
    async def scenario() -> None:
        async with deployment.asking() as (hub, task):
            await delivered(hub, deployment, 1)
            deployment.clock.now_s += DEADLINE_S // 2
            assert await still_open(task)
        with pytest.raises(ServiceStopped):
            await task
        async with deployment.asking() as (hub, task):
            await delivered(hub, deployment, 2)
            deployment.clock.now_s += DEADLINE_S // 2 - 1
            assert await still_open(task)
            deployment.clock.now_s += 1
            assert answered(await task) == (2, USERS)

    run(scenario())


def test_a_deadline_that_passed_meanwhile_closes_with_what_is_stored(
    deployment: Deployment, run: Run
) -> None:
    async def scenario() -> None:
        async with deployment.asking() as (hub, _):
            await delivered(hub, deployment, 0, 1, 3)
        deployment.clock.now_s += 7 * 86_400
        async with deployment.asking() as (_, task):
            assert answered(await task) == (3, USERS)

    run(scenario())


def test_a_late_report_is_told_so_and_its_charge_stands(deployment: Deployment, run: Run) -> None:
    ledger = deployment.devices[2].ledger
    late = deployment.report(2)  # answered in time, and then the device was away
    before = list(ledger.history())

    async def scenario() -> None:
        async with deployment.asking() as (hub, task):
            await delivered(hub, deployment, 0)
            deployment.clock.now_s += DEADLINE_S
            tallies = await task
            assert await delivered(hub, deployment, 2) == [AckStatus.LATE]
        async with deployment.asking() as (hub, task):
            assert await task == tallies  # a report that was refused does not come in after all
        hub = Hub(deployment.store, deployment.executor)  # the round is closed, in this one too
        assert await delivered(hub, deployment, 2) == [AckStatus.LATE]
        await hub.stop()

    run(scenario())
    assert [deployment.store.report(g.digest, 2) for g in deployment.round.groups] == [None, None]
    assert deployment.report(2) == late  # the same bytes, and no second charge
    assert list(ledger.history()) == before
    assert [entry.nano_nats > 0 for entry in before] == [True]


def test_a_report_that_is_being_stored_when_its_round_closes_is_counted(
    deployment: Deployment, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round waits for the disk, since the report will be acknowledged as accepted."""
    begun, let = threading.Event(), threading.Event()
    accept = deployment.store.accept

    def slow(arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        begun.set()
        assert let.wait(30)
        return accept(arrivals)

    monkeypatch.setattr(deployment.store, "accept", slow)

    async def scenario() -> None:
        async with deployment.asking() as (hub, task):
            delivering = asyncio.ensure_future(delivered(hub, deployment, 0))
            while not begun.is_set():
                await asyncio.sleep(0.001)
            deployment.clock.now_s += DEADLINE_S
            try:
                assert await still_open(task)
            finally:
                let.set()
            assert await delivering == [AckStatus.ACCEPTED]
            assert answered(await task) == (1, USERS)

    with ThreadPoolExecutor(2) as deployment.executor:  # one of which waits for the disk
        run(scenario())


@pytest.mark.parametrize("with_another", [False, True], ids=["alone", "one by one"])
def test_a_report_that_comes_while_its_round_closes_is_late(
    deployment: Deployment,
    run: Run,
    with_another: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The round is still known, its end is not durable yet, and nothing more is stored of it."""
    begun, let = threading.Event(), threading.Event()
    close_round = deployment.store.close_round

    def slow(*words: Any) -> None:
        begun.set()
        assert let.wait(30)
        close_round(*words)

    monkeypatch.setattr(deployment.store, "close_round", slow)
    never = encode_report(Report(bytes(32), b"\x00", 0, 0))
    reports = [deployment.report(2), *([never] if with_another else [])]

    async def scenario() -> None:
        async with deployment.asking() as (hub, task):
            await delivered(hub, deployment, 0)
            deployment.clock.now_s += DEADLINE_S
            while not begun.is_set():
                await asyncio.sleep(0.001)
            try:
                acks = await asyncio.wait_for(hub.deliver(2, reports), 30)
            finally:
                let.set()
            assert [status for _, status in acks][:1] == [AckStatus.LATE]
            assert answered(await task) == (1, USERS)

    with ThreadPoolExecutor(2) as deployment.executor:  # one of which waits for the disk
        run(scenario())
    assert [deployment.store.report(g.digest, 2) for g in deployment.round.groups] == [None, None]


def test_what_was_counted_before_it_closed_is_no_late_report(
    deployment: Deployment, run: Run
) -> None:
    async def scenario() -> None:
        async with deployment.asking() as (hub, task):
            await delivered(hub, deployment, 0)
            deployment.clock.now_s += DEADLINE_S
            await task
            assert await delivered(hub, deployment, 0) == [AckStatus.DUPLICATE]

    run(scenario())


def test_a_report_of_what_was_never_asked_is_not_late_but_unknown(
    deployment: Deployment, run: Run
) -> None:
    never: Round = deployment.world.round(USERS, number=7, study=deployment.study)
    report = deployment.devices[0].answer(never.groups[0].payload)

    async def scenario() -> None:
        async with deployment.asking() as (hub, _):
            digest = digest_of(never.groups[0].payload)
            assert await hub.deliver(0, [report]) == [(digest, AckStatus.UNKNOWN)]

    run(scenario())


def test_a_timely_report_is_not_called_late_before_its_round_is_loaded(
    deployment: Deployment, run: Run
) -> None:
    """A restarted aggregator answers UNAVAILABLE: the device keeps its report."""

    async def scenario() -> None:
        async with deployment.asking():
            pass  # ends as a process does that is killed in the middle of the round
        restarted = Hub(deployment.store, deployment.executor)
        with pytest.raises(StoreError) as refused:
            await restarted.deliver(0, [deployment.report(0)])
        assert status_of(refused.value)[0] is StatusCode.UNAVAILABLE
        await restarted.stop()
        async with deployment.asking() as (hub, _):
            assert await delivered(hub, deployment, 0) == [AckStatus.ACCEPTED]

    run(scenario())


def test_a_timely_report_is_accepted_while_its_round_is_loaded(
    deployment: Deployment, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with deployment.asking() as (hub, _):
            await delivered(hub, deployment, 1)
        loading, loaded = asyncio.Event(), asyncio.Event()
        restarted = Hub(
            deployment.store, deployment.executor, clock=deployment.clock, sleep=wait_for_ever
        )
        resume = restarted._stored.enter_all

        async def slow(opened: Any) -> None:
            loading.set()
            await loaded.wait()
            await resume(opened)

        monkeypatch.setattr(restarted._stored, "enter_all", slow)
        task = asyncio.ensure_future(
            restarted.open(deployment.round, deployment.world.accounts(USERS))
        )
        await loading.wait()
        assert await delivered(restarted, deployment, 0) == [AckStatus.ACCEPTED]
        loaded.set()
        await delivered(restarted, deployment, 2, 3)
        assert answered(await task) == (USERS, USERS)
        await restarted.stop()

    run(scenario())


def test_a_report_to_a_study_that_cannot_go_on_holds_up_no_other(
    deployment: Deployment, run: Run
) -> None:
    async def scenario() -> None:
        async with deployment.asking():
            pass
        restarted = Hub(deployment.store, deployment.executor)
        restarted.suspend(deployment.round.study_digest)
        assert await delivered(restarted, deployment, 0) == [AckStatus.LATE]
        await restarted.stop()
        async with deployment.asking() as (hub, _):  # if it goes on after all, nothing is lost
            assert await delivered(hub, deployment, 0) == [AckStatus.ACCEPTED]

    run(scenario())


def test_a_wall_clock_that_is_set_forward_closes_no_round_early(
    deployment: Deployment, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the aggregator runs, and between two of its processes."""
    ahead_ns = 0
    real_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + ahead_ns)

    async def look_often(_: float) -> None:
        await asyncio.sleep(0.001)

    async def scenario() -> None:
        nonlocal ahead_ns
        for _ in range(2):
            hub = Hub(deployment.store, deployment.executor, sleep=look_often)
            task = asyncio.ensure_future(
                hub.open(deployment.round, deployment.world.accounts(USERS))
            )
            while hub.progress(deployment.round.study_digest) == (0, 0) and not task.done():
                await asyncio.sleep(0.001)
            ahead_ns += 10 * 365 * 86_400 * 10**9
            assert await still_open(task)
            await hub.stop()
            await asyncio.gather(task, return_exceptions=True)

    run(scenario())


def test_a_machine_that_starts_again_leaves_a_round_the_time_it_had(
    deployment: Deployment, run: Run
) -> None:
    async def scenario() -> None:
        async with deployment.asking():
            pass
        clock = deployment.clock
        clock.boot, clock.now_s = "the second boot", 5  # counts from its start
        async with deployment.asking() as (_, task):
            clock.now_s += DEADLINE_S - 1
            assert await still_open(task)
            clock.now_s += 1
            assert answered(await task) == (0, USERS)

    run(scenario())


def test_what_is_left_of_a_round_is_noted_every_minute(deployment: Deployment, run: Run) -> None:
    deployment.study = deployment.world.signed_study(round_deadline_s=600)
    deployment.round = deployment.world.round(USERS, study=deployment.study)

    async def scenario() -> None:
        async with deployment.asking():
            for left_s in range(540, 0, -60):
                deployment.clock.now_s += 60
                while noted_ms(deployment) != 1000 * left_s or not deployment.clock.asleep:
                    await asyncio.sleep(0.001)

    run(scenario())


def noted_ms(deployment: Deployment) -> int:
    """Return the time left of the round, as stored."""
    note = deployment.store.open_round(deployment.round.study_digest, 0, [], None)
    assert note.deadline is not None
    return note.deadline.left_ms


async def wait_for_ever(_: float) -> None:
    """Wait for a clock that stands still."""
    await asyncio.Event().wait()
