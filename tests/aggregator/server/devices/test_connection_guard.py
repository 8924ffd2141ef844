"""Guard of the devices' listener: what a valid certificate may send below the calls."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer, ConnectionLimits, Settings
from askance_aggregator.server.devices.connection_guard import ConnectionGuard, FieldLimit
from askance_aggregator.server.devices.packet_filter import drop_from
from askance_aggregator.server.devices.passages import ListenerConnection
from askance_aggregator.server.outer.addresses import Network
from askance_aggregator.store import CertificateHolder, SqliteStore
from askance_aggregator.store.register import DeviceSelection
from askance_client.errors import InvalidParameter
from askance_client.service import SERVICE, channel_options
from askance_client.service.credentials import DEVICE_KEY, PROTOCOL_KEY, TOKEN_KEY
from askance_client.service.exchange import MAX_CHECK_IN_BYTES, PROTOCOL

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
LIMITS = ConnectionLimits(
    device_bytes=1_000_000,
    gateway_bytes=1_000_000,
    unproven_bytes=10_000,
    bytes_per_s=100,
    ban_s=60,
    holder_connections=2,
    address_connections=3,
    trusted=frozenset({ip_network("192.0.2.0/24")}),
)


@dataclass
class Listener:
    """Connections as a test states them."""

    open: list[ListenerConnection] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    banned: set[Network] = field(default_factory=set)
    banned_by_then: set[Network] = field(default_factory=set)

    def connections(self) -> list[ListenerConnection]:
        return list(self.open)

    def end(self, numbers: Collection[int]) -> None:
        self.banned_by_then = set(self.banned)
        self.ended = sorted((*self.ended, *numbers))
        self.open = [one for one in self.open if one.number not in numbers]

    def ban(self, networks: Collection[Network]) -> None:
        self.banned = set(networks)

    def has(self, number: int, received: int, address: str = "198.51.100.7") -> None:
        """Let a connection have received so many bytes; its port is 1000 + its number."""
        self.open = [one for one in self.open if one.number != number]
        self.open.append(ListenerConnection(ip_address(address), 1_000 + number, number, received))


def peer(number: int, address: str = "198.51.100.7") -> str:
    return f"ipv4:{address}:{1_000 + number}"


def device(ordinal: int) -> CertificateHolder:
    return CertificateHolder(0, ordinal)


class Watched:
    """A guard, a clock and a listener."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.reasons: list[str] = []
        self.listener = Listener()
        self.guard = ConnectionGuard(LIMITS, self.reasons.append, lambda: self.now_s)

    def look(self, at_s: float) -> list[int]:
        self.now_s = at_s
        self.listener.ended.clear()
        self.guard.look(self.listener)
        return list(self.listener.ended)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_connection_without_a_proven_caller_sends_little(watched: Watched) -> None:
    watched.listener.has(1, 10_000)
    assert watched.look(0) == []
    watched.listener.has(1, 10_001)
    assert watched.look(3_600) == [1]
    assert watched.reasons == ["flood"]
    assert watched.listener.banned == {ip_network("198.51.100.7/32")}


def test_a_proven_caller_sends_more_and_messages_are_credited(watched: Watched) -> None:
    watched.listener.has(1, 900_000)
    watched.guard.prove(peer(1), device(5))
    assert watched.look(0) == []
    watched.listener.has(1, 9_000_000)
    watched.guard.credit(peer(1), 4_500_000)
    assert watched.look(1) == []
    watched.listener.has(1, 11_000_000)
    assert watched.look(2) == [1]


def test_an_old_connection_may_send_no_more_at_once_than_a_new_one(watched: Watched) -> None:
    watched.guard.prove(peer(1), device(5))
    watched.listener.has(1, 500_000)
    watched.look(0)
    watched.listener.has(1, 1_500_000)
    assert watched.look(3_600_000) == []  # 100 bytes per second
    watched.listener.has(1, 2_500_101)
    assert watched.look(3_600_001) == [1]


