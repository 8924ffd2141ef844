"""A gateway's stream, seen from the aggregator: hostile gateways, takeover, fairness, bounds."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.server.devices.gateways import GatewayConnection
from askance_aggregator.store import SqliteStore
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, SignedStudy
from askance_client.service import (
    MAX_REQUESTS,
    SERVICE,
    Identity,
    channel_options,
    gateway_metadata,
    token_digest,
)
from askance_client.service.gateway_exchange import (
    MAX_BATCH_MEMBERS,
    MAX_JOINS,
    MAX_UNSETTLED,
    Absence,
    GatewayBatch,
    GatewayResponse,
    Join,
    MemberReports,
    decode_gateway_response,
    encode_batch,
)
from askance_protos.v1 import exchange_pb2 as pb

MEMBERS = 6
ACCEPTED, DUPLICATE = AckStatus.ACCEPTED, AckStatus.DUPLICATE


class Stream:
    """A gateway's stream without a gateway behind it."""

    def __init__(self, world: Any, call: Any) -> None:
        self._world, self._call = world, call
        self.acks: dict[tuple[int, bytes], AckStatus] = {}
        self.absences: dict[int, Absence] = {}
        self.asked: dict[int, list[bytes]] = {}
        self.responses = 0

    async def send(self, **parts: Any) -> None:
        await self._call.initial_metadata()  # a write to a stream that was refused loses its status
        with suppress(aio.AioRpcError, asyncio.InvalidStateError):  # ended: see its status
            await self._call.write(encode_batch(GatewayBatch(**parts)))

    async def join(self, ordinals: Iterable[int]) -> None:
        """Members join under the numbers 0, 1, ..., in this order."""
        await self.send(joins=tuple(self.joined(n, o) for n, o in enumerate(ordinals)))

    def joined(self, member: int, ordinal: int) -> Join:
        identity = self._world.identity(ordinal)
        return Join(member, identity.device_id, identity.token)

    def entry(self, member: int, *reports: bytes, ordinal: int | None = None) -> MemberReports:
        identity = self._world.identity(member if ordinal is None else ordinal)
        return MemberReports(member, identity.token, reports)

    async def read(self) -> GatewayResponse:
        data = await self._call.read()
        assert isinstance(data, bytes)
        response = decode_gateway_response(data, MAX_JOINS)
        for digest, status, members in response.acks:
            self.acks.update(((member, digest), status) for member in members)
        for reason, members in response.absences:
            self.absences.update((member, reason) for member in members)
        for payload, members in response.requests:
            for member in members:
                self.asked.setdefault(member, []).append(payload)
        self.responses += 1
        return response

    async def until(self, condition: Any) -> None:
        while not condition():
            await self.read()

    async def status(self) -> grpc.StatusCode:
        """Read until the stream has ended, and return its status."""
        with suppress(aio.AioRpcError):
            while isinstance(await self._call.read(), bytes):
                pass
        code: grpc.StatusCode = await self._call.code()
        return code


@pytest.fixture
def stream(world: Any, server: AggregatorServer) -> Any:
    """Open a stream as a gateway."""

    @asynccontextmanager
    async def opened(gateway: Identity | None = None) -> Any:
        sends = "grpc.max_send_message_length"  # as much as a hostile gateway likes
        options = [*(pair for pair in channel_options() if pair[0] != sends), (sends, -1)]
        async with aio.insecure_channel(server.address, options=options) as channel:
            metadata = gateway_metadata(gateway or world.gateway())
            yield Stream(world, channel.stream_stream(f"/{SERVICE}/Relay")(metadata=metadata))

    return opened


def reports(world: Any, round_: Any, members: Sequence[int]) -> list[bytes]:
    """Let device objects answer the one request of a broadcast."""
    found = []
    for ordinal in members:
        device = world.device(ordinal)
        device.introduce(round_.study)
        found.append(device.answer(round_.groups[0].payload))
    return found


def asking(server: AggregatorServer, world: Any, round_: Any, members: int = MEMBERS) -> Any:
    return asyncio.ensure_future(
        asyncio.to_thread(server.fleet.ask, round_, world.accounts(members))
    )


