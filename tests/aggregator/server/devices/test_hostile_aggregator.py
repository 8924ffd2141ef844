"""A device's runtime against an aggregator that says anything: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.exchange import (
    decode_check_in,
    encode_response,
)
from askance_aggregator.server.devices.credentials import (
    accepted_metadata,
)
from askance_client.codec import digest_of
from askance_client.device import Device
from askance_client.device.settling import MAX_REFUSALS
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, Refusal
from askance_client.queries import EncodedRecord
from askance_client.service import (
    MAX_REQUESTS,
    MAX_RESPONSE_BYTES,
    SERVICE,
    CheckIn,
    Response,
    channel_options,
)
from askance_client.service.credentials import PROTOCOL_KEY
from askance_client.service.evaluation import TimedEvaluation
from askance_client.service.exchange import MAX_STUDIES, PROTOCOL, ExchangeTooLarge
from askance_client.service.streams import describe
from askance_protos.v1 import exchange_pb2 as pb
from askance_simulation.stream_runner import StreamRunner

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]


class Script:
    """Scripted aggregator: messages received, and the response to each in turn."""

    def __init__(self, *answers: bytes | Response | grpc.StatusCode) -> None:
        self.answers = list(answers)
        self.hangs_up = False  # after its first answer on a stream
        self.greeting = accepted_metadata()
        self.heard: list[CheckIn] = []

    def next(self, data: bytes) -> bytes | grpc.StatusCode:
        message = decode_check_in(data)
        self.heard.append(message)
        if not self.answers:
            acks = tuple((digest_in(report), AckStatus.ACCEPTED) for report in message.reports)
            return encode_response(Response(acks=acks))
        answer = self.answers.pop(0)
        return encode_response(answer) if isinstance(answer, Response) else answer

    async def check_in(self, data: bytes, context: Any) -> bytes:
        answer = self.next(data)
        if isinstance(answer, bytes):
            return answer
        await context.abort(answer, "scripted")
        raise AssertionError

    async def participate(self, _: object, context: Any) -> None:
        await context.send_initial_metadata(self.greeting)
        while isinstance(data := await context.read(), bytes):
            answer = self.next(data)
            if not isinstance(answer, bytes):
                await context.abort(answer, "scripted")
            await context.write(answer)
            if self.hangs_up:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "hung up")


def digest_in(report: bytes) -> bytes:
    from askance_client.codec import decode_report

    return decode_report(report).request_digest


@asynccontextmanager
async def aggregator(script: Script) -> AsyncIterator[aio.Channel]:
    server = aio.server()
    handlers: dict[str, Any] = {
        "CheckIn": grpc.unary_unary_rpc_method_handler(script.check_in),
        "Participate": grpc.stream_stream_rpc_method_handler(script.participate),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=channel_options()) as channel:
        yield channel
    await server.stop(0)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


@pytest.fixture
def device(world: World) -> Device:
    return world.device(0)


@pytest.fixture
def asking(world: World) -> Response:
    """A good response: the study and one request."""
    round_ = world.broadcast(1)
    return Response(studies=(round_.study,), requests=(round_.groups[0].payload,))


BAD: dict[str, tuple[bytes, type[Exception]]] = {
    "no protobuf": (b"\xff\xff\xff", RemoteProtocolError),
    "an unknown field": (b"\x78\x01", RemoteProtocolError),
    "a status of the future": (
        b"\x0a\x24\x0a\x20" + bytes(32) + b"\x10\x63",
        RemoteProtocolError,
    ),
    "an ack of nothing": (b"\x0a\x02\x10\x01", RemoteProtocolError),
    "too many requests": (
        encode_response(Response(requests=(b"x",) * (MAX_REQUESTS + 1))),
        ExchangeTooLarge,
    ),
    "too many studies": (b"\x12\x00" * (MAX_STUDIES + 1), ExchangeTooLarge),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_response_is_dropped_whole(
    world: World, device: Device, asking: Response, run: Run, what: str
) -> None:
    """Even the good request beside it goes unanswered, until it comes in a good response."""
    data, kind = BAD[what]
    script = Script(encode_response(asking) + data, asking)

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel)
            with pytest.raises(kind, match="expected"):
                await runner.check_in_once()
            assert list(device.ledger.history()) == []
            await runner.check_in_once()
            assert len(list(device.ledger.history())) == 1

    run(scenario())


def test_a_device_refuses_a_version_that_it_does_not_know_before_it_sends(
    world: World, device: Device, asking: Response, run: Run
) -> None:
    """The aggregator would ask a good question: nothing is answered, and no message leaves."""
    script = Script(asking)
    script.greeting = ((PROTOCOL_KEY, str(PROTOCOL + 1)),)
    failures: list[str] = []

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(
                0, device, channel, on_failure=lambda failure: failures.append(describe(failure))
            )
            task = asyncio.create_task(runner.participate())
            await asyncio.wait_for(until(lambda: bool(failures)), 5)
            task.cancel()

    run(scenario())
    assert f"protocol version {PROTOCOL}, got one of version {PROTOCOL + 1}" in failures[0]
    assert script.heard == []
    assert list(device.ledger.history()) == []


def test_a_response_beyond_the_limit_never_reaches_the_parser(
    world: World, device: Device, run: Run
) -> None:
    script = Script(bytes(MAX_RESPONSE_BYTES + 1))

    async def scenario() -> None:
        async with aggregator(script) as channel:
            with pytest.raises(aio.AioRpcError) as caught:
                await world.runner(0, device, channel).check_in_once()
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    run(scenario())


def test_a_stream_survives_whatever_comes(
    world: World, device: Device, asking: Response, run: Run
) -> None:
    failures: list[Exception] = []
    waits: list[float] = []
    script = Script(
        *(data for data, _ in BAD.values()),
        bytes(MAX_RESPONSE_BYTES + 1),
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNAUTHENTICATED,
        asking,
    )

    async def sleep(milliseconds: float) -> None:
        waits.append(milliseconds)

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = StreamRunner(
                device,
                world.identity(0),
                channel,
                jitter=lambda bound: bound,
                sleep=sleep,
                on_failure=failures.append,
            )
            task = asyncio.ensure_future(runner.participate())
            await until(lambda: bool(script.heard and script.heard[-1].reports))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()

    run(scenario())
    assert len(failures) == len(BAD) + 4
    assert waits == [500 * 2**n for n in range(len(BAD) + 4)]  # no good message in between
    assert len(list(device.ledger.history())) == 1


def test_what_is_not_acknowledged_is_sent_again_the_same_bytes(
    world: World, device: Device, asking: Response, run: Run
) -> None:
    script = Script(asking, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE)

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel)
            task = asyncio.ensure_future(runner.participate())
            await until(lambda: len(script.heard) == 4)
            await until(lambda: runner.unacknowledged == 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(scenario())
    stored = device.ledger.stored(digest_of(asking.requests[0]))
    assert stored is not None
    first, delivery, again, last = script.heard
    assert first.reports == ()
    assert delivery.reports == again.reports == last.reports == (stored,)
    assert again.known_studies == (digest_of(asking.studies[0].study),)
    assert len(list(device.ledger.history())) == 1


def test_a_stream_that_ends_while_an_answer_is_computed_loses_nothing(
    world: World, device: Device, asking: Response, run: Run
) -> None:
    script = Script(asking)
    script.hangs_up = True
    failures: list[Any] = []

    async def sleep(milliseconds: float) -> None:
        await asyncio.sleep(0.05)  # long enough for the end of the stream to be known

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = StreamRunner(
                device,
                world.identity(0),
                channel,
                sleep=sleep,
                release_ms=1,
                on_failure=failures.append,
            )
            task = asyncio.ensure_future(runner.participate())
            await until(lambda: bool(failures))
            assert runner.unacknowledged == 1
            script.hangs_up = False
            await until(lambda: runner.unacknowledged == 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(scenario())
    assert failures[0].code() is grpc.StatusCode.UNAVAILABLE
    assert script.heard[-1].reports == (device.ledger.stored(digest_of(asking.requests[0])),)


@pytest.mark.parametrize("status", list(AckStatus))
def test_any_acknowledgement_ends_the_deliveries(
    world: World, device: Device, asking: Response, run: Run, status: AckStatus
) -> None:
    digest = digest_of(asking.requests[0])
    script = Script(asking, Response(acks=((digest, status),)))

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel)
            await runner.check_in_once()
            assert runner.unacknowledged == 0

    run(scenario())


def test_an_aggregator_that_acknowledges_nothing_gets_no_endless_check_in(
    world: World, device: Device, asking: Response, run: Run
) -> None:
    script = Script(asking, Response())

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel)
            with pytest.raises(RemoteProtocolError, match="expected 1 acknowledgements, found 0"):
                await runner.check_in_once()
            assert runner.unacknowledged == 1

    run(scenario())


def test_an_aggregator_that_asks_for_ever_is_cut_off(
    world: World, device: Device, asking: Response, run: Run
) -> None:
    """Every response asks the same again, acknowledged each time: a check-in ends all the same."""
    digest = digest_of(asking.requests[0])
    again = Response(acks=((digest, AckStatus.DUPLICATE),), requests=asking.requests)
    script = Script(asking, *[again] * 1_000)

    async def scenario() -> None:
        async with aggregator(script) as channel:
            await world.runner(0, device, channel).check_in_once()

    run(scenario())
    assert len(script.heard) < 100
    assert len(list(device.ledger.history())) == 1


def round_requests(asking: Response) -> Callable[[int], bytes]:
    """From a round's number, the request that an aggregator made, as of that round."""

    def payload(number: int) -> bytes:
        message = pb.Request.FromString(asking.requests[0])
        message.round = number
        return message.SerializeToString(deterministic=True)

    return payload


