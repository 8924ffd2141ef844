"""Guard of the devices' listener: what a valid certificate may send below the calls."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
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
from askance_aggregator.server.devices.kernel_sockets import KernelConnection, KernelSockets
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
class Kernel:
    """Connections as a test states them."""

    open: list[KernelConnection] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    banned: set[Network] = field(default_factory=set)
    was_reset: set[int] = field(default_factory=set)
    banned_by_then: set[Network] = field(default_factory=set)

    def connections(self) -> list[KernelConnection]:
        return list(self.open)

    def end(self, inodes: Collection[int]) -> None:
        self.ended = sorted((*self.ended, *inodes))
        self.open = [one for one in self.open if one.inode not in inodes]

    def reset(self, inodes: Collection[int]) -> None:
        self.was_reset |= set(inodes)
        self.banned_by_then = set(self.banned)
        self.end(inodes)

    def ban(self, networks: Collection[Network]) -> None:
        self.banned = set(networks)

    def has(self, inode: int, received: int, address: str = "198.51.100.7") -> None:
        """Let a connection have received so many bytes; its port is 1000 + its inode."""
        self.open = [one for one in self.open if one.inode != inode]
        self.open.append(KernelConnection(ip_address(address), 1_000 + inode, inode, received))


def peer(inode: int, address: str = "198.51.100.7") -> str:
    return f"ipv4:{address}:{1_000 + inode}"


def device(ordinal: int) -> CertificateHolder:
    return CertificateHolder(0, ordinal)


class Watched:
    """A guard, a clock and a kernel."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.reasons: list[str] = []
        self.kernel = Kernel()
        self.guard = ConnectionGuard(LIMITS, self.reasons.append, lambda: self.now_s)

    def look(self, at_s: float) -> list[int]:
        self.now_s = at_s
        self.kernel.ended.clear()
        self.guard.look(self.kernel)
        return list(self.kernel.ended)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_connection_without_a_proven_caller_sends_little(watched: Watched) -> None:
    watched.kernel.has(1, 10_000)
    assert watched.look(0) == []
    watched.kernel.has(1, 10_999)
    assert watched.look(10) == []  # 100 bytes per second
    watched.kernel.has(1, 11_101)
    assert watched.look(11) == [1]
    assert watched.reasons == ["flood"]
    assert watched.kernel.banned == {ip_network("198.51.100.7/32")}


def test_a_proven_caller_sends_more_and_messages_are_credited(watched: Watched) -> None:
    watched.kernel.has(1, 900_000)
    watched.guard.prove(peer(1), device(5))
    assert watched.look(0) == []
    watched.kernel.has(1, 9_000_000)
    watched.guard.credit(peer(1), 4_500_000)
    assert watched.look(1) == []
    watched.kernel.has(1, 11_000_000)
    assert watched.look(2) == [1]


def test_an_old_connection_may_send_no_more_at_once_than_a_new_one(watched: Watched) -> None:
    watched.kernel.has(1, 5_000)
    watched.look(0)
    watched.kernel.has(1, 15_000)
    assert watched.look(3_600) == []
    watched.kernel.has(1, 25_101)
    assert watched.look(3_601) == [1]


def test_a_gateway_owes_more_than_a_device() -> None:
    """A device has one stream, a gateway two, each with a message of 128 KiB and more behind it."""
    kernel = Kernel()
    guard = ConnectionGuard(ConnectionLimits(), clock=lambda: 0.0)
    for inode, holder in ((1, device(0)), (2, CertificateHolder(gateway=1))):
        kernel.has(inode, 210_000, f"198.51.100.{inode}")
        guard.prove(peer(inode, f"198.51.100.{inode}"), holder)
    guard.look(kernel)
    assert kernel.ended == [1]
    kernel.has(2, 420_000, "198.51.100.2")
    guard.look(kernel)
    assert kernel.ended == [1, 2]


@pytest.mark.parametrize(("longer", "code"), [(0, "INVALID_ARGUMENT"), (1, "RESOURCE_EXHAUSTED")])
def test_a_guarded_listener_takes_messages_of_128_kib(
    world: World, store: SqliteStore, run: Run, longer: int, code: str
) -> None:
    """The kernel counts a message's bytes before the service has it."""
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
    watched.kernel.has(1, 1_000)
    for _ in range(1_000):
        watched.guard.prove(peer(1), device(5))
    assert watched.look(0) == []
    watched.kernel.has(1, 1_002_000)
    assert watched.look(1) == [1]


def test_connections_of_one_holder_share_what_a_proven_caller_may_send(watched: Watched) -> None:
    """A header list that does not end keeps 115 bytes of memory per byte, on each connection."""
    for inode, address in ((1, "198.51.100.7"), (2, "198.51.100.8")):
        watched.kernel.has(inode, 400_000, address)
        watched.guard.prove(peer(inode, address), device(5))
    assert watched.look(0) == []
    watched.kernel.has(1, 700_000)
    watched.kernel.has(2, 700_000, "198.51.100.8")
    watched.kernel.has(3, 700_000, "198.51.100.9")
    watched.guard.prove(peer(3, "198.51.100.9"), device(6))
    assert watched.look(1) == [1, 2]
    assert watched.kernel.banned == {ip_network("198.51.100.7"), ip_network("198.51.100.8")}


