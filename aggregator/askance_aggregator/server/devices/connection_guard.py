"""Guard of the devices' listener: ends connections whose bytes no call accounts for.

A caller with a valid certificate reaches gRPC's parser of HTTP/2. What it sends below the calls
(header lists above the limit, resets, pings, settings, bodies of refused calls) is seen by no code
of ours, costs processor time, and does not end when the device is revoked. The kernel counts a
connection's bytes; the service credits those that came with the call of a proven caller. A
connection beyond its allowance is ended, and its address makes no new connection for a while.

Invariants:
  1. A connection has received at most `free_bytes`, and `bytes_per_s` for each second since it was
     first seen, beyond what it was credited, or it is ended at the next look.
  2. The address of such a connection is banned for `ban_s`, twice as long each time, up to an hour;
     its other connections without a proven caller are ended, and those with one go on. Trusted
     proxies are never banned.
  3. A holder of a certificate has at most `holder_connections`, an address
     `address_connections`; later ones are ended.
  4. A call with more than 64 fields of metadata is such a flood.
  5. The guard takes at most a twentieth of a processor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, Protocol, cast

import grpc
from grpc import aio

from askance_aggregator.server.devices.calls import Context, Method
from askance_aggregator.server.devices.kernel_sockets import KernelConnection, KernelSockets
from askance_aggregator.server.devices.standings import Revoked
from askance_aggregator.server.outer.addresses import IpAddress, Network, address_of, group_of
from askance_client.errors import InvalidParameter, RemoteProtocolError

_LOGGER = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.05
_SHARE = 20  # of the time since the last look, a look takes one part in so many
_LONGEST_BAN_S = 3_600.0
_MOST_FIELDS = 64  # of a call's metadata; each costs the event loop .5 us to read
_MOST_BANS = 500  # a program of the packet filter has at most 4,096 instructions
# Bytes on the wire per message beside its own: a frame's header, a TLS record, an acknowledgement.
_PER_MESSAGE = 128
_PER_CALL = 4_096  # a header list that gRPC lets through, and the beginning of a stream

Peer = tuple[IpAddress, int]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the connections of a listener.

    Args:
      free_bytes: that a connection may send beside its proven calls, once a caller is proven on
        it. One message of 1 MiB is received before it is credited.
      unproven_bytes: before that: a handshake, and the metadata of a first call.
      bytes_per_s: likewise, for each second.
      ban_s: how long the address of a connection that sent more makes no new one.
      holder_connections: of one device or gateway at one time. A gateway that checks in for
        many members has 32.
      address_connections: of one IPv4 address or IPv6 network of 64 bits at one time.
      trusted: networks of proxies, which stand for many callers.
    """

    free_bytes: int = 2 << 20
    unproven_bytes: int = 65_536
    bytes_per_s: int = 32_768
    ban_s: float = 60.0
    holder_connections: int = 64
    address_connections: int = 1_024
    trusted: frozenset[Network] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        least = min(
            self.free_bytes,
            self.unproven_bytes,
            self.bytes_per_s,
            self.holder_connections,
            self.address_connections,
        )
        if least < 1 or self.ban_s <= 0:
            raise InvalidParameter("connections: expected limits of 1 or more")


class Connections(Protocol):
    """Interface of `KernelSockets`."""

    def connections(self) -> list[KernelConnection]:
        """Return all established connections."""
        ...

    def end(self, inodes: Collection[int]) -> None:
        """Shut down connections."""
        ...

    def ban(self, networks: Collection[Network]) -> None:
        """Accept no connection from these networks from now on, and from all others."""
        ...


