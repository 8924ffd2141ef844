"""Reports leave on a grid that is fixed beforehand, whatever a record or its source does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.exchange import (
    decode_check_in,
    encode_response,
)
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_report
from askance_client.device import Device
from askance_client.messages import AckStatus, Reason, Refusal
from askance_client.queries import EncodedRecord
from askance_client.randomizers import SystemCoins
from askance_client.records import ALONE, CallableSource, LiveRecord, Several
from askance_client.service import Response
from askance_client.service.evaluation import TimedEvaluation
from askance_protos.v1 import exchange_pb2
from askance_simulation.stream_runner import StreamRunner

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
RELEASE_MS, LIMIT_MS = 1000, 500
TURNS = 200  # of the loop, within which everything happens that waits for no time


class Time:
    """A clock that is advanced by hand; nothing waits for the real one."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def sleep(self, milliseconds: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((self.now_ms + milliseconds, future))
        await future

    async def reach(self, now_ms: int) -> None:
        """Advance to a time, one due wait after another."""
        while due := sorted(
            at for at, future in self.waiting if at <= now_ms and not future.done()
        ):
            self.now_ms = due[0]
            for at, future in self.waiting:
                if at <= self.now_ms and not future.done():
                    future.set_result(None)
            await settle()
        self.now_ms = now_ms


async def settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Wire:
    """A channel whose aggregator asks once, and notes when reports come."""

    def __init__(self, time: Time, asking: Response) -> None:
        self.time, self.asking = time, asking
        self.reports: list[tuple[int, bytes]] = []

    def unary_unary(self, method: str) -> Any:
        async def call(data: bytes, timeout: int, metadata: object) -> bytes:
            reports = decode_check_in(data).reports
            self.reports += [(self.time.now_ms, report) for report in reports]
            if not reports:
                return encode_response(self.asking)
            digests = [decode_report(report).request_digest for report in reports]
            acks = tuple((digest, AckStatus.ACCEPTED) for digest in digests)
            return encode_response(Response(acks=acks))

        return call

    def stream_stream(self, method: str) -> None:
        return None


class Source:
    """A record's source that is quick, raises or hangs; done when its evaluation has ended."""

    def __init__(self, record: EncodedRecord, trouble: str = "") -> None:
        self.record, self.trouble = record, trouble
        self.goes_on = threading.Event()
        self.began = threading.Event()
        self.loads = 0

    def load(self) -> EncodedRecord:
        self.loads += 1
        self.began.set()
        if self.trouble == "raises":
            raise ValueError("smoker=1")
        if self.trouble == "hangs":
            self.goes_on.wait(30)
        return self.record


class Scene:
    """Device, source and runner on the hand-made clock."""

    def __init__(self, world: World, trouble: str = "", **options: Any) -> None:
        self.time, self.world = Time(), world
        self.device: Device = world.device(0, **options)
        self.source = Source(self.device._record.load(), trouble)
        self.device._record = self.source
        self.notes: list[str] = []
        self.refusals: list[Refusal] = []
        self.device.introduce(world.study)

    def requests(self, *numbers: int) -> tuple[bytes, ...]:
        """Distinct questions, by number."""
        epsilon = parse_epsilon("0.1")
        smoker = self.world.schema.smoker
        return tuple(
            self.world.group(
                range(1),
                1,
                query=predicate(smoker == 1, default=0),
                randomizer=randomized_response(epsilon + number),
            ).payload
            for number in numbers
        )

    def delivered(
        self, requests: tuple[bytes, ...], run: Run, *, evaluated: bool = True, disk_ms: int = 0
    ) -> list[tuple[int, bytes]]:
        """Ask for these in one message.

        Args:
          requests: encoded requests.
          run: runs coroutines.
          evaluated: whether a record is read, and in time.
          disk_ms: how long the disk takes, on the hand-made clock.

        Returns:
          The reports, each with the time since the requests came.
        """
        wire: Any = Wire(self.time, Response(requests=requests))
        timed = TimedEvaluation(LIMIT_MS, sleep=self.time.sleep)
        start_ms = self.time.now_ms

        async def evaluate(work: Callable[[], None], weight: int) -> asyncio.Future[None]:
            done = await timed(work, weight)
            if disk_ms:
                await self.time.sleep(disk_ms)
            return done

        async def scenario() -> None:
            runner = StreamRunner(
                self.device,
                self.world.identity(0),
                wire,
                sleep=self.time.sleep,
                evaluate=evaluate,
                release_ms=RELEASE_MS,
                on_default=self.notes.append,
                on_refusal=self.refusals.append,
            )
            task = asyncio.ensure_future(runner.check_in_once())
            await settle()
            while evaluated and not timed._idle:  # the thread is done when it is idle
                await asyncio.sleep(0.001)
            await self.time.reach(start_ms + 10 * RELEASE_MS)
            await task
            timed.close()

        run(scenario())
        return [(at - start_ms, report) for at, report in wire.reports]