def test_a_holder_whose_connection_was_a_flood_has_none_from_another_address(
    watched: Watched,
) -> None:
    """A proven caller sent header lists from one address after the other."""
    watched.kernel.has(1, 1_100_000)
    watched.kernel.has(2, 500, "198.51.100.8")
    for inode, address in ((1, "198.51.100.7"), (2, "198.51.100.8")):
        watched.guard.prove(peer(inode, address), device(5))
    assert watched.look(0) == [1, 2]
    watched.kernel.has(3, 500, "198.51.100.9")
    watched.guard.prove(peer(3, "198.51.100.9"), device(5))
    assert watched.look(59) == [3]
    watched.kernel.has(4, 500, "198.51.100.9")
    watched.guard.prove(peer(4, "198.51.100.9"), device(5))
    assert watched.look(61) == []
    assert watched.reasons == ["flood", "barred", "barred"]


def test_connections_of_one_address_share_what_unproven_callers_may_send() -> None:
    limits = ConnectionLimits(unproven_bytes=20_000, bytes_per_s=1)
    kernel = Kernel()
    guard = ConnectionGuard(limits, clock=lambda: 0.0)
    for inode in range(1, 10):  # 9 x 8,800 bytes beyond the 8,192 of a handshake
        kernel.has(inode, 16_992)
    guard.look(kernel)
    assert kernel.ended == []
    kernel.has(10, 16_992)
    guard.look(kernel)
    assert kernel.ended == list(range(1, 11))


def test_connections_of_one_address_without_a_proven_caller_are_few() -> None:
    """Half-open ones hold 43 kB each."""
    kernel = Kernel()
    guard = ConnectionGuard(ConnectionLimits(), clock=lambda: 0.0)
    for inode in range(300):
        kernel.has(inode, 0)
        if inode < 10:
            guard.prove(peer(inode), device(inode))
    kernel.has(300, 0, "198.51.100.8")
    guard.look(kernel)
    assert kernel.ended == list(range(138, 300))
    assert kernel.banned == {ip_network("198.51.100.7")}
    kernel.end(set(range(10, 75)))
    guard.look(kernel)
    assert not kernel.banned


def test_a_flood_is_reset_after_its_ban_and_others_are_shut_down(watched: Watched) -> None:
    """A peer that dialled again before its ban sent as much once more."""
    watched.kernel.has(1, 20_000)
    watched.kernel.has(2, 500, "198.51.100.8")
    watched.guard.bar(peer(2, "198.51.100.8"))
    assert watched.look(0) == [1, 2]
    assert watched.kernel.was_reset == {1}
    assert watched.kernel.banned_by_then == {ip_network("198.51.100.7")}


def test_a_ban_ends_and_the_next_one_is_twice_as_long(watched: Watched) -> None:
    watched.kernel.has(1, 20_000)
    watched.look(0)
    assert watched.kernel.banned
    watched.look(59)
    assert watched.kernel.banned
    watched.look(61)
    assert not watched.kernel.banned
    watched.kernel.has(2, 20_000)
    assert watched.look(62) == [2]
    watched.look(62 + 119)
    assert watched.kernel.banned
    watched.look(62 + 121)
    assert not watched.kernel.banned


def test_neighbours_with_a_proven_caller_go_on(watched: Watched) -> None:
    watched.guard.prove(peer(2), device(5))
    for inode, received in ((1, 20_000), (2, 500), (3, 500)):
        watched.kernel.has(inode, received)
    assert watched.look(0) == [1, 3]
    assert [one.inode for one in watched.kernel.open] == [2]


def test_a_trusted_proxy_is_not_banned_for_one_of_its_callers(watched: Watched) -> None:
    watched.kernel.has(1, 20_000, "192.0.2.1")
    for inode in (2, 3, 4, 5):
        watched.kernel.has(inode, 500, "192.0.2.1")
    assert watched.look(0) == [1]
    assert not watched.kernel.banned


def test_a_proxy_that_is_listed_later_is_trusted_from_then_on(watched: Watched) -> None:
    watched.kernel.has(1, 20_000)
    assert watched.look(0) == [1]
    assert watched.kernel.banned
    watched.guard.trust(frozenset({ip_network("198.51.100.0/24")}))
    for inode in range(2, 8):
        watched.kernel.has(inode, 500)
    watched.kernel.has(8, 20_000, "192.0.2.1")
    assert watched.look(1) == [8]
    assert watched.kernel.banned == {ip_network("192.0.2.1")}


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
    watched.kernel.has(1, 20_000, "2001:db8::1")
    watched.kernel.has(2, 500, "2001:db8::2")
    watched.kernel.has(3, 500, "2001:db8:0:1::1")
    assert watched.look(0) == [1, 2]
    assert watched.kernel.banned == {ip_network("2001:db8::/64")}