class ConnectionGuard:
    """Watch over one listener, in a thread of its own.

    `credit`, `prove` and `bar` are for the service's event loop.

    Args:
      limits: that connections keep.
      on_end: is called for every connection that is ended, with a word for the reason.
      clock: monotonic time in seconds.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        on_end: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._on_end = on_end
        self._clock = clock
        self._credits: defaultdict[Peer, int] = defaultdict(int)
        self._holders: dict[Peer, Hashable] = {}
        self._barred: set[Peer] = set()
        self._flooding: set[Peer] = set()
        self._due = threading.Event()  # a look, before its time
        self._since: dict[tuple[Peer, int], float] = {}
        self._bans: dict[Network, float] = {}
        self._lengths_s: dict[Network, float] = {}  # of the latest bans
        self._gone: set[Peer] = set()  # credited, and no connection at the last look
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, port: int) -> None:
        """Watch over the listener at a port; where the system reports no connections, say so."""
        try:
            sockets = KernelSockets(port)
            sockets.connections()
        except OSError as error:
            _LOGGER.warning("connections are not guarded: %s", error)
            return
        self._thread = threading.Thread(
            target=self._run, args=(sockets,), name="askance-guard", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; bans end with the listener."""
        self._stopping.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def prove(self, peer: str, holder: Hashable) -> None:
        """Note whose call came over a connection.

        Args:
          peer: as gRPC names it.
          holder: the device or the gateway whose certificate the connection shows.
        """
        if (end := _end_of(peer)) is not None:
            self._holders[end] = holder
            self._credits[end] += _PER_CALL

    def credit(self, peer: str, size: int) -> None:
        """Credit a connection with a message of a proven caller, in bytes."""
        if (end := _end_of(peer)) is not None:
            self._credits[end] += 2 * size + _PER_MESSAGE

    def bar(self, peer: str) -> None:
        """End a connection at the next look: its holder may not take part any more."""
        if (end := _end_of(peer)) is not None:
            self._barred.add(end)

    def flood(self, peer: str) -> None:
        """End a connection at once, and ban its address: a call of it is a flood."""
        if (end := _end_of(peer)) is not None:
            self._flooding.add(end)
            self._due.set()

    def look(self, sockets: Connections) -> None:
        """End the connections that are past a limit, and let bans begin and end.

        Args:
          sockets: the listener's.

        Raises:
          OSError: the system does not report connections.
        """
        now_s, found = self._clock(), sockets.connections()
        keys = ((_peer(one), one.inode) for one in found)
        since = self._since = {key: self._since.get(key, now_s) for key in keys}
        ended: dict[int, str] = {}
        flooding: set[str] = set()
        for one in found:
            peer = _peer(one)
            age_s = now_s - since[peer, one.inode]
            proven = peer in self._holders
            free = self._limits.free_bytes if proven else self._limits.unproven_bytes
            allowed = free + self._limits.bytes_per_s * age_s
            over = one.received - self._credits.get(peer, 0) > allowed
            if over or peer in self._flooding:
                ended[one.inode] = "flood"
                flooding.add(group_of(one.address, self._limits.trusted))
            elif peer in self._barred:
                ended[one.inode] = "barred"
        flooding.discard("")
        for one in found:
            unproven = _peer(one) not in self._holders
            if unproven and group_of(one.address, self._limits.trusted) in flooding:
                ended.setdefault(one.inode, "flood")
        ordered = sorted(found, key=lambda one: since[_peer(one), one.inode])
        self._end_later(ordered, ended)
        if ended:
            sockets.end(ended)
            for reason in ended.values():
                self._on_end(reason)
        self._ban(sockets, flooding, now_s)
        self._forget({_peer(one) for one in found})

    def _end_later(self, ordered: Sequence[KernelConnection], ended: dict[int, str]) -> None:
        """End the newest connections of a holder or an address that has too many."""
        counts: defaultdict[Hashable, int] = defaultdict(int)
        for one in ordered:
            if one.inode in ended:
                continue
            holder = self._holders.get(_peer(one))
            group = group_of(one.address, self._limits.trusted)
            if holder is not None:
                counts["holder", holder] += 1
                if counts["holder", holder] > self._limits.holder_connections:
                    ended[one.inode] = "connections"
                    continue
            if group:
                counts[group] += 1
                if counts[group] > self._limits.address_connections:
                    ended[one.inode] = "connections"

    def _ban(self, sockets: Connections, groups: Iterable[str], now_s: float) -> None:
        """Ban these groups, and end the bans whose time is up."""
        before = set(self._bans)
        for network in map(ip_network, groups):
            if network in self._bans:
                continue
            length_s = min(2 * self._lengths_s.get(network, self._limits.ban_s / 2), _LONGEST_BAN_S)
            _LOGGER.warning(
                "a flood of frames: no connection from %s for %.0f s", network, length_s
            )
            self._lengths_s[network] = length_s
            self._bans[network] = now_s + length_s
        for network in list(self._lengths_s)[:-_MOST_BANS]:
            del self._lengths_s[network]
        self._bans = {network: end for network, end in self._bans.items() if end > now_s}
        for network in list(self._bans)[:-_MOST_BANS]:
            del self._bans[network]
        if set(self._bans) != before:
            sockets.ban(self._bans)

    def _forget(self, live: set[Peer]) -> None:
        """Forget connections that were there and are gone."""
        for kept in (self._credits, self._holders):
            # A call may come over a connection that is newer than the last look.
            for peer in [peer for peer in list(kept) if peer not in live and peer in self._gone]:
                kept.pop(peer, None)
        self._gone = {peer for peer in list(self._credits) if peer not in live}
        self._barred &= live
        self._flooding &= live

    def _run(self, sockets: KernelSockets) -> None:
        wait_s = _LOOK_EVERY_S
        while True:
            self._due.wait(wait_s)
            if self._stopping.is_set():
                break
            self._due.clear()
            began_s = time.thread_time()
            with suppress(OSError):  # no descriptor is free: at the next look
                self.look(sockets)
            wait_s = max(_LOOK_EVERY_S, _SHARE * (time.thread_time() - began_s))
        sockets.close()


def guarded(method: Method, guard: ConnectionGuard) -> Method:
    """Return a method whose messages are credited, and whose revoked callers are barred.

    Args:
      method: reads no message before its caller is proven.
      guard: of the listener.
    """

    async def serve(context: Context) -> None:
        peer = context.peer()
        if len(tuple(context.invocation_metadata() or ())) > _MOST_FIELDS:
            guard.flood(peer)
            raise RemoteProtocolError(f"call: expected at most {_MOST_FIELDS} fields of metadata")
        try:
            await method(cast(Context, _CreditedContext(context, guard, peer)))
        except Revoked:
            guard.bar(peer)
            raise
        except aio.AbortError:
            if context.code() is grpc.StatusCode.PERMISSION_DENIED:
                guard.bar(peer)
            raise

    return serve


class _CreditedContext:
    """Context of a call, whose messages are credited to its connection."""

    def __init__(self, context: Context, guard: ConnectionGuard, peer: str) -> None:
        self._context = context
        self._guard = guard
        self._peer = peer

    async def read(self) -> object:
        """Read a message."""
        data = await self._context.read()
        if isinstance(data, bytes):
            self._guard.credit(self._peer, len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _peer(connection: KernelConnection) -> Peer:
    return connection.address, connection.port


def _end_of(peer: str) -> Peer | None:
    """Parse gRPC's name of a peer; None if it is no TCP connection's."""
    address = address_of(peer)
    if address is None:
        return None
    return address, int(peer.rpartition(":")[2])