def test_a_gateway_owes_more_than_a_device() -> None:
    """A device has one stream, a gateway two, each with a message of 128 KiB and more behind it."""
    listener = Listener()
    guard = ConnectionGuard(ConnectionLimits(), clock=lambda: 0.0)
    for number, holder in ((1, device(0)), (2, CertificateHolder(gateway=1))):
        listener.has(number, 210_000, f"198.51.100.{number}")
        guard.prove(peer(number, f"198.51.100.{number}"), holder)
    guard.look(listener)
    assert listener.ended == [1]
    listener.has(2, 420_000, "198.51.100.2")
    guard.look(listener)
    assert listener.ended == [1, 2]


@pytest.mark.parametrize(("longer", "code"), [(0, "INVALID_ARGUMENT"), (1, "RESOURCE_EXHAUSTED")])
def test_a_guarded_listener_takes_messages_of_128_kib(
    world: World, store: SqliteStore, run: Run, longer: int, code: str
) -> None:
    """A message's bytes are passed on before the service has it."""
    world.enrol(store, 1)
    metadata = (
        (PROTOCOL_KEY, str(PROTOCOL)),
        (DEVICE_KEY, b"device 0"),
        (TOKEN_KEY, sha256(b"token 0").digest()),
    )

    async def call(address: str) -> grpc.StatusCode:
        async with aio.insecure_channel(address) as channel:
            check_in: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            with pytest.raises(aio.AioRpcError) as caught:
                await check_in(bytes(MAX_CHECK_IN_BYTES + longer), metadata=metadata)
        return caught.value.code()

    with AggregatorServer.start(store, settings=Settings(guard=ConnectionLimits())) as server:
        assert run(call(server.address)).name == code


def test_credit_is_not_kept_for_later(watched: Watched) -> None:
    watched.listener.has(1, 1_000)
    for _ in range(1_000):
        watched.guard.prove(peer(1), device(5))
    assert watched.look(0) == []
    watched.listener.has(1, 1_002_000)
    assert watched.look(1) == [1]


def test_connections_of_one_holder_share_what_a_proven_caller_may_send(watched: Watched) -> None:
    """A header list that does not end keeps 115 bytes of memory per byte, on each connection."""
    for number, address in ((1, "198.51.100.7"), (2, "198.51.100.8")):
        watched.listener.has(number, 400_000, address)
        watched.guard.prove(peer(number, address), device(5))
    assert watched.look(0) == []
    watched.listener.has(1, 700_000)
    watched.listener.has(2, 700_000, "198.51.100.8")
    watched.listener.has(3, 700_000, "198.51.100.9")
    watched.guard.prove(peer(3, "198.51.100.9"), device(6))
    assert watched.look(1) == [1, 2]
    assert watched.listener.banned == {ip_network("198.51.100.7"), ip_network("198.51.100.8")}


def test_a_holder_whose_connection_was_a_flood_has_none_from_another_address(
    watched: Watched,
) -> None:
    """A proven caller sent header lists from one address after the other."""
    watched.listener.has(1, 1_100_000)
    watched.listener.has(2, 500, "198.51.100.8")
    for number, address in ((1, "198.51.100.7"), (2, "198.51.100.8")):
        watched.guard.prove(peer(number, address), device(5))
    assert watched.look(0) == [1, 2]
    watched.listener.has(3, 500, "198.51.100.9")
    watched.guard.prove(peer(3, "198.51.100.9"), device(5))
    assert watched.look(59) == [3]
    watched.listener.has(4, 500, "198.51.100.9")
    watched.guard.prove(peer(4, "198.51.100.9"), device(5))
    assert watched.look(61) == []
    assert watched.reasons == ["flood", "barred", "barred"]


def test_connections_of_one_address_share_what_unproven_callers_may_send() -> None:
    limits = ConnectionLimits(unproven_bytes=20_000, bytes_per_s=1)
    listener = Listener()
    guard = ConnectionGuard(limits, clock=lambda: 0.0)
    for number in range(1, 10):  # 9 x 8,800 bytes beyond the 4,096 of a handshake
        listener.has(number, 12_896)
    guard.look(listener)
    assert listener.ended == []
    listener.has(10, 12_896)
    guard.look(listener)
    assert listener.ended == list(range(1, 11))


