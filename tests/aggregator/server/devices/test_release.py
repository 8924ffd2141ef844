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
from askance_client.device import Device, RecordWork
from askance_client.messages import AckStatus, Reason, Refusal
from askance_client.queries import EncodedRecord
from askance_client.randomizers import Channel, SystemCoins
from askance_client.records import ALONE, CallableSource, LiveRecord, Several
from askance_client.service import Response
from askance_client.service.evaluation import TimedEvaluation
from askance_protos.v1 import exchange_pb2
from askance_simulation.stream_runner import StreamRunner

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
RELEASE_MS = 1000
FIXED_MS, OVER_MS = 500, 750  # of a light message: a half and three quarters of the grid
TURNS = 200  # of the loop, within which everything happens that waits for no time


class Time:
    """A clock that is advanced by hand; nothing waits for the real one."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.waiting: list[tuple[float, asyncio.Future[None]]] = []

    async def sleep(self, milliseconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((self.now_ms + milliseconds, future))
        await future

    async def reach(self, now_ms: float, timed: Timed | None = None) -> None:
        """Advance to a time, one due wait after another, when threads have done what they can."""
        await settle(timed)
        while due := sorted(
            at for at, future in self.waiting if at <= now_ms and not future.done()
        ):
            self.now_ms = due[0]
            for at, future in self.waiting:
                if at <= self.now_ms and not future.done():
                    future.set_result(None)
            await settle(timed)
        self.now_ms = now_ms


class Timed(TimedEvaluation):
    """Evaluation on the hand-made clock, which waits for threads of its own.

    Args:
      disk_ms: how long the disk takes after it.
      hangs: whether an evaluation that has begun is not waited for.
    """

    def __init__(
        self,
        time: Time,
        *,
        disk_ms: int = 0,
        hangs: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> None:
        super().__init__(RELEASE_MS, sleep=time.sleep, **options)
        self.time, self.disk_ms, self.hangs = time, disk_ms, hangs
        self.steps: list[tuple[float, str]] = []
        self.running: dict[asyncio.Future[None], str] = {}

    async def __call__(self, work: RecordWork, device: object) -> None:
        await super().__call__(work, device)
        if self.disk_ms:
            await self.time.sleep(self.disk_ms)

    def _start(self, step: Callable[[], None]) -> asyncio.Future[None]:
        self.steps.append((self.time.now_ms, step.__name__))
        done = super()._start(step)
        self.running[done] = step.__name__
        done.add_done_callback(self.running.pop)
        return done

    def is_busy(self) -> bool:
        return any(step != "evaluate" or not self.hangs() for step in self.running.values())


async def settle(timed: Timed | None = None) -> None:
    """Let the loop turn until so many turns in a row found no thread at work.

    What a thread has ended goes on in the turns after it.
    """
    turns = 0
    while turns < TURNS:
        busy = timed is not None and timed.is_busy()
        turns = 0 if busy else turns + 1
        await asyncio.sleep(0.001 if busy else 0)


class Wire:
    """A channel whose aggregator asks once, and notes when reports come."""

    def __init__(self, time: Time, asking: Response) -> None:
        self.time, self.asking = time, asking
        self.reports: list[tuple[float, bytes]] = []

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

    def hangs(self) -> bool:
        return self.trouble == "hangs" and self.began.is_set() and not self.goes_on.is_set()


class Scene:
    """Device, source and runner on the hand-made clock."""

    def __init__(self, world: World, trouble: str = "", **options: Any) -> None:
        self.time, self.world = Time(), world
        self.device: Device = world.device(0, **options)
        self.source = Source(self.device._record.load(), trouble)
        self.device._record = self.source
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
        self, requests: tuple[bytes, ...], run: Run, *, disk_ms: int = 0
    ) -> list[tuple[float, bytes]]:
        """Ask for these in one message.

        Args:
          requests: encoded requests.
          run: runs coroutines.
          disk_ms: how long the disk takes, on the hand-made clock.

        Returns:
          The reports, each with the time since the requests came.
        """
        wire: Any = Wire(self.time, Response(requests=requests))
        timed = Timed(self.time, disk_ms=disk_ms, hangs=self.source.hangs)
        start_ms = self.time.now_ms

        async def scenario() -> None:
            runner = StreamRunner(
                self.device,
                self.world.identity(0),
                wire,
                sleep=self.time.sleep,
                evaluate=timed,
                release_ms=RELEASE_MS,
                now_ms=lambda: self.time.now_ms,
                on_refusal=self.refusals.append,
            )
            task = asyncio.ensure_future(runner.check_in_once())
            await self.time.reach(start_ms + 10 * RELEASE_MS, timed)
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
    scenes: Callable[..., Scene], run: Run, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, a report left when computed after `release_ms`, so a hanging source delayed it."""
    scene = scenes(trouble)
    reports = scene.delivered(scene.requests(0, 1, 2), run)
    assert [at for at, _ in reports] == [RELEASE_MS] * 3
    assert [decode_report(data).charged_nano_nats for _, data in reports] == [
        10**8 + number for number in range(3)
    ]
    assert caplog.records == []  # no log tells one record from another