@pytest.fixture
def scenes(world: World) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(trouble: str = "", **options: Any) -> Scene:
        made.append(Scene(world, trouble, **options))
        return made[-1]

    yield make
    for scene in made:
        scene.source.goes_on.set()


@pytest.mark.parametrize("trouble", ["", "raises", "hangs"])
def test_a_report_leaves_at_the_same_time_whatever_the_record_source_does(
    scenes: Callable[..., Scene], run: Run, trouble: str
) -> None:
    """Once, a report left when computed after `release_ms`, so a hanging source delayed it."""
    scene = scenes(trouble)
    reports = scene.delivered(scene.requests(0, 1, 2), run, evaluated=trouble != "hangs")
    assert [at for at, _ in reports] == [RELEASE_MS] * 3
    assert [decode_report(data).charged_nano_nats for _, data in reports] == [
        10**8 + number for number in range(3)
    ]
    expected = {
        "": [],
        "raises": ["a record was not evaluated"] * 3,
        "hangs": ["a record was not evaluated in time"],
    }
    assert scene.notes == expected[trouble]


TROUBLES = ["raises", "hangs", "nonsense", "nothing", "two records", "a long text"]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_that_a_live_source_does_shows_in_time_size_or_charge(
    scenes: Callable[..., Scene], run: Run, trouble: str
) -> None:
    """Compare what leaves with what leaves where the source is sound."""
    seen = []
    for case in ("", trouble):
        scene = scenes()
        held, failures = scene.source.goes_on, list[Exception]()
        scene.device._record = LiveRecord(
            CallableSource(partial(live, case, held)),
            ALONE,
            schema=scene.world.schema,
            columns=dict.fromkeys(scene.world.schema.fields, "smoker"),
            several=Several.REFUSE,
            coins=SystemCoins(),
            on_failure=failures.append,
        )
        reports = scene.delivered(scene.requests(0, 1), run, evaluated=case != "hangs")
        decoded = [decode_report(data) for _, data in reports]
        assert not any(isinstance(report.outcome, Refusal) for report in decoded)
        charges = [report.charged_nano_nats for report in decoded]
        seen.append(([at for at, _ in reports], [len(data) for _, data in reports], charges))
        assert bool(failures) == (case not in ("", "hangs", "a long text"))
        assert bool(scene.notes) == (case not in ("", "a long text"))
        assert "secret" not in " ".join(scene.notes)
    assert seen[0] == seen[1]
    assert seen[0][0] == [RELEASE_MS] * 2


def live(case: str, goes_on: threading.Event) -> object:
    """Return what an application's function returns, or do what a broken one does."""
    if case == "raises":
        raise ValueError("secret")
    if case == "hangs":
        goes_on.wait(30)
    returned: dict[str, object] = {
        "nonsense": object(),
        "nothing": [],
        "two records": [{"smoker": 1}, {"smoker": 0}],
        "a long text": {"smoker": "secret" * 100_000},
    }
    return returned.get(case, {"smoker": 1})


