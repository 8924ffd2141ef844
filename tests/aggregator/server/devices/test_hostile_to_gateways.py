"""A gateway against a hostile aggregator, and against one that breaks off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.exchange import (
    decode_batch,
    encode_gateway_response,
)
from askance_aggregator.queries import predicate
from askance_aggregator.server.devices.credentials import (
    accepted_metadata,
)
from askance_client.codec import decode_report, digest_of
from askance_client.messages import AckStatus, Reason, Refusal
from askance_client.service import SERVICE, gateway_metadata, token_digest
from askance_client.service.answering import DeviceAnswers
from askance_client.service.gateway_exchange import (
    MAX_UNSETTLED,
    Absence,
    GatewayBatch,
    GatewayResponse,
)
from askance_client.service.multiplexer import Multiplexer
from askance_protos.v1 import exchange_pb2 as pb
from askance_simulation.fleets.memory_ledger import MemoryLedger

MEMBERS = 4
Script = Callable[["Aggregator", Any], Awaitable[None]]


class Aggregator:
    """An aggregator that says what a script says, and keeps what gateways send."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = iter(scripts)
        self.batches: list[GatewayBatch] = []
        self.streams = 0

    async def relay(self, _: object, context: Any) -> None:
        self.streams += 1
        await context.send_initial_metadata(accepted_metadata())
        await self.read(context)  # the joins
        script = next(self._scripts, None)
        if script is None:
            await asyncio.Event().wait()
        else:
            await script(self, context)

    async def read(self, context: Any) -> GatewayBatch:
        batch = decode_batch(await context.read())
        self.batches.append(batch)
        return batch

    async def say(self, context: Any, **parts: Any) -> None:
        await context.write(encode_gateway_response(GatewayResponse(**parts)))

    @property
    def reports(self) -> list[tuple[int, bytes]]:
        return [(e.member, data) for b in self.batches for e in b.reports for data in e.reports]


class Fleet:
    """Members of a gateway, and what is told of them."""

    def __init__(self, world: Any, **policy: Any) -> None:
        self.ledgers = [MemoryLedger() for _ in range(MEMBERS)]
        self.devices = [world.device(o, made, **policy) for o, made in enumerate(self.ledgers)]
        self.members = [(world.identity(o), d) for o, d in enumerate(self.devices)]
        self.failures: list[str] = []

    @property
    def charged(self) -> list[int]:
        """Number of charged answers of each member."""
        return [len(list(ledger.history())) for ledger in self.ledgers]


@asynccontextmanager
async def against(world: Any, fleet: Fleet, *scripts: Script) -> Any:
    aggregator = Aggregator(scripts)
    server = aio.server()
    relay: Any = grpc.stream_stream_rpc_method_handler(aggregator.relay)
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {"Relay": relay}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        multiplexer = Multiplexer(
            fleet.members,
            gateway_metadata(world.gateway()),
            channel,
            answering=DeviceAnswers(),
            jitter=lambda bound: min(bound, 3),
            on_failure=fleet.failures.append,
        )
        task = asyncio.ensure_future(multiplexer.participate())
        try:
            yield aggregator, multiplexer
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await server.stop(0)


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def asked(world: Any, number: int = 0) -> bytes:
    payload: bytes = world.broadcast(MEMBERS, number=number).groups[0].payload
    return payload


NAMING: dict[str, Sequence[int]] = {
    "an unknown member": [0, MEMBERS],
    "one member twice": [1, 1],
    "members out of order": [2, 0],
}


@pytest.mark.parametrize("name", NAMING)
def test_requests_that_name_members_wrongly_are_dropped_whole_and_cost_nothing(
    world: Any, run: Any, name: str
) -> None:
    fleet = Fleet(world)

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        request = pb.MembersRequest(request=asked(world), members=NAMING[name])
        await context.write(pb.GatewayResponse(requests=[request]).SerializeToString())
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with against(world, fleet, script) as (one, _):
            await until(lambda: one.streams == 2)
            assert one.reports == []

    run(scenario())
    assert fleet.charged == [0] * MEMBERS
    assert "expected members" in fleet.failures[0]


