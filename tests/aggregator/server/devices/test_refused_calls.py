"""Calls that break the protocol: a clean status each; nothing is revealed or stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer, Settings, admission
from askance_aggregator.store import SqliteStore
from askance_client.service import SERVICE, CheckIn, Metadata, channel_options, encode_check_in
from askance_client.service.credentials import DEVICE_KEY, PROTOCOL_KEY, TOKEN_KEY, protocol_of
from askance_client.service.exchange import (
    MAX_KNOWN_STUDIES,
    MAX_REPORTS,
    MAX_REQUEST_MESSAGE_BYTES,
    PROTOCOL,
)
from askance_client.service.observable import connections_for

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
Failing = Callable[[str, Metadata, bytes], aio.AioRpcError]
Code = grpc.StatusCode


def unary(
    channel: aio.Channel, method: str = "CheckIn"
) -> aio.UnaryUnaryMultiCallable[bytes, bytes]:
    return channel.unary_unary(f"/{SERVICE}/{method}")


def stream_of(channel: aio.Channel, metadata: Metadata = ()) -> aio.StreamStreamCall[bytes, bytes]:
    call: aio.StreamStreamMultiCallable[bytes, bytes]
    call = channel.stream_stream(f"/{SERVICE}/Participate")
    return call(metadata=metadata)


def who(
    device: bytes | None = b"device 0",
    token: bytes | None = sha256(b"token 0").digest(),
    protocol: str | None = str(PROTOCOL),
) -> Metadata:
    """Return the credentials of a call, some of them wrong or missing."""
    given = ((PROTOCOL_KEY, protocol), (DEVICE_KEY, device), (TOKEN_KEY, token))
    return tuple((key, value) for key, value in given if value is not None)


def greeting(**values: Any) -> bytes:
    return encode_check_in(CheckIn(**values))


BAD: dict[str, tuple[Metadata, bytes, Code]] = {
    "another protocol": (who(protocol="99"), b"", Code.FAILED_PRECONDITION),
    "a protocol that is no number": (who(protocol="one"), b"", Code.FAILED_PRECONDITION),
    "no protocol": (who(protocol=None), b"", Code.FAILED_PRECONDITION),
    "no credentials": ((), b"", Code.FAILED_PRECONDITION),
    "an unknown device": (who(b"device 9"), b"", Code.UNAUTHENTICATED),
    "no device": (who(None), b"", Code.UNAUTHENTICATED),
    "too long a device": (who(bytes(65)), b"", Code.UNAUTHENTICATED),
    "a wrong token": (who(token=bytes(32)), b"", Code.UNAUTHENTICATED),
    "no token": (who(token=None), b"", Code.UNAUTHENTICATED),
    "another's token": (who(b"device 1"), b"", Code.UNAUTHENTICATED),
    "no protobuf": (who(), b"\xff\xff\xff", Code.INVALID_ARGUMENT),
    "an unknown field": (who(), greeting() + b"\x78\x01", Code.INVALID_ARGUMENT),
    "a short digest": (who(), greeting(known_studies=(b"short",)), Code.INVALID_ARGUMENT),
    "no report": (who(), greeting(reports=(b"\xff",)), Code.INVALID_ARGUMENT),
    "an empty report": (who(), greeting(reports=(b"",)), Code.INVALID_ARGUMENT),
    "too long a report": (who(), greeting(reports=(bytes(17_000),)), Code.INVALID_ARGUMENT),
    "too many reports": (
        who(),
        greeting(reports=(b"x",) * (MAX_REPORTS + 1)),
        Code.RESOURCE_EXHAUSTED,
    ),
    "too many studies": (
        who(),
        greeting(known_studies=(bytes(32),) * (MAX_KNOWN_STUDIES + 1)),
        Code.RESOURCE_EXHAUSTED,
    ),
    "too long a message": (
        who(),
        greeting(reports=(bytes(MAX_REQUEST_MESSAGE_BYTES),)),
        Code.RESOURCE_EXHAUSTED,
    ),
}


@pytest.fixture
def call(world: World, store: SqliteStore, server: AggregatorServer, run: Run) -> Failing:
    """Make a call that must fail, on either method, and return its error."""
    world.enrol(store, 3)

    def failing(method: str, metadata: Metadata, data: bytes) -> aio.AioRpcError:
        async def attempt() -> None:
            async with aio.insecure_channel(server.address) as channel:
                if method == "CheckIn":
                    await unary(channel)(data, metadata=metadata)
                    return
                stream = stream_of(channel, metadata)
                if protocol_of(await stream.initial_metadata()) == PROTOCOL:
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
    call: Failing,
    store: SqliteStore,
    server: AggregatorServer,
    method: str,
    what: str,
) -> None:
    metadata, data, code = BAD[what]
    error = call(method, metadata, data)
    assert error.code() is code
    assert server.hub.connected == 0
    details = error.details() or ""
    assert "\n" not in details
    assert "token 0" not in details


def test_who_is_refused_does_not_learn_why(call: Failing) -> None:
    told = {
        call("CheckIn", *BAD[what][:2]).details()
        for what in ("an unknown device", "a wrong token", "another's token", "no token")
    }
    assert told == {"expected an enrolled device and its token (see `device enroll`)"}


@pytest.mark.parametrize("method", ["CheckIn", "Participate"])
@pytest.mark.parametrize(
    ("protocol", "details"),
    [
        ("0", "expected a device of protocol version 1 or later, got version 0 (install a newer"),
        (str(PROTOCOL + 1), f"version {PROTOCOL} or earlier, got version {PROTOCOL + 1} (the"),
    ],
)
def test_another_protocol_is_refused_with_both_versions_and_the_side_to_update(
    call: Failing, method: str, protocol: str, details: str
) -> None:
    error = call(method, who(protocol=protocol), b"")
    assert error.code() is Code.FAILED_PRECONDITION
    assert details in (error.details() or "")


def test_an_aggregator_of_a_later_version_keeps_to_the_version_of_its_device(
    world: World,
    store: SqliteStore,
    server: AggregatorServer,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world.enrol(store, 1)
    monkeypatch.setattr(admission, "PROTOCOL", PROTOCOL + 1)

    async def attempt(version: int) -> int:
        async with aio.insecure_channel(server.address) as channel:
            stream = stream_of(channel, who(protocol=str(version)))
            found = protocol_of(await stream.initial_metadata())
            stream.cancel()
            return found

    assert [run(attempt(version)) for version in (PROTOCOL, PROTOCOL + 1, PROTOCOL + 2)] == [
        PROTOCOL,
        PROTOCOL + 1,
        0,
    ]


def test_a_stream_that_says_nothing_is_ended(world: World, store: SqliteStore, run: Run) -> None:
    world.enrol(store, 1)
    settings = Settings(first_message_s=0.1, stop_grace_s=0.1)

    async def attempt(address: str) -> None:
        async with aio.insecure_channel(address) as channel:
            stream = stream_of(channel, who())
            await stream.read()

    with AggregatorServer.start(store, settings=settings) as server:
        with pytest.raises(aio.AioRpcError) as caught:
            run(attempt(server.address))
        assert caught.value.code() is Code.DEADLINE_EXCEEDED


def test_one_stream_too_many_is_told_to_come_back(
    world: World, store: SqliteStore, run: Run
) -> None:
    world.enrol(store, 3)

    async def attempt(server: AggregatorServer) -> Code:
        async with aio.insecure_channel(server.address) as channel:
            held = []
            for ordinal in range(2):
                stream = stream_of(channel, world.metadata(ordinal))
                await stream.write(greeting())
                held.append(stream)
            while server.hub.connected < 2:
                await asyncio.sleep(0.005)
            refused = stream_of(channel, world.metadata(2))
            code: Code = await refused.code()
            return code

    with AggregatorServer.start(store, settings=Settings(max_streams=2)) as server:
        assert run(attempt(server)) is Code.RESOURCE_EXHAUSTED


def test_a_newer_stream_of_a_device_replaces_the_older(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    world.enrol(store, 1)

    async def attempt() -> Code:
        async with aio.insecure_channel(server.address) as channel:
            older, newer = (stream_of(channel, who()) for _ in range(2))
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
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    """GRPC by itself rejects what is pending beyond a thousand."""
    world.enrol(store, 500)

    async def attempt() -> None:
        async with AsyncExitStack() as held:
            channels = [
                aio.insecure_channel(server.address, channel_options(own_connection=True))
                for _ in range(connections_for(1_500))
            ]
            calls = [unary(await held.enter_async_context(channel)) for channel in channels]
            for device in range(500):  # known from here on
                await calls[0](greeting(), metadata=world.metadata(device))
            await asyncio.gather(
                *(
                    calls[n % len(calls)](greeting(), metadata=world.metadata(n % 500))
                    for n in range(1_500)
                )
            )

    run(attempt())
