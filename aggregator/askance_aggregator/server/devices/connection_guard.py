"""Guard of the devices' listener: ends connections whose bytes no call accounts for.

A caller with a valid certificate reaches gRPC's parser of HTTP/2. What it sends below the calls
(header lists above the limit, resets, pings, settings, bodies of refused calls) is seen by no code
of ours, costs processor time, and does not end when the device is revoked. Before its peer has
acknowledged gRPC's settings, a connection keeps 115 bytes of memory per byte of a header list. So
every byte comes through the valve (`outer.valve`), which passes on no more than a pace and what the
service credits: the bytes of the calls of proven callers. The rest is the connection's debt, which
shrinks by `bytes_per_s`. A connection with too much of it is ended, and its address makes no new
connection for a while.

Invariants:
  1. The debt of a connection is at most `unproven_bytes`, and once a caller is proven on it
     `device_bytes` or `gateway_bytes`, or it is ended at the next look.
  2. Likewise all that the connections of one holder of a certificate owe together, beyond a
     handshake each, is at most as much; and those of one address without a proven caller at
     most four times `unproven_bytes`. Connections that have gone count, and less with time.
  3. The address of a connection that is ended by 1 or 2 is banned for `ban_s`, twice as long each
     time, up to an hour; its other connections without a proven caller are ended, and those with
     one go on. Trusted proxies are never banned. The holder of a certificate that is proven on such
     a connection has none for `ban_s`, from any address.
  4. A holder of a certificate has at most `holder_connections`, an address
     `address_connections`, of which `unproven_connections` have no proven caller; later ones are
     ended. While an address has half as many, the first packet of its next connection is dropped,
     and its system sends it again later.
  5. A call with more than 64 fields of metadata is such a flood.
  6. The guard takes at most a twentieth of a processor, but for looks that find a flood.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Any, Protocol, cast

import grpc
from grpc import aio

from askance_aggregator.server.devices.calls import Context, Method
from askance_aggregator.server.devices.passages import ListenerConnection, Passages
from askance_aggregator.server.devices.standings import Revoked
from askance_aggregator.server.outer.addresses import IpAddress, Network, address_of, group_of
from askance_aggregator.server.outer.valve import Paces, Passage
from askance_aggregator.store import CertificateHolder
from askance_client.errors import InvalidParameter

_LOGGER = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.02
_SHARE = 20  # of the time since the last look, a look takes one part in so many
_LONGEST_BAN_S = 3_600.0
_MOST_FIELDS = 64  # of a call's metadata; each costs the event loop .5 us to read
_REFUSED_S = 1.0  # that such a call is open, at most
_MOST_BANS = 500  # a program of the packet filter has at most 4,096 instructions
# Bytes on the wire per message beside its own: a frame's header, a TLS record, an acknowledgement.
_PER_MESSAGE = 128
_PER_CALL = 4_096  # a header list that gRPC lets through, and the beginning of a stream
_HANDSHAKE = 4_096  # of TLS with a chain of three certificates, and the metadata of a call
_UNPROVEN_SHARE = 4  # of an address, in `unproven_bytes`

Peer = tuple[IpAddress, int]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the connections of a listener.

    Args:
      device_bytes: that a connection may send beside its proven calls, once a device is proven on
        it. A message is received before it is credited, and 64 kB of the next one with it.
      gateway_bytes: likewise, of a gateway, which has two streams.
      unproven_bytes: before that: a handshake, and the metadata of a first call.
      bytes_per_s: by which the debt of a proven device shrinks, and what connections that have
        gone still count for.
      gateway_bytes_per_s: likewise, of a gateway.
      ban_s: how long the address of a connection that sent more makes no new one.
      holder_connections: of one device or gateway at one time. A gateway that checks in for
        many members has 32.
      address_connections: of one IPv4 address or IPv6 network of 64 bits at one time.
      unproven_connections: of these, without a proven caller.
      streams: of one connection at one time; more calls of its holder wait. The header lists of
        all are read, one after the other, before a flood is seen.
      trusted: networks of proxies, which stand for many callers.
      paces: at which the valve passes on what no call has brought yet.
    """

    device_bytes: int = 3 << 16
    gateway_bytes: int = 3 << 17
    unproven_bytes: int = 32_768
    bytes_per_s: int = 8_192
    gateway_bytes_per_s: int = 32_768
    ban_s: float = 60.0
    holder_connections: int = 64
    address_connections: int = 1_024
    unproven_connections: int = 128
    streams: int = 2
    trusted: frozenset[Network] = field(default_factory=frozenset)
    paces: Paces = field(default_factory=Paces)

    def __post_init__(self) -> None:
        least = min(
            self.device_bytes,
            self.gateway_bytes,
            self.unproven_bytes,
            self.bytes_per_s,
            self.gateway_bytes_per_s,
            self.holder_connections,
            self.address_connections,
            self.unproven_connections,
            self.streams,
        )
        if least < 1 or self.ban_s <= 0:
            raise InvalidParameter("connections: expected limits of 1 or more")

    def owed(self, holder: CertificateHolder) -> int:
        """Return the bytes that a proven holder may owe."""
        return self.gateway_bytes if holder.gateway else self.device_bytes

    def shrinks(self, holder: CertificateHolder | None) -> int:
        """Return the bytes per second by which a debt shrinks; 0 without a proven caller."""
        if holder is None:
            return 0
        return self.gateway_bytes_per_s if holder.gateway else self.bytes_per_s


