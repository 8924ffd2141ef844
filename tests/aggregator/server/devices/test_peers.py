"""Limits on callers without a proven identity, and the wait that an overloaded service asks for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.server.devices import (
    AggregatorServer,
    Overloaded,
    PeerLimits,
    Peers,
    Settings,
)
from askance_aggregator.server.devices.connection_guard import ConnectionLimits
from askance_aggregator.server.devices.credentials import retry_metadata
from askance_aggregator.server.outer.addresses import address_of
from askance_aggregator.store import EnrolledDevice, SqliteStore
from askance_client.errors import InvalidParameter
from askance_client.service import (
    SERVICE,
    CheckIn,
    Identity,
    channel_options,
    device_metadata,
    encode_check_in,
)
from askance_client.service.credentials import read_retry_ms
from askance_client.service.exchange import STREAMS_PER_CONNECTION
from askance_client.service.observable import connections_for

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:4711", "192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:4711", "2001:db8::1"),
        ("ipv6:[2001:db8::1]:4711", "2001:db8::1"),
        ("ipv6:%5B::ffff:192.0.2.1%5D:4711", "192.0.2.1"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::1"),
        ("unix:/run/askance", None),
        ("unix:", None),
        ("ipv4:nonsense:1", None),
        ("", None),
    ],
)
def test_an_address_is_read_from_grpcs_name_of_a_peer(peer: str, address: str | None) -> None:
    assert address_of(peer) == (None if address is None else ip_address(address))


def test_calls_are_limited_per_address_and_in_all_until_they_end() -> None:
    peers = Peers(PeerLimits(calls=3, calls_per_address=2))
    with ExitStack() as held:
        for port in range(2):
            held.enter_context(peers.unproven(f"ipv4:192.0.2.1:{port}"))
        with pytest.raises(Overloaded, match="this address"), peers.unproven("ipv4:192.0.2.1:9"):
            pass
        held.enter_context(peers.unproven("ipv4:192.0.2.2:1"))
        with pytest.raises(Overloaded, match="fewer callers"), peers.unproven("ipv4:192.0.2.3:1"):
            pass
        assert peers.calls.total == 3
    assert peers.calls.total == 0
    with peers.unproven("ipv4:192.0.2.1:9"):
        assert peers.calls.total == 1


def test_addresses_of_one_ipv6_network_are_one_peer() -> None:
    peers = Peers(PeerLimits(calls=9, calls_per_address=1))
    with peers.unproven("ipv6:%5B2001:db8::1%5D:1"):
        with pytest.raises(Overloaded), peers.unproven("ipv6:%5B2001:db8::2%5D:1"):
            pass
        with peers.unproven("ipv6:%5B2001:db8:0:1::1%5D:1"):
            assert peers.calls.total == 2


def test_trusted_proxies_are_exempt_from_the_limit_per_address() -> None:
    trusted = frozenset({ip_network("192.0.2.0/28")})
    peers = Peers(PeerLimits(calls=3, calls_per_address=1, trusted=trusted))
    with ExitStack() as held:
        for port in range(3):
            held.enter_context(peers.unproven(f"ipv4:192.0.2.1:{port}"))
        with pytest.raises(Overloaded, match="fewer callers"), peers.unproven("ipv4:192.0.2.1:9"):
            pass


@pytest.mark.parametrize("bad", [(0, 1), (1, 0)])
def test_limits_are_checked(bad: tuple[int, int]) -> None:
    with pytest.raises(InvalidParameter, match="expected 1 or more, got 0"):
        PeerLimits(*bad)


@pytest.mark.parametrize(
    ("streams", "least", "connections"),
    [
        (0, 8, 1),
        (1, 8, 1),
        (20, 8, 8),
        (STREAMS_PER_CONNECTION, 1, 1),
        (STREAMS_PER_CONNECTION + 1, 1, 2),
        (20 * STREAMS_PER_CONNECTION, 8, 20),
    ],
)
def test_a_process_opens_as_many_connections_as_its_streams_need(
    streams: int, least: int, connections: int
) -> None:
    assert connections_for(streams, least) == connections


def test_an_aggregator_takes_twice_as_many_streams_as_a_client_opens() -> None:
    assert dict(Settings().server_options())["grpc.max_concurrent_streams"] == 16
    assert STREAMS_PER_CONNECTION == 8


def test_a_guarded_connection_has_few_streams() -> None:
    """Header lists of one burst are all read, 5 to 10 ms each, before the guard sees them."""
    options = dict(Settings(guard=ConnectionLimits()).server_options())
    assert options["grpc.max_concurrent_streams"] == 2


@pytest.mark.parametrize("streams", [1, 7])
def test_a_service_of_ones_own_may_take_other_numbers_of_streams(streams: int) -> None:
    options = dict(Settings(connection_streams=streams).server_options())
    assert options["grpc.max_concurrent_streams"] == streams


def test_a_seventeenth_stream_of_one_connection_waits_until_one_ends(
    world: World, store: SqliteStore, run: Run
) -> None:
    """1,000 streams of one connection, each with 12,000 fields, held 1.4 GB."""
    world.enrol(store, 17)

    async def scenario(server: AggregatorServer) -> None:
        async with aio.insecure_channel(server.address, channel_options()) as channel:
            dial: Any = channel.stream_stream(f"/{SERVICE}/Participate")
            held = []
            for ordinal in range(16):  # one after the other: near its limit gRPC resets bursts
                held.append(dial(metadata=world.metadata(ordinal)))
                await held[-1].initial_metadata()
            late = dial(metadata=world.metadata(16))
            answered = asyncio.ensure_future(late.initial_metadata())
            await asyncio.wait([answered], timeout=0.3)
            assert not answered.done()
            held[0].cancel()
            await answered
            late.cancel()

    with AggregatorServer.start(store) as server:
        run(scenario(server))


def test_every_limit_on_connections_reaches_grpc() -> None:
    options = dict(
        Settings(max_connections=7, handshake_s=1.5, idle_s=2.0, age_s=1e9).server_options()
    )
    assert options["grpc.max_allowed_incoming_connections"] == 7
    assert options["grpc.server_handshake_timeout_ms"] == 1_500
    assert options["grpc.max_connection_idle_ms"] == 2_000
    assert options["grpc.max_connection_age_ms"] == 2**31 - 1
    assert options["grpc.max_connection_age_grace_ms"] == 2**31 - 1


def test_devices_behind_slow_lines_are_waited_for() -> None:
    """A device whose round trip took more than 3 s was hung up on, each time."""
    guarded = Settings(settled_s=8.0, guard=ConnectionLimits())
    assert dict(guarded.server_options())["grpc.http2.settings_timeout"] == 8_000


def test_silent_streams_without_credentials_lock_out_no_device(
    world: World, store: SqliteStore, run: Run
) -> None:
    """A stream counted before its caller was known."""
    world.enrol(store, 1)

    async def scenario(server: AggregatorServer) -> None:
        async with (
            aio.insecure_channel(server.address) as hostile,
            aio.insecure_channel(server.address) as honest,
        ):
            dial: Any = hostile.stream_stream(f"/{SERVICE}/Participate")
            for _ in range(7):  # 56 in all, as many at one time as a client may have
                silent = [dial() for _ in range(STREAMS_PER_CONNECTION)]
                codes = await asyncio.gather(*(stream.code() for stream in silent))
                assert set(codes) == {grpc.StatusCode.FAILED_PRECONDITION}
            unknown = device_metadata(Identity(b"nobody", bytes(32)))
            silent = [dial(metadata=unknown) for _ in range(STREAMS_PER_CONNECTION)]
            stream: Any = honest.stream_stream(f"/{SERVICE}/Participate")(
                metadata=world.metadata(0)
            )
            await stream.initial_metadata()
            await stream.write(encode_check_in(CheckIn()))
            while server.hub.connected < 1:
                await asyncio.sleep(0.005)
            stream.cancel()

    with AggregatorServer.start(store, settings=Settings(max_streams=1)) as server:
        run(scenario(server))


class SlowLookup(SqliteStore):
    """A store that looks devices up when it is let to."""

    def __init__(self, *opened: Any) -> None:
        super().__init__(*opened)
        self.looking = threading.Event()
        self.lookup = threading.Event()

    def find_devices(self, device_ids: Sequence[bytes]) -> list[EnrolledDevice | None]:
        self.looking.set()
        assert self.lookup.wait(10)
        return super().find_devices(device_ids)


def test_unknown_callers_at_one_address_hold_up_no_device_that_is_known(
    world: World, run: Run
) -> None:
    store = SlowLookup.in_memory()
    world.enrol(store, 1)
    settings = Settings(unproven=PeerLimits(9, 2), retry_ms=1_000)

    async def scenario(server: AggregatorServer) -> None:
        async with aio.insecure_channel(server.address) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            store.lookup.set()
            await call(b"", metadata=world.metadata(0))
            store.lookup.clear()
            waiting = [
                call(b"", metadata=device_metadata(Identity(b"nobody %d" % n, bytes(32))))
                for n in range(2)
            ]
            assert await asyncio.to_thread(store.looking.wait, 10)
            await asyncio.sleep(0.1)
            with pytest.raises(aio.AioRpcError, match="fewer calls from this address") as caught:
                await call(b"", metadata=device_metadata(Identity(b"one more", bytes(32))))
            assert caught.value.code() is EXHAUSTED
            assert 1_000 <= read_retry_ms(caught.value.trailing_metadata()) <= 2_000
            await call(b"", metadata=world.metadata(0))  # known, so it is exempt
            store.lookup.set()
            codes = [await one.code() for one in waiting]
            assert codes == [grpc.StatusCode.UNAUTHENTICATED] * 2

    with AggregatorServer.start(store, settings=settings) as server:
        run(scenario(server))


def test_a_device_has_few_streams_at_one_time(world: World, store: SqliteStore, run: Run) -> None:
    """Streams that have sent no message yet are replaced by no newer one."""
    world.enrol(store, 1)

    async def scenario(server: AggregatorServer) -> None:
        async with aio.insecure_channel(server.address) as channel:
            dial: Any = channel.stream_stream(f"/{SERVICE}/Participate")
            for _ in range(4):
                await dial(metadata=world.metadata(0)).initial_metadata()
            assert await dial(metadata=world.metadata(0)).code() is EXHAUSTED

    with AggregatorServer.start(store) as server:
        run(scenario(server))


def test_silent_check_ins_of_one_device_lock_out_no_other(
    world: World, store: SqliteStore, run: Run
) -> None:
    """All check-ins that may be at work could be one device's, which sent no message."""
    world.enrol(store, 2)

    async def scenario(server: AggregatorServer) -> None:
        async with aio.insecure_channel(server.address) as channel:
            check_in: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            await check_in(b"", metadata=world.metadata(0))  # known from here on
            silent: Any = channel.stream_stream(f"/{SERVICE}/CheckIn")
            held = [silent(metadata=world.metadata(0)) for _ in range(10)]
            refused = [asyncio.ensure_future(call.code()) for call in held]
            while sum(code.done() for code in refused) < 4:
                await asyncio.sleep(0.005)
            await check_in(b"", metadata=world.metadata(1))
            assert sum(code.done() for code in refused) == 6
            assert {code.result() for code in refused if code.done()} == {EXHAUSTED}

    with AggregatorServer.start(store, settings=Settings(max_check_ins=3)) as server:
        run(scenario(server))


