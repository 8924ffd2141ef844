"""Calls that break the protocol: a clean status each, and nothing is told or stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance.aggregator.service import AggregatorServer, Settings
from askance.aggregator.store import MemoryStore
from askance.client.service import (
    MAX_KNOWN_STUDIES,
    MAX_REPORTS,
    MAX_REQUEST_MESSAGE_BYTES,
    PROTOCOL,
    SERVICE,
    CheckIn,
    encode_check_in,
)

if TYPE_CHECKING:
    from tests.service.conftest import World

Run = Callable[[Any], Any]
Code = grpc.StatusCode


def unary(
    channel: aio.Channel, method: str = "CheckIn"
) -> aio.UnaryUnaryMultiCallable[bytes, bytes]:
    return channel.unary_unary(f"/{SERVICE}/{method}")


def stream_of(channel: aio.Channel) -> aio.StreamStreamCall[bytes, bytes]:
    call: aio.StreamStreamMultiCallable[bytes, bytes]
    call = channel.stream_stream(f"/{SERVICE}/Participate")
    return call()


def greeting(**changed: Any) -> bytes:
    values: dict[str, Any] = {
        "device_id": b"device 0",
        "token": sha256(b"token 0").digest(),
        **changed,
    }
    return encode_check_in(CheckIn(**values))


BAD = {
    "another protocol": (greeting(protocol=PROTOCOL + 1), Code.FAILED_PRECONDITION),
    "no protocol": (greeting(protocol=0), Code.FAILED_PRECONDITION),
    "an unknown device": (greeting(device_id=b"device 9"), Code.UNAUTHENTICATED),
    "no device": (greeting(device_id=b""), Code.UNAUTHENTICATED),
    "a wrong token": (greeting(token=bytes(32)), Code.UNAUTHENTICATED),
    "no token": (greeting(token=b""), Code.UNAUTHENTICATED),
    "another's token": (greeting(device_id=b"device 1"), Code.UNAUTHENTICATED),
    "no message": (b"", Code.FAILED_PRECONDITION),
    "no protobuf": (b"\xff\xff\xff", Code.INVALID_ARGUMENT),
    "an unknown field": (greeting() + b"\x78\x01", Code.INVALID_ARGUMENT),
    "a short digest": (greeting(known_studies=(b"short",)), Code.INVALID_ARGUMENT),
    "no report": (greeting(reports=(b"\xff",)), Code.INVALID_ARGUMENT),
    "an empty report": (greeting(reports=(b"",)), Code.INVALID_ARGUMENT),
    "too long a report": (greeting(reports=(bytes(17_000),)), Code.INVALID_ARGUMENT),
    "too many reports": (greeting(reports=(b"x",) * (MAX_REPORTS + 1)), Code.RESOURCE_EXHAUSTED),
    "too many studies": (
        greeting(known_studies=(bytes(32),) * (MAX_KNOWN_STUDIES + 1)),
        Code.RESOURCE_EXHAUSTED,
    ),
    "too long a message": (
        greeting(reports=(bytes(MAX_REQUEST_MESSAGE_BYTES),)),
        Code.RESOURCE_EXHAUSTED,
    ),
}


@pytest.fixture
def call(
    world: World, store: MemoryStore, server: AggregatorServer, run: Run
) -> Callable[[str, bytes], aio.AioRpcError]:
    """Makes a call that must fail, on either method, and returns its error."""
    world.enrol(store, 3)

    def failing(method: str, data: bytes) -> aio.AioRpcError:
        async def attempt() -> None:
            async with aio.insecure_channel(server.address) as channel:
                if method == "CheckIn":
                    await unary(channel)(data)
                    return
                stream = stream_of(channel)
                await stream.write(data)
                while isinstance(await stream.read(), bytes):
                    pass

        with pytest.raises(aio.AioRpcError) as caught:
            run(attempt())
        return caught.value

    return failing


@pytest.mark.parametrize("method", ["CheckIn", "Participate"])
@pytest.mark.parametrize("what", BAD)
def test_a_bad_first_message(
    call: Callable[[str, bytes], aio.AioRpcError],
    store: MemoryStore,
    server: AggregatorServer,
    method: str,
    what: str,
) -> None:
    data, code = BAD[what]
    error = call(method, data)
    assert error.code() is code
    assert server.hub.connected == 0
    details = error.details() or ""
    assert "\n" not in details
    assert "token 0" not in details


def test_who_is_refused_does_not_learn_why(call: Callable[[str, bytes], aio.AioRpcError]) -> None:
    told = {
        call("CheckIn", BAD[what][0]).details()
        for what in ("an unknown device", "a wrong token", "another's token", "no token")
    }
    assert told == {"expected an enrolled device and its token"}


def test_an_identity_is_for_the_first_message_of_a_stream(
    world: World, store: MemoryStore, server: AggregatorServer, run: Run
) -> None:
    world.enrol(store, 2)

    async def attempt() -> None:
        async with aio.insecure_channel(server.address) as channel:
            stream = stream_of(channel)
            await stream.write(greeting())
            await stream.write(greeting())
            await stream.read()

    with pytest.raises(aio.AioRpcError, match="identity in the first message") as caught:
        run(attempt())
    assert caught.value.code() is Code.INVALID_ARGUMENT


def test_a_stream_that_says_nothing_is_ended(world: World, store: MemoryStore, run: Run) -> None:
    settings = Settings(first_message_s=0.1, stop_grace_s=0.1)

    async def attempt(address: str) -> None:
        async with aio.insecure_channel(address) as channel:
            stream = stream_of(channel)
            await stream.read()

    with AggregatorServer.start(store, settings=settings) as server:
        with pytest.raises(aio.AioRpcError) as caught:
            run(attempt(server.address))
        assert caught.value.code() is Code.DEADLINE_EXCEEDED


def test_one_stream_too_many_is_told_to_come_back(
    world: World, store: MemoryStore, run: Run
) -> None:
    world.enrol(store, 3)

    async def attempt(server: AggregatorServer) -> Code:
        async with aio.insecure_channel(server.address) as channel:
            held = []
            for ordinal in range(2):
                identity = world.identity(ordinal)
                stream = stream_of(channel)
                await stream.write(greeting(device_id=identity.device_id, token=identity.token))
                held.append(stream)
            while server.hub.connected < 2:
                await asyncio.sleep(0.005)
            refused = stream_of(channel)
            code: Code = await refused.code()
            return code

    with AggregatorServer.start(store, settings=Settings(max_streams=2)) as server:
        assert run(attempt(server)) is Code.RESOURCE_EXHAUSTED


def test_a_newer_stream_of_a_device_replaces_the_older(
    world: World, store: MemoryStore, server: AggregatorServer, run: Run
) -> None:
    world.enrol(store, 1)

    async def attempt() -> Code:
        async with aio.insecure_channel(server.address) as channel:
            older, newer = (stream_of(channel) for _ in range(2))
            await older.write(greeting())
            while server.hub.connected < 1:
                await asyncio.sleep(0.005)
            await newer.write(greeting())
            code: Code = await older.code()
            assert not newer.done()
            assert server.hub.connected == 1
            return code

    assert run(attempt()) is Code.ABORTED


def test_an_unknown_method(server: AggregatorServer, run: Run) -> None:
    async def attempt() -> None:
        async with aio.insecure_channel(server.address) as channel:
            await unary(channel, "Nothing")(b"")

    with pytest.raises(aio.AioRpcError) as caught:
        run(attempt())
    assert caught.value.code() is Code.UNIMPLEMENTED


def test_a_thousand_calls_at_once_are_all_taken_up(
    world: World, store: MemoryStore, server: AggregatorServer, run: Run
) -> None:
    """gRPC by itself rejects what is pending beyond a thousand."""
    world.enrol(store, 1)

    async def attempt() -> None:
        async with aio.insecure_channel(server.address) as channel:
            call = unary(channel)
            await asyncio.gather(*(call(greeting()) for _ in range(1_500)))

    run(attempt())