def test_refusals_of_requests_of_no_study_are_bounded(
    world: World, device: Device, run: Run
) -> None:
    """Requests of no study cost nothing to make up; past the limit no report leaves."""
    floods = [
        Response(requests=tuple(b"%d %d" % (flood, n) for n in range(MAX_REQUESTS)))
        for flood in range(8)
    ]
    script, refusals = Script(*floods), list[Refusal]()

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel, on_refusal=refusals.append)
            task = asyncio.ensure_future(runner.participate())
            await until(lambda: len(refusals) == MAX_REFUSALS + MAX_REQUESTS)
            assert runner.unacknowledged == MAX_REFUSALS
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(scenario())


def test_unacknowledged_reports_are_bounded(
    world: World, device: Device, asking: Response, run: Run
) -> None:
    """Answers of one question, over and over, cost nothing; a device keeps a bounded number."""
    failures: list[Exception] = []
    payload = round_requests(asking)
    floods = [
        Response(
            studies=asking.studies,
            requests=tuple(payload(MAX_REQUESTS * flood + n) for n in range(MAX_REQUESTS)),
        )
        for flood in range(20)
    ]
    script = Script(*floods)

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel, on_failure=failures.append)
            task = asyncio.ensure_future(runner.participate())
            await until(lambda: len(failures) > 0)
            assert runner.unacknowledged == 1024
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(scenario())
    assert "without an acknowledgement" in str(failures[0])