def test_one_question_asked_in_many_responses_is_charged_once(world: Any, run: Any) -> None:
    """The same member in every response on its way, by requests of one question and by one."""
    fleet = Fleet(world)

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        for number in range(MAX_UNSETTLED):
            await one.say(context, requests=((asked(world, number % 2), (0,)),))
        while True:
            await one.read(context)

    async def scenario() -> Any:
        async with against(world, fleet, script) as (one, _):
            await until(lambda: len(one.reports) == MAX_UNSETTLED)
            return one.reports

    sent = run(scenario())
    assert fleet.charged == [1, 0, 0, 0]
    assert len({data for _, data in sent}) == 2
    assert len({decode_report(data).outcome for _, data in sent}) == 1


def test_more_responses_at_one_time_than_the_bound_end_the_stream(world: Any, run: Any) -> None:
    fleet = Fleet(world)
    held = asyncio.Event()

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        for number in range(MAX_UNSETTLED + 1):
            await one.say(context, requests=((asked(world, number), (0,)),))
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with against(world, fleet, script) as (one, multiplexer):

            async def slow(*_: Any) -> Any:
                await held.wait()
                return {}

            multiplexer._answering.answer = slow
            await until(lambda: one.streams == 2)

    run(scenario())
    assert f"at most {MAX_UNSETTLED} responses" in fleet.failures[0]


def test_an_aggregator_that_ends_its_streams_quickly_is_not_kept_more_and_more_for(
    world: Any, run: Any
) -> None:
    """A stream brings what is allowed and ends; the answers are slow."""
    fleet, streams = Fleet(world), 6
    held = asyncio.Event()

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        for number in range(MAX_UNSETTLED):
            await one.say(context, requests=((asked(world, number), (0,)),))

    async def scenario() -> int:
        async with against(world, fleet, *[script] * streams) as (one, multiplexer):

            async def slow(*_: Any) -> Any:
                await held.wait()
                return {}

            multiplexer._answering.answer = slow
            await until(lambda: one.streams == streams + 1)
            return len(multiplexer._tasks)

    assert run(scenario()) <= 2 * MAX_UNSETTLED
    assert any("of all streams" in failure for failure in fleet.failures)


def test_no_sequence_of_requests_passes_a_members_budget(world: Any, run: Any) -> None:
    """Five questions of 1 nat each, of members whose lives allow 2 nats."""
    fleet = Fleet(world)
    rounds = [
        world.group(
            range(MEMBERS),
            MEMBERS,
            number=number,
            query=world_query(world, number),
        ).payload
        for number in range(3)
    ]

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        for payload in rounds:
            await one.say(context, requests=((payload, tuple(range(MEMBERS))),))
        while True:
            await one.read(context)

    async def scenario() -> Any:
        async with against(world, fleet, script) as (one, _):
            await until(lambda: len(one.reports) == 3 * MEMBERS)
            return one.reports

    sent = run(scenario())
    refused = [data for _, data in sent if isinstance(decode_report(data).outcome, Refusal)]
    assert fleet.charged == [2] * MEMBERS
    assert len(refused) == MEMBERS


def world_query(world: Any, number: int) -> Any:
    schema = world.schema
    return (
        predicate(schema.smoker == 1),
        predicate(schema.colour == "red"),
        predicate(schema.colour == "blue"),
    )[number]