TROUBLES = ["raises", "hangs", "nonsense", "nothing", "two records", "a long text"]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_that_a_live_source_does_shows_in_time_size_or_charge(
    scenes: Callable[..., Scene], run: Run, trouble: str
) -> None:
    """Compare what leaves with what leaves where the source is sound."""
    seen = []
    for case in ("", trouble):
        scene = scenes()
        scene.source.trouble = case
        held, failures = scene.source.goes_on, list[Exception]()
        scene.device._record = LiveRecord(
            CallableSource(partial(live, case, scene.source.began, held)),
            ALONE,
            schema=scene.world.schema,
            columns=dict.fromkeys(scene.world.schema.fields, "smoker"),
            several=Several.REFUSE,
            coins=SystemCoins(),
            on_failure=failures.append,
        )
        reports = scene.delivered(scene.requests(0, 1), run)
        decoded = [decode_report(data) for _, data in reports]
        assert not any(isinstance(report.outcome, Refusal) for report in decoded)
        charges = [report.charged_nano_nats for report in decoded]
        seen.append(([at for at, _ in reports], [len(data) for _, data in reports], charges))
        assert bool(failures) == (case not in ("", "hangs", "a long text"))
    assert seen[0] == seen[1]
    assert seen[0][0] == [RELEASE_MS] * 2


def live(case: str, began: threading.Event, goes_on: threading.Event) -> object:
    """Return what an application's function returns, or do what a broken one does."""
    if case == "raises":
        raise ValueError("secret")
    if case == "hangs":
        began.set()
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
    reports = scene.delivered((b"no request",), run)
    assert [at for at, _ in reports] == [RELEASE_MS]
    assert scene.source.loads == 0


@pytest.mark.parametrize(("disk_ms", "multiple"), [(200, 1), (400, 2), (1700, 3)])
@pytest.mark.parametrize("trouble", ["", "hangs"])
def test_a_slow_disk_moves_a_report_to_the_next_multiple(
    scenes: Callable[..., Scene], run: Run, trouble: str, disk_ms: int, multiple: int
) -> None:
    """And to the same one whether the record was evaluated in time or not."""
    scene = scenes(trouble)
    reports = scene.delivered(scene.requests(0), run, disk_ms=disk_ms)
    assert [at for at, _ in reports] == [multiple * RELEASE_MS]