def test_reports_leave_at_a_time_that_does_not_tell_how_long_they_took(
    world: World, asking: Response, run: Run
) -> None:
    log: list[str] = []
    device = world.device(0)
    record = device._record.load()

    class Slow:
        def words(self, request: bytes, count: int) -> tuple[int, ...]:
            log.append("coins drawn")
            return tuple(range(count))

        def load(self) -> EncodedRecord:
            log.append("evaluated")
            return record

    device._coins = device._record = Slow()
    script = Script(asking)

    async def sleep(milliseconds: float) -> None:
        if milliseconds not in (100, 150):  # a slot, the grid, a phase in which nothing begins
            await asyncio.sleep(0.002 * milliseconds)
            return
        log.append(f"wait of {milliseconds} ms begun")
        await asyncio.sleep(0.002 * milliseconds)
        await until(lambda: "evaluated" in log)  # however busy the machine is
        log.append(f"wait of {milliseconds} ms over")

    async def scenario() -> None:
        async with aggregator(script) as channel:
            evaluate = TimedEvaluation(20, sleep=sleep)
            runner = StreamRunner(
                device,
                world.identity(0),
                channel,
                sleep=sleep,
                evaluate=evaluate,
                release_ms=20,
            )
            await runner.check_in_once()
            log.append("delivered")
            evaluate.close()

    run(scenario())
    assert log == [
        "coins drawn",  # for what stands in for a draw that is late
        "coins drawn",  # for the value
        "wait of 150 ms begun",
        "wait of 100 ms begun",
        "evaluated",
        "wait of 100 ms over",
        "wait of 150 ms over",
        "delivered",
    ]
    assert len(script.heard[1].reports) == 1


def test_checking_in_for_ever_keeps_the_aggregators_pace_and_its_own_after_failures(
    world: World, device: Device, run: Run
) -> None:
    waits: list[float] = []
    script = Script(
        Response(retry_after_ms=1234),
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNAVAILABLE,
        Response(retry_after_ms=0),  # without a pause: that a device does not do
        grpc.StatusCode.UNAVAILABLE,
    )

    async def sleep(milliseconds: float) -> None:
        waits.append(milliseconds)
        if len(waits) == 5:
            raise asyncio.CancelledError

    async def scenario() -> None:
        async with aggregator(script) as channel:
            runner = StreamRunner(
                device, world.identity(0), channel, jitter=lambda bound: bound, sleep=sleep
            )
            task = asyncio.ensure_future(runner.keep_checking_in())
            await asyncio.gather(task, return_exceptions=True)

    run(scenario())
    assert waits == [1234, 500, 1000, 50, 500]