def test_fresh_reused_and_refused_answers_of_one_message_leave_together(
    scenes: Callable[..., Scene], run: Run
) -> None:
    scene = scenes()
    (first, *_) = scene.delivered(scene.requests(0), run)
    message = pb_round(scene.requests(0)[0], 1), *scene.requests(1), b"no request"
    reports = scene.delivered(message, run)
    assert [at for at, _ in reports] == [RELEASE_MS] * 3
    again, fresh, refused = (decode_report(data) for _, data in reports)
    assert again.outcome == decode_report(first[1]).outcome
    assert [again.charged_nano_nats, fresh.charged_nano_nats] == [0, 10**8 + 1]
    assert refused.outcome == Refusal(Reason.MALFORMED)
    assert [refusal.reason for refusal in scene.refusals] == [Reason.MALFORMED]


def test_refusals_alone_leave_on_the_grid_as_well(scenes: Callable[..., Scene], run: Run) -> None:
    scene = scenes()
    reports = scene.delivered((b"no request",), run, evaluated=False)
    assert [at for at, _ in reports] == [RELEASE_MS]
    assert scene.source.loads == 0


@pytest.mark.parametrize(("disk_ms", "multiple"), [(400, 1), (600, 2), (1700, 3)])
@pytest.mark.parametrize("trouble", ["", "hangs"])
def test_a_slow_disk_moves_a_report_to_the_next_multiple(
    scenes: Callable[..., Scene], run: Run, trouble: str, disk_ms: int, multiple: int
) -> None:
    """And to the same one whether the record was evaluated in time or not."""
    scene = scenes(trouble)
    reports = scene.delivered(scene.requests(0), run, evaluated=not trouble, disk_ms=disk_ms)
    assert [at for at, _ in reports] == [multiple * RELEASE_MS]