def test_connections_that_have_gone_count_for_their_holder_and_their_address() -> None:
    """A caller that dialled again owed nothing."""
    limits = ConnectionLimits(device_bytes=50_000, unproven_bytes=10_000, bytes_per_s=1_000)
    listener, now_s = Listener(), 0.0
    guard = ConnectionGuard(limits, clock=lambda: now_s)
    for number in range(1, 5):  # 4 x 9,904 of 40,000, and 4 x 9,904 of 50,000
        listener.has(number, 9_999)
        listener.has(100 + number, 18_096, "198.51.100.8")
        guard.prove(peer(100 + number, "198.51.100.8"), device(5))
        guard.look(listener)
        guard.look(listener)
        listener.open.clear()
        guard.look(listener)
    listener.has(6, 9_999)
    listener.has(106, 30_000, "198.51.100.8")
    guard.prove(peer(106, "198.51.100.8"), device(5))
    guard.look(listener)
    assert listener.ended == [106]


def test_connections_of_one_address_without_a_proven_caller_are_few() -> None:
    """Half-open ones hold 43 kB each."""
    listener = Listener()
    guard = ConnectionGuard(ConnectionLimits(), clock=lambda: 0.0)
    for number in range(300):
        listener.has(number, 0)
        if number < 10:
            guard.prove(peer(number), device(number))
    listener.has(300, 0, "198.51.100.8")
    guard.look(listener)
    assert listener.ended == list(range(138, 300))
    assert listener.banned == {ip_network("198.51.100.7")}
    listener.end(set(range(10, 75)))
    guard.look(listener)
    assert not listener.banned


def test_a_flood_is_ended_after_its_ban(watched: Watched) -> None:
    """A peer that dialled again before its ban sent as much once more."""
    watched.listener.has(1, 20_000)
    watched.listener.has(2, 500, "198.51.100.8")
    watched.guard.bar(peer(2, "198.51.100.8"))
    assert watched.look(0) == [1, 2]
    assert watched.listener.banned_by_then == {ip_network("198.51.100.7")}


def test_a_ban_ends_and_the_next_one_is_twice_as_long(watched: Watched) -> None:
    watched.listener.has(1, 20_000)
    watched.look(0)
    assert watched.listener.banned
    watched.look(59)
    assert watched.listener.banned
    watched.look(61)
    assert not watched.listener.banned
    watched.listener.has(2, 20_000)
    assert watched.look(62) == [2]
    watched.look(62 + 119)
    assert watched.listener.banned
    watched.look(62 + 121)
    assert not watched.listener.banned


def test_neighbours_with_a_proven_caller_go_on(watched: Watched) -> None:
    watched.guard.prove(peer(2), device(5))
    for number, received in ((1, 20_000), (2, 500), (3, 500)):
        watched.listener.has(number, received)
    assert watched.look(0) == [1, 3]
    assert [one.number for one in watched.listener.open] == [2]


def test_a_trusted_proxy_is_not_banned_for_one_of_its_callers(watched: Watched) -> None:
    watched.listener.has(1, 20_000, "192.0.2.1")
    for number in (2, 3, 4, 5):
        watched.listener.has(number, 500, "192.0.2.1")
    assert watched.look(0) == [1]
    assert not watched.listener.banned


def test_a_proxy_that_is_listed_later_is_trusted_from_then_on(watched: Watched) -> None:
    watched.listener.has(1, 20_000)
    assert watched.look(0) == [1]
    assert watched.listener.banned
    watched.guard.trust(frozenset({ip_network("198.51.100.0/24")}))
    for number in range(2, 8):
        watched.listener.has(number, 500)
    watched.listener.has(8, 20_000, "192.0.2.1")
    assert watched.look(1) == [8]
    assert watched.listener.banned == {ip_network("192.0.2.1")}