@dataclass(frozen=True, slots=True)
class _Debt:
    """Bytes of a connection that no call accounts for, as of the last look.

    The connection was first seen at `since_s`.
    """

    since_s: float
    received: int = 0
    credited: int = 0
    owed: float = 0.0

    def after(self, received: int, credited: int, shrunk: float) -> _Debt:
        """Return it at the next look, after it has shrunk by so many bytes."""
        more = received - self.received - max(0, credited - self.credited)
        return _Debt(self.since_s, received, credited, max(0.0, self.owed + more - shrunk))


class Connections(Protocol):
    """Interface of `Passages` to `ConnectionGuard.look`."""

    def connections(self) -> list[ListenerConnection]:
        """Return the connections that are open, or were since the last question."""
        ...

    def end(self, numbers: Collection[int]) -> None:
        """End connections; nothing that they have sent is passed on any more."""
        ...

    def ban(self, networks: Collection[Network]) -> None:
        """Accept no connection from these networks from now on, and from all others."""
        ...


class ConnectionGuard:
    """Watch over one listener, in a thread of its own.

    `credit`, `prove` and `bar` are for the service's event loop.

    Args:
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
        self._holders: dict[Peer, CertificateHolder] = {}
        self._barred: set[Peer] = set()
        self._flooding: set[Peer] = set()
        self._due = threading.Event()  # a look, before its time
        self._debts: dict[tuple[Peer, int], _Debt] = {}
        self._left: dict[Hashable, float] = {}  # owed by connections that have gone, by pool
        self._looked_s = clock()
        self._bans: dict[Network, float] = {}
        self._lengths_s: dict[Network, float] = {}  # of the latest bans
        self._dropped: set[Network] = set()  # that the listener drops
        self._banned_holders: dict[CertificateHolder, float] = {}  # until when
        self._gone: set[Peer] = set()  # credited, and no connection at the last look
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._passages: Passages | None = None

    def watch(self, passages: Passages) -> None:
        """Watch over the connections of a valve."""
        self._passages = passages
        self._thread = threading.Thread(
            target=self._run, args=(passages,), name="askance-guard", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; bans end with the listener."""
        self._stopping.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def trust(self, networks: frozenset[Network]) -> None:
        """Let these be the networks of proxies from now on; a ban of one of them ends."""
        self._limits = replace(self._limits, trusted=networks)
        self._due.set()

    def prove(self, peer: str, holder: CertificateHolder) -> None:
        """Note whose call came over a connection."""
        if (end := self._end_of(peer)) is not None:
            self._holders[end] = holder
            self._credits[end] += _PER_CALL
            self._pass(peer, _PER_CALL, holder)

    def credit(self, peer: str, size: int) -> None:
        """Credit a connection with a message of a proven caller, in bytes."""
        if (end := self._end_of(peer)) is not None:
            self._credits[end] += 2 * size + _PER_MESSAGE
            self._pass(peer, 2 * size + _PER_MESSAGE)

    def bar(self, peer: str) -> None:
        """End a connection at the next look: its holder may not take part any more."""
        if (end := self._end_of(peer)) is not None:
            self._barred.add(end)

    def flood(self, peer: str) -> None:
        """End a connection at once, and ban its address: a call of it is a flood."""
        if (end := self._end_of(peer)) is not None:
            self._flooding.add(end)
            self._due.set()

    def _end_of(self, peer: str) -> Peer | None:
        """Parse gRPC's name of a peer; None if it is no TCP connection's."""
        if (passage := Passage.of_peer(peer)) is not None:
            if self._passages is not None:
                self._passages.meet(passage)
            return passage.address, passage.port
        address = address_of(peer)
        return None if address is None else (address, int(peer.rpartition(":")[2]))

    def _pass(self, peer: str, size: int, holder: CertificateHolder | None = None) -> None:
        """Let the valve pass more on."""
        passage = Passage.of_peer(peer)
        if self._passages is None or passage is None:
            return
        if holder is not None:
            self._passages.prove(passage.number, holder)
        self._passages.credit(passage.number, size)

    def look(self, passages: Connections) -> bool:
        """End connections past a limit, begin and end bans; return whether one was a flood."""
        # Credits first: each is of bytes that were passed on.
        credited = self._credits.copy()
        now_s, found = self._clock(), passages.connections()
        past_s, self._looked_s = now_s - self._looked_s, now_s
        before, debts = self._debts, dict[tuple[Peer, int], _Debt]()
        for one in found:
            key = (peer := _peer(one), one.number)
            shrunk = past_s * self._limits.shrinks(self._holders.get(peer))
            debts[key] = before.get(key, _Debt(now_s)).after(
                one.received, credited.get(peer, 0), shrunk
            )
        self._debts = debts
        gone = [(peer, debt.owed) for (peer, n), debt in before.items() if (peer, n) not in debts]
        self._leave(gone, past_s)
        over = self._over(found)
        ended = {one.number: "flood" for one in over}
        flooding = {group_of(one.address, self._limits.trusted) for one in over} - {""}
        self._ban_holders((self._holders.get(_peer(one)) for one in over), now_s)
        for one in found:
            holder = self._holders.get(_peer(one))
            if _peer(one) in self._barred or holder in self._banned_holders:
                ended.setdefault(one.number, "barred")
            unproven = _peer(one) not in self._holders
            if unproven and group_of(one.address, self._limits.trusted) in flooding:
                ended.setdefault(one.number, "flood")
        ordered = sorted(found, key=lambda one: debts[_peer(one), one.number].since_s)
        full = self._end_later(ordered, ended)
        self._ban(flooding, now_s)
        dropped = set([*full, *self._bans][-_MOST_BANS:])
        if dropped != self._dropped:  # first, or they are back before it
            self._dropped = dropped
            passages.ban(dropped)
        if ended:
            passages.end(ended.keys())
            for reason in ended.values():
                self._on_end(reason)
        self._forget({_peer(one) for one in found})
        return bool(over)

    def _over(self, found: Iterable[ListenerConnection]) -> list[ListenerConnection]:
        """Return the connections whose debts, or those of their holder or address, are too high."""
        limits, over = self._limits, []
        pools: defaultdict[tuple[int, Hashable], list[tuple[float, ListenerConnection]]]
        pools = defaultdict(list)
        for one in found:
            peer, owed = _peer(one), self._debts[_peer(one), one.number].owed
            holder, pool = self._holders.get(peer), self._pool(peer)
            allowed = limits.unproven_bytes if holder is None else limits.owed(holder)
            if owed > allowed or peer in self._flooding:
                over.append(one)
            elif owed > _HANDSHAKE and pool:
                pools[allowed if holder else _UNPROVEN_SHARE * allowed, pool].append(
                    (owed - _HANDSHAKE, one)
                )
        for (most, pool), owing in pools.items():
            if sum(owed for owed, _ in owing) + self._left.get(pool, 0) > most:
                over += [one for _, one in owing]
        return over

    def _pool(self, peer: Peer) -> Hashable:
        """Return with whom a connection shares what it may owe: its holder, or its address."""
        return self._holders.get(peer) or group_of(peer[0], self._limits.trusted)

    def _leave(self, gone: Iterable[tuple[Peer, float]], past_s: float) -> None:
        """Let connections that have gone count, and shrink what those before them count for."""
        shrunk = past_s * self._limits.bytes_per_s
        left = {pool: owed - shrunk for pool, owed in self._left.items() if owed > shrunk}
        for peer, owed in gone:
            if owed > _HANDSHAKE and (pool := self._pool(peer)):
                left[pool] = left.get(pool, 0) + owed - _HANDSHAKE
        self._left = left

    def _end_later(
        self, ordered: Sequence[ListenerConnection], ended: dict[int, str]
    ) -> list[Network]:
        """End the newest connections past a limit; return addresses with half as many as it."""
        full: dict[str, None] = {}
        counts: defaultdict[Hashable, int] = defaultdict(int)
        for one in ordered:
            if one.number in ended:
                continue
            holder, limits = self._holders.get(_peer(one)), self._limits
            group = group_of(one.address, limits.trusted)
            counted: list[tuple[str, Hashable, int]]
            if holder is not None:
                counted = [("holder", holder, limits.holder_connections)]
            else:
                counted = [("unproven", group, limits.unproven_connections)] if group else []
            if group:
                counted.append(("address", group, limits.address_connections))
            for kind, of, most in counted:
                if counts[kind, of] >= most:
                    ended[one.number] = "connections"
                    break
                counts[kind, of] += 1
                if 2 * counts[kind, of] >= most and kind != "holder":
                    full[group] = None
        return [ip_network(group) for group in full]

    def _ban_holders(self, holders: Iterable[CertificateHolder | None], now_s: float) -> None:
        """Ban these holders of certificates, and end the bans whose time is up."""
        banned = self._banned_holders
        for holder in holders:
            if holder is not None and holder not in banned:
                _LOGGER.warning(
                    "a flood of frames by %s: no connection for %.0f s", holder, self._limits.ban_s
                )
                banned[holder] = now_s + self._limits.ban_s
        self._banned_holders = {holder: end for holder, end in banned.items() if end > now_s}

    def _ban(self, groups: Iterable[str], now_s: float) -> None:
        """Ban these groups, and end the bans whose time is up."""
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
        self._bans = {
            network: end
            for network, end in self._bans.items()
            if end > now_s and group_of(network.network_address, self._limits.trusted)
        }
        for network in list(self._bans)[:-_MOST_BANS]:
            del self._bans[network]

    def _forget(self, live: set[Peer]) -> None:
        """Forget connections that were there and are gone."""
        for kept in (self._credits, self._holders):
            # A call may come over a connection that is newer than the last look.
            for peer in [peer for peer in list(kept) if peer not in live and peer in self._gone]:
                kept.pop(peer, None)
        self._gone = {peer for peer in list(self._credits) if peer not in live}
        self._barred &= live
        self._flooding &= live

    def _run(self, passages: Passages) -> None:
        wait_s = _LOOK_EVERY_S
        while True:
            self._due.wait(wait_s)
            if self._stopping.is_set():
                break
            self._due.clear()
            began_s, flooded = time.thread_time(), False
            with suppress(OSError):  # no descriptor is free: at the next look
                flooded = self.look(passages)
            took_s = 0 if flooded else time.thread_time() - began_s
            wait_s = max(_LOOK_EVERY_S, _SHARE * took_s)