def test_the_grid_begins_when_the_message_arrives(
    scenes: Callable[..., Scene], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delayed answer began after the ledger's number had been read."""
    scene = scenes()
    check = StreamRunner._check_sequence

    async def slow(runner: StreamRunner, acknowledged: int) -> None:
        await scene.time.sleep(300)
        await check(runner, acknowledged)

    monkeypatch.setattr(StreamRunner, "_check_sequence", slow)
    reports = scene.delivered(scene.requests(0), run, evaluated=False)
    assert [at for at, _ in reports] == [RELEASE_MS]


def test_a_late_result_is_discarded(scenes: Callable[..., Scene], run: Run) -> None:
    """The source answers at last: the report that was sent stands, and the next is on time."""
    scene = scenes("hangs")
    ((_, sent),) = scene.delivered(scene.requests(0), run, evaluated=False)
    scene.source.goes_on.set()
    ((_, again),) = scene.delivered(scene.requests(0), run, evaluated=False)
    assert again == sent
    assert scene.source.began.wait(30)  # its thread may start after the hand-made clock's time
    assert scene.source.loads == 1


class TestEvaluation:
    """Threads that may hang."""

    def test_one_that_hangs_leaves_room_for_others(self, run: Run) -> None:
        time, stuck, done = Time(), threading.Event(), list[int]()

        def hang() -> None:
            stuck.wait(30)

        async def scenario() -> None:
            timed = TimedEvaluation(LIMIT_MS, sleep=time.sleep, at_once=1)
            hanging = [asyncio.ensure_future(timed(hang, 1)) for _ in range(3)]
            last = asyncio.ensure_future(timed(lambda: done.append(1), 1))
            await settle()
            await time.reach(3 * LIMIT_MS)
            while not done:
                await asyncio.sleep(0.001)
            assert not any([(await task).done() for task in hanging])
            await time.reach(5 * LIMIT_MS)
            await last
            stuck.set()
            timed.close()

        run(scenario())
        assert done == [1]

    @pytest.mark.parametrize(("weight", "starts"), [(0, [0, 1, 2]), (2560, [0, 11, 22])])
    @pytest.mark.parametrize("trouble", ["", "raises", "hangs"])
    def test_it_begins_at_a_time_that_does_not_depend_on_other_members_records(
        self, run: Run, trouble: str, weight: int, starts: list[int]
    ) -> None:
        """Start evaluations at times that no record changes.

        A slot was free when its evaluation was done, or late: the next member's report left on a
        multiple of the grid that depended on the time of other members' records.
        """
        time, stuck, began = Time(), threading.Event(), list[int]()

        def evaluate() -> None:
            began.append(time.now_ms)
            if trouble == "raises":
                raise ValueError
            if trouble == "hangs":
                stuck.wait(30)

        async def scenario() -> None:
            timed = TimedEvaluation(LIMIT_MS, sleep=time.sleep, at_once=1)
            tasks = [asyncio.ensure_future(timed(evaluate, weight)) for _ in starts]
            for number, start in enumerate(starts):
                await settle()
                await time.reach(start)
                while len(began) <= number:
                    await asyncio.sleep(0.001)
            await time.reach(2 * LIMIT_MS)
            await asyncio.gather(*tasks)
            stuck.set()
            timed.close()

        run(scenario())
        assert began == starts

    def test_a_thread_outlives_what_its_work_raises(self, run: Run) -> None:
        time, done = Time(), list[int]()

        def exits() -> None:
            raise SystemExit

        async def scenario() -> None:
            timed = TimedEvaluation(LIMIT_MS, sleep=time.sleep)
            for work in (exits, lambda: done.append(1)):
                task = asyncio.ensure_future(timed(work, 1))
                await settle()
                while not timed._idle:
                    await asyncio.sleep(0.001)
                await time.reach(time.now_ms + LIMIT_MS)
                assert (await task).done()
            assert len(timed._idle) == 1
            timed.close()

        run(scenario())
        assert done == [1]

    def test_a_device_whose_source_hangs_takes_one_thread(
        self, scenes: Callable[..., Scene], run: Run
    ) -> None:
        scene = scenes("hangs")

        async def scenario() -> None:
            timed = TimedEvaluation(LIMIT_MS, sleep=scene.time.sleep)
            wire: Any = Wire(scene.time, Response())
            runner = StreamRunner(
                scene.device,
                scene.world.identity(0),
                wire,
                sleep=scene.time.sleep,
                evaluate=timed,
                release_ms=RELEASE_MS,
            )
            for number in range(5):
                wire.asking = Response(requests=scene.requests(number))
                task = asyncio.ensure_future(runner.check_in_once())
                await settle()
                await scene.time.reach((number + 1) * 10 * RELEASE_MS)
                await task
            timed.close()

        run(scenario())
        assert scene.source.loads == 1
        assert len(list(scene.device.ledger.history())) == 5


def test_a_cancelled_exchange_lets_the_device_go(scenes: Callable[..., Scene], run: Run) -> None:
    """A stream that is hung up in the middle of a message must not hold the device for ever."""
    scene = scenes("hangs")
    wire: Any = Wire(scene.time, Response(requests=scene.requests(0)))

    async def scenario() -> None:
        timed = TimedEvaluation(LIMIT_MS, sleep=scene.time.sleep)
        runner = StreamRunner(
            scene.device,
            scene.world.identity(0),
            wire,
            sleep=scene.time.sleep,
            evaluate=timed,
            release_ms=RELEASE_MS,
        )
        task = asyncio.ensure_future(runner.check_in_once())
        await settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await settle()

    run(scenario())
    assert not scene.device._lock.locked()
    assert list(scene.device.ledger.history()) == []


def pb_round(payload: bytes, number: int) -> bytes:
    """The same question in another round."""
    message = exchange_pb2.Request.FromString(payload)
    message.round = number
    return message.SerializeToString(deterministic=True)
