"""Members of a gateway that join again: by a hostile peer, and while another stream has them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import grpc
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.server.devices.gateways import GatewayConnection
from askance_aggregator.store import SqliteStore
from askance_client.codec import digest_of
from askance_client.messages import SignedStudy
from askance_client.service import SERVICE, device_metadata, gateway_metadata, token_digest
from askance_client.service.exchange import MAX_KNOWN_STUDIES
from askance_client.service.gateway_exchange import (
    MAX_JOINS,
    MAX_UNSETTLED,
    Absence,
    decode_gateway_response,
    keep_studies,
)
from tests.aggregator.server.devices.test_gateway_stream import Owing, Stream, asking, reports


@asynccontextmanager
async def relaying(world: Any, server: AggregatorServer, metadata: Any = None) -> Any:
    """Open a stream, as a gateway or with other credentials."""
    async with aio.insecure_channel(server.address) as channel:
        relay: Any = channel.stream_stream(f"/{SERVICE}/Relay")
        yield Stream(world, relay(metadata=metadata or gateway_metadata(world.gateway())))


def test_a_member_that_is_refused_in_the_batch_in_which_it_joins_ends_no_study(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    """A device relays for itself, joins, and joins once more in the same batch with no token."""
    world.enrol(store, 2)
    round_ = world.broadcast(2)

    async def scenario() -> Any:
        own = device_metadata(world.identity(0))
        async with relaying(world, server, own) as hostile, relaying(world, server) as honest:
            joined = hostile.joined(0, 0)
            await hostile.send(joins=(joined, replace(joined, token=bytes(32))))
            with suppress(AssertionError, aio.AioRpcError):  # its stream may end
                await hostile.until(lambda: hostile.absences)
            await honest.join([1])
            answers = asking(server, world, round_, 2)
            await honest.until(lambda: honest.asked or answers.done())
            (report,) = reports(world, round_, [1])
            await honest.send(reports=(honest.entry(0, report, ordinal=1),), settled=1)
            await honest.until(lambda: honest.acks)
            server.loop.call_soon_threadsafe(server.hub.close_round, round_.study_digest)
            return await answers, server.hub.connected

    (tally,), connected = run(scenario())
    assert tally.answered == 1
    assert connected == 1


def test_a_member_that_joins_again_while_a_newer_stream_takes_it_stays_on_the_newer(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    world.enrol(store, 1)
    round_ = world.broadcast(1)
    read = server.hub.acknowledged_sequences
    holding, held = asyncio.Event(), asyncio.Event()
    stops = iter((False, True))  # at the second joining

    async def slow(ordinals: Any) -> Any:
        found = await read(ordinals)
        if next(stops, False):
            server.loop.call_soon(holding.set)
            await held.wait()
        return found

    async def scenario() -> Any:
        server.hub.acknowledged_sequences = slow  # type: ignore[method-assign]
        async with relaying(world, server) as old, relaying(world, server) as new:
            for _ in range(2):
                await old.join([0])
            await asyncio.wait_for(on_server(holding.wait()), 10)
            await new.join([0])
            await old.until(lambda: old.absences)
            server.loop.call_soon_threadsafe(held.set)
            answers = asking(server, world, round_, 1)
            await new.until(lambda: new.asked)
            server.loop.call_soon_threadsafe(server.hub.close_round, round_.study_digest)
            await answers
            return old.absences, new.absences

    async def on_server(work: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, server.loop))

    assert run(scenario()) == ({0: Absence.REPLACED}, {})


def test_a_member_that_joins_again_and_again_is_queued_once() -> None:
    """A peer that settles nothing joins one member 100 times as often as a batch allows."""
    times, limit = 100 * MAX_JOINS, 64 * 1024
    sizes: list[int] = []

    async def nothing(*_: Any) -> None:
        pass

    async def scenario() -> None:
        connection = GatewayConnection((), nothing, nothing)
        connection.join(0, 5, token_digest(b"token"))
        round_: Any = Owing(1, much=[])
        for _ in range(times):
            connection.join(0, 5, token_digest(b"token"))
            connection.ask(round_, 5)
        sizes.append(sys.getsizeof(connection._asks))
        await connection.flushed()

    asyncio.run(scenario())
    assert sizes[0] < limit


def test_a_device_that_relays_for_itself_has_one_number(
    world: Any, store: SqliteStore, server: AggregatorServer, run: Any
) -> None:
    """Numbers of members that are refused take memory as well."""
    world.enrol(store, 2)

    async def scenario() -> Any:
        async with relaying(world, server, device_metadata(world.identity(0))) as one:
            await one.join([0])
            await one.send(joins=(one.joined(1, 77),))
            status = await one.status()
            return status, one.absences

    assert run(scenario()) == (grpc.StatusCode.INVALID_ARGUMENT, {})


def test_a_stream_that_settles_nothing_keeps_no_closed_round() -> None:
    """The aggregator would keep each round for as long as a slow gateway is connected."""

    async def nothing(*_: Any) -> None:
        pass

    async def scenario() -> int:
        connection = GatewayConnection((), nothing, nothing)
        connection.join(0, 5, token_digest(b"token"))
        for _ in range(4 * MAX_UNSETTLED):
            round_: Any = Owing(1, much=[])
            connection.ask(round_, 5)
            await connection.flushed()
            round_.taking = False
            connection.withdraw(())
        return len(connection._asks)

    assert asyncio.run(scenario()) == 0


def test_a_request_comes_with_its_study_if_the_gateway_has_forgotten_it() -> None:
    """A stream of months: before, a study of 256 studies ago was taken for known."""
    held: dict[bytes, bytes] = {}
    missing: list[bytes] = []

    async def write(data: bytes) -> None:
        response = decode_gateway_response(data, 1)
        fresh = {digest_of(study.study): study.study for study in response.studies}
        for payload, _ in response.requests:
            if digest_of(payload[8:]) not in {**held, **fresh}:
                missing.append(payload)
        keep_studies(held, fresh)

    async def nothing(*_: Any) -> None:
        pass

    def owing(study: bytes) -> Any:
        round_ = Owing(1, much=[])
        round_.study, round_.study_digest = (
            SignedStudy(study, bytes(32), bytes(64)),
            digest_of(study),
        )
        round_._payloads = [bytes(8) + study]
        return round_

    async def scenario() -> None:
        connection = GatewayConnection((), write, nothing)
        connection.join(0, 5, token_digest(b"token"))
        for number in (*range(2 * MAX_KNOWN_STUDIES), 0, 1, 2 * MAX_KNOWN_STUDIES - 1):
            connection.ask(owing(b"study %d" % number), 5)
            await connection.flushed()
            connection.settled(1)

    asyncio.run(scenario())
    assert len(held) == MAX_KNOWN_STUDIES
    assert missing == []