def test_a_gateway_that_is_not_enrolled_or_has_another_token_is_refused(
    world: Any, store: SqliteStore, stream: Any, run: Any
) -> None:
    world.enrol(store, 1)
    known = world.gateway()

    async def status(gateway: Identity) -> Any:
        async with stream(gateway) as one:
            await one.join([0])
            return await one.status()

    for gateway in (world.gateway(9), replace(known, token=bytes(32)), world.identity(0)):
        assert run(status(gateway)) is grpc.StatusCode.UNAUTHENTICATED


def test_members_of_other_gateways_are_refused_with_a_reason_and_the_others_go_on(
    world: Any, store: SqliteStore, server: AggregatorServer, stream: Any, run: Any
) -> None:
    world.enrol(store, 2)
    world.enrol_members(store, [2], 1)
    round_ = world.broadcast(3)

    async def scenario() -> Any:
        async with stream() as one:
            answers = asking(server, world, round_, 3)
            await one.join([0, 2, 1, 77])
            await one.until(lambda: len(one.absences) == 2 and len(one.asked) == 2)
            data = reports(world, round_, [0, 2, 1])
            entries = [one.entry(0, data[0]), one.entry(1, data[1], ordinal=2)]
            await one.send(reports=(*entries, one.entry(2, data[2], ordinal=1)), settled=1)
            await one.until(lambda: len(one.acks) == 2)
            server.loop.call_soon_threadsafe(server.hub.close_round, round_.study_digest)
            return one, await answers

    one, (tally,) = run(scenario())
    assert one.absences == {1: Absence.UNKNOWN, 3: Absence.UNKNOWN}  # asked for, then delivered
    assert set(one.asked) == {0, 2}
    assert tally.answered == 2


def test_the_reason_of_an_absence_is_the_first_that_applies(
    world: Any, store: SqliteStore, stream: Any, run: Any
) -> None:
    world.enrol(store, 1)
    world.enrol_members(store, [1], 1)

    async def scenario() -> Any:
        async with stream() as one:
            await one.join([0, 1, 77])
            await one.until(lambda: len(one.absences) == 2)
            return one.absences

    assert run(scenario()) == {1: Absence.OTHER_GATEWAY, 2: Absence.UNKNOWN}


def test_a_batch_is_checked_member_by_member_and_replays_count_once(
    world: Any, store: SqliteStore, server: AggregatorServer, stream: Any, run: Any
) -> None:
    """A token of another member, a report of another member's request, a batch sent three times."""
    world.enrol(store, MEMBERS)
    round_ = world.round(MEMBERS)  # two requests: members 0 .. 3, members 4 and 5
    first = round_.groups[0].digest

    async def scenario() -> Any:
        async with stream() as one:
            answers = asking(server, world, round_)
            await one.join(range(MEMBERS))
            await one.until(lambda: len(one.asked) == MEMBERS)
            data = reports(world, round_, [0, 1, 2])
            honest = (one.entry(0, data[0]), one.entry(4, data[1]))
            await one.send(reports=(*honest, one.entry(2, data[2], ordinal=3)), settled=1)
            await one.until(lambda: len(one.acks) == 2 and one.absences)
            before = dict(one.acks)
            for _ in range(2):
                await one.send(reports=honest[:1])
            await one.until(lambda: one.acks[0, first] is DUPLICATE)
            server.loop.call_soon_threadsafe(server.hub.close_round, round_.study_digest)
            return before, one, await answers

    before, one, tallies = run(scenario())
    assert before == {(0, first): ACCEPTED, (4, first): AckStatus.UNKNOWN}
    assert one.absences == {2: Absence.UNKNOWN}
    assert [tally.answered for tally in tallies] == [1, 0]