def guarded(method: Method, guard: ConnectionGuard) -> Method:
    """Return a method whose messages are credited, and whose revoked callers are barred.

    The method reads no message before its caller is proven.
    """

    async def serve(context: Context) -> None:
        peer = context.peer()
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


class FieldLimit(grpc.GenericRpcHandler):
    """Handler of calls with few fields of metadata; the connection of any other is a flood."""

    def __init__(self, handler: grpc.GenericRpcHandler, guard: ConnectionGuard) -> None:
        self._handler = handler
        self._refusing: Any = grpc.stream_stream_rpc_method_handler(self._refuse)
        self._guard = guard

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a call, whose metadata has been read once by now."""
        if len(handler_call_details.invocation_metadata) > _MOST_FIELDS:
            return self._refusing
        return self._handler.service(handler_call_details)

    async def _refuse(self, _: object, context: Any) -> None:
        self._guard.flood(context.peer())
        # Keeps its place until the connection ends: gRPC reads no further list in its place.
        await asyncio.sleep(_REFUSED_S)
        context.set_code(grpc.StatusCode.INVALID_ARGUMENT)
        context.set_details(f"call: expected at most {_MOST_FIELDS} fields of metadata")


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


def _peer(connection: ListenerConnection) -> Peer:
    return connection.address, connection.port