def test_other_settings_of_a_service_reach_its_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that was listed while the service ran was banned like one device."""
    trusted: list[object] = []
    monkeypatch.setattr(ConnectionGuard, "trust", lambda _, networks: trusted.append(networks))
    proxies = frozenset({ip_network("192.0.2.0/24")})
    settings = Settings(guard=ConnectionLimits())
    other = replace(settings, unproven=replace(settings.unproven, trusted=proxies))
    with AggregatorServer.start(SqliteStore.in_memory(), settings=settings) as server:
        server.change(other)
    assert trusted == [proxies]
    with AggregatorServer.start(SqliteStore.in_memory()) as server:
        server.change(other)
    assert trusted == [proxies]


def test_addresses_of_one_ipv6_network_are_one(watched: Watched) -> None:
    watched.listener.has(1, 20_000, "2001:db8::1")
    watched.listener.has(2, 500, "2001:db8::2")
    watched.listener.has(3, 500, "2001:db8:0:1::1")
    assert watched.look(0) == [1, 2]
    assert watched.listener.banned == {ip_network("2001:db8::/64")}


def test_the_newest_connections_of_a_holder_or_an_address_are_ended(watched: Watched) -> None:
    for number in (1, 2):
        watched.listener.has(number, 0)
        watched.guard.prove(peer(number), device(5))
    assert watched.look(0) == []
    watched.listener.has(3, 0)
    watched.guard.prove(peer(3), device(5))
    watched.listener.has(4, 0)
    assert watched.look(1) == [3]
    watched.listener.has(5, 0)
    assert watched.look(2) == [5]
    assert watched.reasons == ["connections"] * 2


def test_a_barred_connection_is_ended(watched: Watched) -> None:
    for number in (1, 2):
        watched.listener.has(number, 0)
        watched.guard.prove(peer(number), device(number))
    watched.guard.bar(peer(1))
    assert watched.look(0) == [1]
    assert watched.look(1) == []
    assert watched.reasons == ["barred"]
    assert not watched.listener.banned


def test_a_call_that_is_a_flood_ends_its_connection_whatever_it_was_credited(
    watched: Watched,
) -> None:
    for number in (1, 2):
        watched.listener.has(number, 0)
        watched.guard.prove(peer(number), device(number))
    watched.guard.flood(peer(1))
    assert watched.look(0) == [1]
    assert watched.listener.banned
    assert watched.look(1) == []


def test_nothing_is_kept_of_connections_that_have_gone(watched: Watched) -> None:
    for number in range(100):
        watched.guard.prove(peer(number), device(number))
        watched.guard.bar(peer(number))
    watched.look(0)
    watched.look(1)
    assert not watched.guard._credits
    assert not watched.guard._holders
    assert not watched.guard._barred
    watched.guard.prove("unix:", device(1))
    assert not watched.guard._holders


@pytest.mark.parametrize(
    "bad",
    [
        {"device_bytes": 0},
        {"gateway_bytes": 0},
        {"unproven_bytes": 0},
        {"bytes_per_s": 0},
        {"ban_s": 0},
    ],
)
def test_limits_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="connections: expected limits"):
        ConnectionLimits(**bad)


HEADERS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
# A stream's header list of 12,000 one-byte fields (accept-encoding), and no end of the stream.
LIST = (12_000).to_bytes(3, "big") + b"\1\4" + (1).to_bytes(4, "big") + b"\x90" * 12_000


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def until_refused(call: Callable[[], Any]) -> None:
    while True:
        await call()
        await asyncio.sleep(0.05)


def dial(port: int, source: str) -> socket.socket:
    caller = socket.socket()
    caller.settimeout(0.5)
    caller.bind((source, 0))
    caller.connect(("127.0.0.1", port))
    return caller


def dial_until_banned(port: int) -> None:
    """Dial for 10 s at most: a ban follows the call that it is for."""
    for _ in range(500):
        dial(port, "127.0.0.1").close()
        time.sleep(0.02)


def flood(caller: socket.socket) -> None:
    """Send header lists until the connection is ended, for 20 s at most."""
    until_s, stream = time.monotonic() + 20, 1
    while time.monotonic() < until_s:
        with suppress(TimeoutError):  # it is paced
            caller.sendall(LIST[:5] + stream.to_bytes(4, "big") + LIST[9:])
        stream += 2
        time.sleep(0.01)


linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="Linux alone filters for a process"
)


@linux
def test_a_ban_and_its_end_reach_the_listener_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        bans: tuple[set[Network], ...] = (
            {ip_network("127.0.0.2")},
            {ip_network("127.0.0.3")},
            set(),
        )
        for networks in bans:
            assert drop_from(listener, networks)
            for source in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
                banned = ip_network(source) in networks
                with pytest.raises(TimeoutError) if banned else nullcontext():
                    dial(port, source).close()


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_peer_that_does_not_acknowledge_settings_is_hung_up_on(
    store: SqliteStore, acknowledged: bool
) -> None:
    """Until it does, gRPC keeps no limit on header lists: 12,000 fields reached the handler."""
    settings = Settings(settled_s=2.0, guard=ConnectionLimits())
    with AggregatorServer.start(store, settings=settings) as server:
        caller = dial(server.port, "127.0.0.1")
        caller.settimeout(20)  # of its own gRPC hangs up after 60 s
        caller.sendall(HEADERS)
        assert caller.recv(9)[3] == 4  # gRPC's settings
        if acknowledged:
            caller.sendall(b"\0\0\0\4\1\0\0\0\0")
            caller.settimeout(5)
        with caller, pytest.raises(TimeoutError) if acknowledged else nullcontext():
            while caller.recv(1 << 16):
                pass


@linux
def test_header_lists_of_one_address_end_with_a_ban_and_devices_go_on(
    world: World, store: SqliteStore, run: Run
) -> None:
    """40 MB of header lists over connections with a valid certificate took 4.9 GB."""
    world.enrol(store, 1)
    limits = ConnectionLimits(unproven_bytes=8_000, bytes_per_s=1, ban_s=600)

    async def check_in(server: AggregatorServer) -> None:
        async with aio.insecure_channel(server.address, channel_options()) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            await call(b"", metadata=world.metadata(0))

    with AggregatorServer.start(store, settings=Settings(guard=limits)) as server:
        flooding = dial(server.port, "127.0.0.2")
        neighbour = dial(server.port, "127.0.0.3")
        flooding.sendall(HEADERS)
        with pytest.raises(OSError):  # noqa: PT011  # reset, or a broken pipe
            flood(flooding)
        with pytest.raises(TimeoutError):
            dial(server.port, "127.0.0.2")
        dial(server.port, "127.0.0.3").close()
        neighbour.send(HEADERS)
        run(check_in(server))
        for one in (flooding, neighbour):
            one.close()


def test_a_call_of_many_fields_ends_its_connection(
    world: World, store: SqliteStore, run: Run
) -> None:
    world.enrol(store, 1)

    async def attempt(server: AggregatorServer, fields: int) -> None:
        async with aio.insecure_channel(
            server.address, channel_options(own_connection=True)
        ) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            more = tuple((f"x{number}", "") for number in range(fields))
            await call(b"", metadata=(*world.metadata(0), *more), timeout=10)

    with AggregatorServer.start(store, settings=Settings(guard=ConnectionLimits())) as server:
        run(attempt(server, 50))
        with pytest.raises(aio.AioRpcError):
            run(attempt(server, 70))
        with pytest.raises(TimeoutError):
            dial_until_banned(server.port)


def test_a_call_of_many_fields_keeps_its_place(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is refused at once makes room for the next list, which gRPC reads as well."""
    told: list[str] = []
    guard = ConnectionGuard(ConnectionLimits())
    monkeypatch.setattr(guard, "flood", told.append)
    details: Any = SimpleNamespace(invocation_metadata=(("x", "y"),) * 65)
    handler = FieldLimit(grpc.method_handlers_generic_handler("x", {}), guard).service(details)
    context = SimpleNamespace(peer=lambda: "ipv4:192.0.2.1:9")

    async def scenario() -> bool:
        call = asyncio.ensure_future(handler.stream_stream(None, context))
        await asyncio.wait([call], timeout=0.05)
        open_still = not call.done()
        call.cancel()
        return open_still

    assert run(scenario())
    assert told == ["ipv4:192.0.2.1:9"]


def test_the_connections_of_a_revoked_device_are_ended(
    world: World, store: SqliteStore, run: Run
) -> None:
    """TLS takes a certificate until it ends."""
    world.enrol(store, 1)

    async def attempt(server: AggregatorServer) -> None:
        async with aio.insecure_channel(server.address, channel_options()) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            await call(b"", metadata=world.metadata(0))
            store.register.revoke(DeviceSelection(ids=(world.identity(0).device_id,)))
            with pytest.raises(aio.AioRpcError, match="revoked"):
                await until_refused(lambda: call(b"", metadata=world.metadata(0)))
            await until(lambda: channel.get_state() is not grpc.ChannelConnectivity.READY)

    with AggregatorServer.start(store, settings=Settings(guard=ConnectionLimits())) as server:
        run(attempt(server))