@pytest.mark.parametrize("streams", [False, True], ids=["check-in", "stream"])
def test_a_device_honours_the_wait_that_an_overloaded_aggregator_asks_for(
    world: World, run: Run, streams: bool
) -> None:
    waits: list[float] = []

    class Enough(Exception):
        pass

    async def sleep(milliseconds: float) -> None:
        waits.append(milliseconds)
        raise Enough

    async def overloaded(_: object, context: Any) -> None:
        context.set_code(EXHAUSTED)
        context.set_trailing_metadata(retry_metadata(7_000))

    async def scenario() -> None:
        server = aio.server()
        handler: Any = grpc.stream_stream_rpc_method_handler(overloaded)
        calls = {"CheckIn": handler, "Participate": handler}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}", channel_options()) as channel:
            runner = world.runner(
                0, world.device(0), channel, sleep=sleep, jitter=lambda bound: bound // 10
            )
            with pytest.raises(Enough):
                await (runner.participate() if streams else runner.keep_checking_in())
        await server.stop(0)

    run(scenario())
    assert waits == [50 + 7_000 + 700]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "٣", "9" * 10, b"7"])
def test_a_wait_that_is_no_number_is_none(text: Any) -> None:
    assert read_retry_ms((("askance-retry-after-ms", text),)) == 0