BROKEN: dict[str, tuple[Any, grpc.StatusCode]] = {
    "a member twice": (
        lambda one, honest: {"reports": (honest, honest)},
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "a member that never joined": (
        lambda one, honest: {"reports": (honest, one.entry(5, *honest.reports))},
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "bytes that are no report": (
        lambda one, honest: {"reports": (honest, one.entry(1, b"\xff"))},
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "too many members": (
        lambda one, honest: {
            "reports": (honest, *(one.entry(n) for n in range(1, MAX_BATCH_MEMBERS + 1)))
        },
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ),
    "too many bytes": (
        lambda one, honest: {"reports": (honest, one.entry(1, bytes(2 << 20)))},
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ),
    "numbers with gaps": (
        lambda one, honest: {"joins": (one.joined(7, 1),), "reports": (honest,)},
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "a device under two numbers": (
        lambda one, honest: {"joins": (one.joined(2, 0),), "reports": (honest,)},
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
    "more settled than was asked": (
        lambda one, honest: {"settled": 2, "reports": (honest,)},
        grpc.StatusCode.INVALID_ARGUMENT,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_batch_ends_its_stream_and_nothing_of_it_is_taken(
    world: Any, store: SqliteStore, server: AggregatorServer, stream: Any, run: Any, name: str
) -> None:
    """Beside what is broken, each batch has an honest report of member 0."""
    world.enrol(store, 2)
    make, expected = BROKEN[name]
    round_ = world.broadcast(2)

    async def scenario() -> Any:
        async with stream() as one:
            answers = asking(server, world, round_, 2)
            await one.join([0, 1])
            await one.until(lambda: len(one.asked) == 2)
            (report,) = reports(world, round_, [0])
            await one.send(**make(one, one.entry(0, report)))
            status = await one.status()
            server.loop.call_soon_threadsafe(server.hub.close_round, round_.study_digest)
            return status, await answers

    status, (tally,) = run(scenario())
    assert status is expected
    assert tally.answered == 0
    assert store.report(round_.groups[0].digest, 0) is None


def test_the_newest_stream_has_a_member_whether_it_is_a_gateways_or_its_own(
    world: Any,
    store: SqliteStore,
    server: AggregatorServer,
    stream: Any,
    participating: Any,
    run: Any,
) -> None:
    world.enrol(store, 2)

    async def scenario() -> Any:
        async with stream() as one, stream() as other:
            await one.join([0, 1])
            while server.hub.connected < 2:
                await asyncio.sleep(0.005)
            await other.join([1])  # the same gateway twice
            await one.until(lambda: one.absences == {1: Absence.REPLACED})
            async with participating(world, server.address, [world.device(0)]):
                await one.until(lambda: len(one.absences) == 2)
                return one.absences, server.hub.connected

    absences, connected = run(scenario())
    assert absences == {1: Absence.REPLACED, 0: Absence.REPLACED}
    assert connected == 2


def test_a_member_beyond_the_limit_is_told_and_the_others_stay(
    world: Any, store: SqliteStore, settings: Any, run: Any
) -> None:
    world.enrol(store, 3)

    async def scenario() -> Any:
        few = replace(settings, max_members=2)
        with AggregatorServer.start(store, settings=few) as server:
            async with aio.insecure_channel(server.address) as channel:
                metadata = gateway_metadata(world.gateway())
                call: Any = channel.stream_stream(f"/{SERVICE}/Relay")(metadata=metadata)
                one = Stream(world, call)
                await one.join([0, 1, 2])
                await one.until(lambda: one.absences)
                return one.absences, server.hub.connected

    assert run(scenario()) == ({2: Absence.OVERLOADED}, 2)


class Owing:
    """An open round of many requests, of which some members owe all and others one."""

    study_digest = bytes(32)
    study = SignedStudy(b"study", bytes(32), bytes(64))
    taking = True

    def __init__(self, requests: int, much: Iterable[int], size: int = 8) -> None:
        self._payloads = [b"%d" % number + bytes(size) for number in range(requests)]
        self._much = set(much)

    def note_asked(self, ordinal: int) -> None:
        """Do nothing: no other process asks any."""

    def owed_requests(self, ordinal: int, first: int = 0) -> list[tuple[int, bytes]]:
        owed = self._payloads if ordinal in self._much else self._payloads[:1]
        return list(enumerate(owed))[first:]


def composed(round_: Any, members: int) -> list[GatewayResponse]:
    """Ask all members of a stream; return the responses until the window is full."""
    sent: list[GatewayResponse] = []

    async def write(data: bytes) -> None:
        sent.append(decode_gateway_response(data, members))

    async def scenario() -> None:
        async def abort(*_: Any) -> None:
            raise AssertionError("expected no end")

        connection = GatewayConnection((), write, abort)
        for member in range(members):
            connection.join(member, member, token_digest(b"token"))
        for member in range(members):
            connection.ask(round_, member)
        await connection.flushed()

    asyncio.run(scenario())
    return sent


def members_of(response: GatewayResponse) -> set[int]:
    return {member for _, members in response.requests for member in members}


def test_a_member_that_is_asked_much_waits_for_the_others() -> None:
    sent = composed(Owing(3 * MAX_REQUESTS, much=[0]), members=3 * MAX_BATCH_MEMBERS)
    assert members_of(sent[0]) == set(range(MAX_BATCH_MEMBERS))
    assert len(sent[0].requests) == MAX_REQUESTS  # all of them of member 0
    everyone = set().union(*map(members_of, sent[:3]))
    assert everyone == set(range(3 * MAX_BATCH_MEMBERS))
    asked = [payload for one in sent for payload, members in one.requests if 0 in members]
    assert len(asked) == len(set(asked)) == 3 * MAX_REQUESTS


def test_requests_that_do_not_fit_into_a_response_are_in_the_next_ones() -> None:
    sent = composed(Owing(5, much=range(4), size=200 * 1024), members=4)
    asked = [
        (member, payload) for one in sent for payload, members in one.requests for member in members
    ]
    assert len(sent) > 1
    assert len(asked) == len(set(asked)) == 4 * 5
    assert [len(one.studies) for one in sent] == [1] + [0] * (len(sent) - 1)


def test_a_gateway_that_settles_nothing_is_sent_a_bounded_number_of_responses() -> None:
    sent = composed(Owing(1, much=[]), members=(MAX_UNSETTLED + 4) * MAX_BATCH_MEMBERS)
    assert len(sent) == MAX_UNSETTLED


def test_a_slow_gateway_holds_up_no_other(
    world: Any, store: SqliteStore, server: AggregatorServer, stream: Any, run: Any
) -> None:
    world.enrol_members(store, [0, 1], 0)
    world.enrol_members(store, [2, 3], 1)
    round_ = world.broadcast(4)

    async def scenario() -> Any:
        async with stream() as slow, stream(world.gateway(1)) as quick:
            await slow.join([0, 1])  # and reads nothing
            answers = asking(server, world, round_, 4)
            await quick.join([2, 3])
            await quick.until(lambda: len(quick.asked) == 2)
            data = reports(world, round_, [2, 3])
            entries = (quick.entry(0, data[0], ordinal=2), quick.entry(1, data[1], ordinal=3))
            await quick.send(reports=entries, settled=1)
            await quick.until(lambda: len(quick.acks) == 2)
            server.loop.call_soon_threadsafe(server.hub.close_round, round_.study_digest)
            return quick.acks, await answers

    acks, (tally,) = run(scenario())
    assert set(acks.values()) == {ACCEPTED}
    assert tally.answered == 2


def test_a_member_at_rest_takes_a_few_hundred_bytes_in_the_aggregator() -> None:
    """A member has a number, an ordinal and a digest, and an entry by ordinal."""
    members, limit = 10_000, 200

    async def nothing(*_: Any) -> None:
        pass

    async def scenario() -> int:
        tracemalloc.start()
        try:
            connection = GatewayConnection((), nothing, nothing)
            for member in range(members):
                connection.join(member, member + 1_000, token_digest(b"%d" % member))
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert asyncio.run(scenario()) < limit * members


def test_a_response_that_names_no_member_or_one_twice_is_none() -> None:
    for members in ([3], [1, 1], [2, 0]):
        request = pb.MembersRequest(request=b"request", members=members)
        data = pb.GatewayResponse(requests=[request]).SerializeToString()
        with pytest.raises(RemoteProtocolError, match="expected members"):
            decode_gateway_response(data, 3)