def test_the_newest_connections_of_a_holder_or_an_address_are_ended(watched: Watched) -> None:
    for inode in (1, 2):
        watched.kernel.has(inode, 0)
        watched.guard.prove(peer(inode), device(5))
    assert watched.look(0) == []
    watched.kernel.has(3, 0)
    watched.guard.prove(peer(3), device(5))
    watched.kernel.has(4, 0)
    assert watched.look(1) == [3]
    watched.kernel.has(5, 0)
    assert watched.look(2) == [5]
    assert watched.reasons == ["connections"] * 2


def test_a_barred_connection_is_ended(watched: Watched) -> None:
    for inode in (1, 2):
        watched.kernel.has(inode, 0)
        watched.guard.prove(peer(inode), device(inode))
    watched.guard.bar(peer(1))
    assert watched.look(0) == [1]
    assert watched.look(1) == []
    assert watched.reasons == ["barred"]
    assert not watched.kernel.banned


def test_a_call_that_is_a_flood_ends_its_connection_whatever_it_was_credited(
    watched: Watched,
) -> None:
    for inode in (1, 2):
        watched.kernel.has(inode, 0)
        watched.guard.prove(peer(inode), device(inode))
    watched.guard.flood(peer(1))
    assert watched.look(0) == [1]
    assert watched.kernel.banned
    assert watched.look(1) == []


def test_nothing_is_kept_of_connections_that_have_gone(watched: Watched) -> None:
    for inode in range(100):
        watched.guard.prove(peer(inode), device(inode))
        watched.guard.bar(peer(inode))
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
    for stream in range(1, 4_000, 2):
        caller.sendall(LIST[:5] + stream.to_bytes(4, "big") + LIST[9:])
        time.sleep(0.01)


linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel of Linux reports"
)


@linux
def test_bytes_that_a_reset_connection_had_sent_are_never_read() -> None:
    """Received bytes were parsed also after the end: 7 MB of memory for 64 kB."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        sockets = KernelSockets(port)
        with dial(port, "127.0.0.2") as caller:
            accepted, _ = listener.accept()
            with accepted:
                caller.sendall(bytes(50_000))
                (one,) = [one for one in sockets.connections() if one.inode]
                assert one.received == 50_000
                sockets.reset({one.inode})
                with pytest.raises(OSError):  # noqa: PT011  # reset, or not connected
                    accepted.recv(1)
                with pytest.raises(ConnectionResetError):
                    caller.recv(1)
                assert sockets.connections() == []
        sockets.close()


@linux
def test_a_ban_and_its_end_reach_the_listener_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        sockets = KernelSockets(port)
        bans: tuple[set[Network], ...] = (
            {ip_network("127.0.0.2")},
            {ip_network("127.0.0.3")},
            set(),
        )
        for networks in bans:
            sockets.ban(networks)
            for source in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
                banned = ip_network(source) in networks
                with pytest.raises(TimeoutError) if banned else nullcontext():
                    dial(port, source).close()
        sockets.close()


@pytest.mark.parametrize("acknowledged", [True, False])
def test_a_peer_that_does_not_acknowledge_settings_is_hung_up_on(
    store: SqliteStore, acknowledged: bool
) -> None:
    """Until it does, gRPC keeps no limit on header lists: 12,000 fields reached the handler."""
    settings = Settings(handshake_s=0.5, guard=ConnectionLimits())
    with AggregatorServer.start(store, settings=settings) as server:
        caller = dial(server.port, "127.0.0.1")
        caller.settimeout(2)
        caller.sendall(HEADERS)
        assert caller.recv(9)[3] == 4  # gRPC's settings
        if acknowledged:
            caller.sendall(b"\0\0\0\4\1\0\0\0\0")
        with caller, pytest.raises(TimeoutError) if acknowledged else nullcontext():
            while caller.recv(1 << 16):
                pass


@linux
def test_header_lists_of_one_address_end_with_a_ban_and_devices_go_on(
    world: World, store: SqliteStore, run: Run
) -> None:
    """40 MB of header lists over connections with a valid certificate took 4.9 GB."""
    world.enrol(store, 1)
    limits = ConnectionLimits(unproven_bytes=30_000, bytes_per_s=1, ban_s=600)

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
        sockets = KernelSockets(server.port)
        async with aio.insecure_channel(server.address, channel_options()) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/CheckIn")
            await call(b"", metadata=world.metadata(0))
            (open_,) = {one.inode for one in sockets.connections()}
            store.register.revoke(DeviceSelection(ids=(world.identity(0).device_id,)))
            with pytest.raises(aio.AioRpcError, match="revoked"):
                await until_refused(lambda: call(b"", metadata=world.metadata(0)))
            await until(lambda: open_ not in {one.inode for one in sockets.connections()})
        sockets.close()

    with AggregatorServer.start(store, settings=Settings(guard=ConnectionLimits())) as server:
        run(attempt(server))