def test_the_grid_begins_when_the_message_arrives(
    scenes: Callable[..., Scene], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delayed answer began after the ledger's number had been read."""
    scene = scenes()
    check = StreamRunner._check_sequence

    async def slow(runner: StreamRunner, acknowledged: int) -> None:
        await scene.time.sleep(200)
        await check(runner, acknowledged)

    monkeypatch.setattr(StreamRunner, "_check_sequence", slow)
    reports = scene.delivered(scene.requests(0), run)
    assert [at for at, _ in reports] == [RELEASE_MS]


def test_a_late_result_is_discarded(scenes: Callable[..., Scene], run: Run) -> None:
    """The source answers at last: the report that was sent stands, and the next is on time."""
    scene = scenes("hangs")
    ((_, sent),) = scene.delivered(scene.requests(0), run)
    scene.source.goes_on.set()
    ((_, again),) = scene.delivered(scene.requests(0), run)
    assert again == sent
    assert scene.source.began.wait(30)  # its thread may start after the hand-made clock's time
    assert scene.source.loads == 1


class Steps:
    """Work whose steps are noted, of which one may take the test's own time.

    Args:
      time: the hand-made clock.
      weight: public weight.
      slow: name of the step that waits for `goes_on`, or raises.
    """

    def __init__(self, time: Time, weight: int = 1, slow: str = "", raises: bool = False) -> None:
        self.time, self.weight, self.slow, self.raises = time, weight, slow, raises
        self.goes_on, self.began = threading.Event(), threading.Event()
        self.noted: list[tuple[float, str]] = []

    def _step(self, name: str) -> None:
        self.noted.append((self.time.now_ms, name))
        if name == self.slow:
            self.began.set()
            if self.raises:
                raise SystemExit
            self.goes_on.wait(30)

    def prepare(self) -> None:
        self._step("prepare")

    def evaluate(self) -> None:
        self._step("evaluate")

    def fix(self) -> None:
        self._step("fix")

    def draw(self) -> None:
        self._step("draw")

    def hangs(self) -> bool:
        return bool(self.slow) and self.began.is_set() and not self.goes_on.is_set()


class TestEvaluation:
    """Steps of work on a record at public times, in threads that may hang."""

    @pytest.mark.parametrize("slow", ["", "evaluate"])
    def test_values_are_fixed_and_draws_begin_at_a_public_time(self, run: Run, slow: str) -> None:
        """Once, a draw followed the evaluation, when that was over, and was not timed at all."""
        time = Time()
        work: Any = Steps(time, slow=slow)
        ended: list[float] = []

        async def scenario() -> None:
            timed = Timed(time, hangs=work.hangs)

            async def whole() -> None:
                await timed(work, object())
                ended.append(time.now_ms)

            task = asyncio.ensure_future(whole())
            await time.reach(2 * RELEASE_MS, timed)
            await task
            work.goes_on.set()
            timed.close()

        run(scenario())
        steps = [(0, "prepare"), (0, "evaluate"), (FIXED_MS, "fix"), (FIXED_MS, "draw")]
        assert work.noted == steps
        assert ended == [OVER_MS]

    @pytest.mark.parametrize("slow", ["", "draw"])
    @pytest.mark.parametrize(
        ("weight", "over_ms"),
        # 256 units per ms: a quarter of the grid takes 64,000.
        [(1, 750), (63_999, 750), (64_000, 1_250), (1_310_720, 10_750)],
    )
    def test_its_end_is_a_function_of_the_weight(
        self, run: Run, slow: str, weight: int, over_ms: int
    ) -> None:
        time = Time()
        work: Any = Steps(time, weight, slow)
        ended: list[float] = []

        async def scenario() -> None:
            timed = Timed(time)
            timed.is_busy = lambda: bool(timed.running) and not work.hangs()  # type: ignore[method-assign]  # a draw hangs here

            async def whole() -> None:
                await timed(work, object())
                ended.append(time.now_ms)

            task = asyncio.ensure_future(whole())
            await time.reach(20 * RELEASE_MS, timed)
            await task
            work.goes_on.set()
            timed.close()

        run(scenario())
        assert ended == [over_ms]

    @pytest.mark.parametrize("slow", ["", "evaluate"])
    def test_nothing_is_sent_while_work_on_a_record_may_run(self, run: Run, slow: str) -> None:
        """A check-in or another member's report was delayed by threads that held Python's lock."""
        time = Time()
        work: Any = Steps(time, slow=slow)
        sent: list[float] = []

        async def scenario() -> None:
            timed = Timed(time, hangs=work.hangs)

            async def send() -> None:
                await timed.quiet()
                sent.append(time.now_ms)

            await send()
            working = asyncio.ensure_future(timed(work, object()))
            await time.reach(100, timed)
            sending = asyncio.ensure_future(send())
            await time.reach(2 * RELEASE_MS, timed)
            await asyncio.gather(working, sending)
            work.goes_on.set()
            timed.close()

        run(scenario())
        assert sent == [0, OVER_MS]

    def test_windows_and_sending_alternate(self, run: Run) -> None:
        """New windows open for two periods of the grid; none within a quarter after the last."""
        time = Time()
        works: list[Any] = [Steps(time) for _ in range(5)]

        async def scenario() -> None:
            timed = Timed(time)
            tasks = []
            for number, start in enumerate((0, 700, 1_400, 1_999, 2_001)):
                await time.reach(start, timed)
                tasks.append(asyncio.ensure_future(timed(works[number], object())))
            await time.reach(6 * RELEASE_MS, timed)
            await asyncio.gather(*tasks)
            timed.close()

        run(scenario())
        begins = [work.noted[1][0] for work in works]
        assert begins == [0, 700, 1_400, 1_999, 1_999 + OVER_MS + 250]

    def test_one_that_hangs_leaves_room_for_others(self, run: Run) -> None:
        time = Time()
        hanging: list[Any] = [Steps(time, slow="evaluate") for _ in range(3)]
        last: Any = Steps(time)

        async def scenario() -> None:
            timed = Timed(time, at_once=1)
            timed.hangs = lambda: all_began(hanging, timed)
            tasks = [asyncio.ensure_future(timed(one, one)) for one in (*hanging, last)]
            await time.reach(3 * RELEASE_MS, timed)
            await asyncio.gather(*tasks)
            for one in hanging:
                one.goes_on.set()
            timed.close()

        run(scenario())
        assert [step for _, step in last.noted] == ["prepare", "evaluate", "fix", "draw"]

    # 2,560 units: a slot of 1 + 2 x 10 ms.
    @pytest.mark.parametrize(("weight", "starts"), [(0, [0, 1, 2]), (2560, [0, 21, 42])])
    @pytest.mark.parametrize("trouble", ["", "raises", "hangs"])
    def test_it_begins_at_a_time_that_does_not_depend_on_other_members_records(
        self, run: Run, trouble: str, weight: int, starts: list[int]
    ) -> None:
        """Start evaluations at times that no record changes.

        A slot was free when its evaluation was done, or late: the next member's report left on a
        multiple of the grid that depended on the time of other members' records.
        """
        time = Time()
        works: list[Any] = [
            Steps(time, weight, "evaluate" if trouble else "", trouble == "raises") for _ in starts
        ]

        async def scenario() -> None:
            timed = Timed(time, at_once=1)
            if trouble == "hangs":
                timed.hangs = lambda: all_began(works, timed)
            tasks = [asyncio.ensure_future(timed(work, work)) for work in works]
            await time.reach(2 * RELEASE_MS, timed)
            await asyncio.gather(*tasks)
            for work in works:
                work.goes_on.set()
            timed.close()

        run(scenario())
        assert [work.noted[1] for work in works] == [(start, "evaluate") for start in starts]

    def test_a_thread_outlives_what_its_work_raises(self, run: Run) -> None:
        time = Time()
        works: list[Any] = [Steps(time, slow="evaluate", raises=True), Steps(time)]

        async def scenario() -> None:
            timed = Timed(time)
            for number, work in enumerate(works):
                task = asyncio.ensure_future(timed(work, work))
                await time.reach((number + 1) * 2 * RELEASE_MS, timed)
                await task
            assert len(timed._idle) == 1
            timed.close()

        run(scenario())
        assert [step for _, step in works[1].noted] == ["prepare", "evaluate", "fix", "draw"]

    def test_a_device_whose_source_hangs_takes_one_thread(
        self, scenes: Callable[..., Scene], run: Run
    ) -> None:
        scene = scenes("hangs")

        async def scenario() -> None:
            timed = Timed(scene.time, hangs=scene.source.hangs)
            wire: Any = Wire(scene.time, Response())
            runner = StreamRunner(
                scene.device,
                scene.world.identity(0),
                wire,
                sleep=scene.time.sleep,
                evaluate=timed,
                release_ms=RELEASE_MS,
                now_ms=lambda: scene.time.now_ms,
            )
            for number in range(5):
                wire.asking = Response(requests=scene.requests(number))
                task = asyncio.ensure_future(runner.check_in_once())
                await scene.time.reach((number + 1) * 10 * RELEASE_MS, timed)
                await task
            timed.close()

        run(scenario())
        assert scene.source.loads == 1
        assert len(list(scene.device.ledger.history())) == 5


def all_began(works: list[Any], timed: Timed) -> bool:
    """Return whether every evaluation of these that was started has begun in its thread."""
    started = sum(step == "evaluate" for _, step in timed.steps)
    begun = sum(bool(work.began.is_set()) for work in works)
    return begun == min(started, len(works))


@pytest.mark.parametrize("smoker", [0, 1])
def test_a_report_leaves_at_the_same_time_however_long_its_draw_takes(
    scenes: Callable[..., Scene], run: Run, monkeypatch: pytest.MonkeyPatch, smoker: int
) -> None:
    """A draw that is slow for one value, here for ever: the stand-in leaves, at the same charge.

    Once, the draw ran after the fixed time, and its report left on a later multiple of the grid.
    """
    scene = scenes()
    scene.source.record = EncodedRecord(
        {**scene.source.record.values, "smoker": smoker}, scene.source.record.present
    )
    draw, began, goes_on = Channel.randomize, threading.Event(), threading.Event()

    def slow(channel: Channel, level: int, coins: Any) -> bytes:
        if level == 1:
            began.set()
            goes_on.wait(3)
        return draw(channel, level, coins)

    monkeypatch.setattr(Channel, "randomize", slow)
    monkeypatch.setattr(Timed, "is_busy", lambda timed: bool(timed.running) and not began.is_set())
    reports = scene.delivered(scene.requests(0), run)
    goes_on.set()
    assert [at for at, _ in reports] == [RELEASE_MS]
    assert [decode_report(data).charged_nano_nats for _, data in reports] == [10**8]


def test_a_cancelled_exchange_lets_the_device_go(scenes: Callable[..., Scene], run: Run) -> None:
    """A stream that is hung up in the middle of a message must not hold the device for ever."""
    scene = scenes("hangs")
    wire: Any = Wire(scene.time, Response(requests=scene.requests(0)))

    async def scenario() -> None:
        timed = Timed(scene.time, hangs=scene.source.hangs)
        runner = StreamRunner(
            scene.device,
            scene.world.identity(0),
            wire,
            sleep=scene.time.sleep,
            evaluate=timed,
            release_ms=RELEASE_MS,
        )
        task = asyncio.ensure_future(runner.check_in_once())
        await settle(timed)
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