def test_what_was_not_acknowledged_is_sent_again_as_the_same_bytes(world: Any, run: Any) -> None:
    """The aggregator is gone after half of the acknowledgements."""
    fleet, payload = Fleet(world), asked(world)

    async def first(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        await one.say(context, requests=((payload, tuple(range(MEMBERS))),))
        await one.read(context)
        await one.say(context, acks=((digest_of(payload), AckStatus.ACCEPTED, (0, 2)),))

    async def second(one: Aggregator, context: Any) -> None:
        await one.say(context, requests=((payload, (1, 3)),))
        await one.read(context)
        await asyncio.Event().wait()

    async def scenario() -> Any:
        async with against(world, fleet, first, second) as (one, _):
            await until(lambda: len(one.reports) == MEMBERS + 2)
            return one

    one = run(scenario())
    before, again = one.reports[:MEMBERS], one.reports[MEMBERS:]
    assert sorted(member for member, _ in again) == [1, 3]
    assert set(again) < set(before)
    assert fleet.charged == [1] * MEMBERS
    assert one.batches[-2].known_studies == (digest_of(world.study.study),)


@pytest.mark.parametrize("word", [Reason.NOT_APPROVED, Reason.WAITING])
def test_a_report_that_never_arrived_does_not_leave_after_a_denial(
    world: Any, run: Any, word: Reason
) -> None:
    """The stream is lost before the reports are read; then the owner decides against the study."""
    words: list[Refusal | None] = [None]
    fleet, payload = Fleet(world, consent=lambda *_: words[0]), asked(world)

    async def first(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        await one.say(context, requests=((payload, tuple(range(MEMBERS))),))
        await until(lambda: fleet.charged == [1] * MEMBERS)
        words[0] = Refusal(word, "the owner's word")

    async def second(one: Aggregator, context: Any) -> None:
        await one.say(context, requests=((payload, tuple(range(MEMBERS))),))
        while True:
            await one.read(context)

    async def scenario() -> Any:
        async with against(world, fleet, first, second) as (one, _):
            await until(lambda: any(batch.settled for batch in one.batches))
            await asyncio.sleep(0.05)  # and nothing follows
            return one.reports

    outcomes = {decode_report(data).outcome for _, data in run(scenario())}
    assert outcomes == ({Refusal(word)} if word is Reason.NOT_APPROVED else set())
    assert fleet.charged == [1] * MEMBERS


def test_a_member_that_is_absent_joins_again_and_its_token_stands_in_every_batch(
    world: Any, run: Any
) -> None:
    fleet, payload = Fleet(world), asked(world)

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, absences=((Absence.REPLACED, (1, 2)),))
        await one.read(context)
        await one.say(context, studies=(world.study,))
        await one.say(context, requests=((payload, (1, 2)),))
        await one.read(context)
        await asyncio.Event().wait()

    async def scenario() -> Any:
        async with against(world, fleet, script) as (one, _):
            await until(lambda: one.reports)
            return one.batches

    _, joined, answered = run(scenario())
    assert [join.member for join in joined.joins] == [1, 2]
    text = "REPLACED: a member is not on the stream (does a copy of its folder run?)"
    assert fleet.failures == [text] * 2
    tokens = {entry.member: token_digest(entry.token) for entry in answered.reports}
    assert tokens == {n: token_digest(world.identity(n).token) for n in (1, 2)}


def test_a_ledger_that_is_older_than_the_aggregator_knows_holds_up_no_other_member(
    world: Any, run: Any
) -> None:
    fleet, payload = Fleet(world), asked(world)

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,), sequences=((1, 7),))
        await one.say(context, requests=((payload, tuple(range(MEMBERS))),))
        while True:
            await one.read(context)

    async def scenario() -> Any:
        async with against(world, fleet, script) as (one, _):
            await until(lambda: len(one.reports) == MEMBERS - 1)
            return one.reports

    assert sorted(member for member, _ in run(scenario())) == [0, 2, 3]
    assert fleet.charged == [1, 0, 1, 1]
    assert "the ledger is older" in fleet.failures[0]


def test_members_at_rest_have_no_task_of_their_own(world: Any, run: Any) -> None:
    fleet = Fleet(world)

    async def scenario() -> tuple[int, int]:
        before = len(asyncio.all_tasks())
        async with against(world, fleet) as (one, _):
            await until(lambda: one.batches)
            await asyncio.sleep(0.05)
            return before, len(asyncio.all_tasks())

    counts = {}
    for members in (1, MEMBERS):
        del fleet.members[members:]
        counts[members] = run(scenario())
        fleet = Fleet(world)
    assert counts[1] == counts[MEMBERS]


def test_reports_of_a_response_leave_in_an_order_that_is_drawn(world: Any, run: Any) -> None:
    fleet, payload = Fleet(world), asked(world)

    async def script(one: Aggregator, context: Any) -> None:
        await one.say(context, studies=(world.study,))
        await one.say(context, requests=((payload, tuple(range(MEMBERS))),))
        await one.read(context)
        await asyncio.Event().wait()

    async def scenario() -> Any:
        async with against(world, fleet, script) as (one, multiplexer):
            multiplexer._jitter = lambda bound: 0  # member n changes places with member 0
            await until(lambda: one.reports)
            return one.batches[-1]

    batch = run(scenario())
    assert [entry.member for entry in batch.reports] == [1, 2, 3, 0]
    assert batch.settled == 1
