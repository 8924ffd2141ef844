"""The valve: a process before the listener of devices, which paces what callers send.

A header list costs gRPC two microseconds and 115 bytes of memory per byte, before any code of the
service runs, as long as its sender has not acknowledged gRPC's settings; gRPC hangs up on one who
has not within `settled_s`. So a caller's bytes come through here, as they are: TLS and HTTP/2 are
the service's. Until a connection has a proven caller it may send a handshake and the metadata of a
call, and then as little as `Paces.unproven` says. The holder of a certificate who is proven has a
pace for all connections together: a low one on those that were proven less than `settled_s` ago,
and a high one on those that must have acknowledged by now. The service credits what its calls
brought. Whatever is past the pace waits where the caller has it: nothing is lost, and no call is
refused. A connection that has said nothing is not passed on at all.

Arguments: the descriptors of the listening socket and of a socket to the service, the path of the
Unix socket on which the service listens, and `ValveSettings` as JSON. Over the service's socket
come records (`COMMAND`), and go records (`REPORT`); its end ends the process. The socket of a
connection to the service has a name that states its number, address and port (`Passage`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import count
from pathlib import Path
from typing import Any, Self, cast

from askance_aggregator.server.loops import new_loop
from askance_aggregator.server.outer.addresses import IpAddress, read_ip
from askance_aggregator.server.outer.child_process import allow_descriptors

COMMAND = struct.Struct("=BQQ")
"""Of the service: a kind, the number of a connection, and a value."""
CREDIT, DEVICE, GATEWAY, END, REFUSE = 1, 2, 3, 4, 5
"""Kinds: bytes that a call brought; the number of the proven holder, twice; an end at once; and,
without a connection, that none is accepted any more."""
REPORT = struct.Struct("=BQQ16sH")
"""Of the valve: a kind, the number of a connection, bytes, an IPv6 address, and a port."""
OPENED, RECEIVED, GONE = 1, 2, 3
READY = b"+"
"""What the valve says first: connections are accepted."""

_REPORT_EVERY_S = 0.02

_CHUNK = 1 << 16
_RECEIVE_BYTES = 1 << 16  # of a connection in the kernel, while a caller is paced
_LEAST = 1_024  # bytes that are waited for, so that a paced caller wakes the process seldom
_CREDIT_KEPT = 1 << 16  # of one connection, at most
_AGAIN_S = 0.02  # after the service has not taken a connection
_FORGET_EVERY_S = 60.0
_MARGIN_S = 0.5  # the service's timer may be late
_OTHER_DESCRIPTORS = 64
_NAME = "caller"


@dataclass(frozen=True, slots=True)
class Pace:
    """Bytes that are passed on without a credit: so many at once, and then so many per second."""

    burst: int
    bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Paces:
    """Paces of a connection without a proven caller, and of all connections of a proven one.

    Those of a holder are for connections that are not settled; `settled` is for the rest of them.
    """

    unproven: Pace = Pace(6_144, 1_024)
    device: Pace = Pace(24_576, 12_288)  # 64 kB in `settled_s`: a window, then its sender's word
    gateway: Pace = Pace(65_536, 65_536)
    settled: Pace = Pace(1 << 19, 1 << 22)


@dataclass(frozen=True, slots=True)
class ValveSettings:
    """Settings of a valve.

    Args:
      connections: at one time; a further one is closed.
      first_byte_s: seconds after which a connection that has said nothing is closed.
      settled_s: seconds after which the service hangs up on a caller that has not acknowledged its
        settings.
      unread_s: seconds after which a caller that takes nothing of what is sent to it is gone. Linux
        alone.
    """

    paces: Paces = field(default_factory=Paces)
    connections: int = 50_000
    first_byte_s: float = 10.0
    settled_s: float = 3.0
    unread_s: float = 20.0

    def to_text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Read what `to_text` has written."""
        given = json.loads(text)
        paces = Paces(**{name: Pace(**pace) for name, pace in given.pop("paces").items()})
        return cls(paces=paces, **given)


@dataclass(frozen=True, slots=True)
class Passage:
    """A connection through the valve, and the address and port of its other end."""

    number: int
    address: IpAddress
    port: int

    @property
    def name(self) -> str:
        """The name of its socket, in the folder of the service's."""
        return f"{_NAME}-{self.number}-{self.address.packed.hex()}-{self.port}"

    @classmethod
    def of_peer(cls, peer: str) -> Passage | None:
        """Read what gRPC names a call's peer; None: it did not come through a valve."""
        kind, *words = peer.split("-")
        if kind != f"unix:{_NAME}" or len(words) != 3:
            return None
        number, packed, port = words
        return cls(int(number), ip_address(bytes.fromhex(packed)), int(port))

    def peer(self) -> str:
        """Return its other end as gRPC names peers."""
        if isinstance(self.address, IPv4Address):
            return f"ipv4:{self.address}:{self.port}"
        return f"ipv6:%5B{self.address}%5D:{self.port}"


class _Bucket:
    """Bytes that may be passed on by a pace."""

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace = pace
        self._clock = clock
        self._level = float(pace.burst)
        self._at_s = clock()

    def level(self) -> int:
        """Return how many may be passed on now."""
        now_s = self._clock()
        grown = self._level + self._pace.bytes_per_s * (now_s - self._at_s)
        self._level, self._at_s = min(grown, self._pace.burst), now_s
        return int(self._level)

    @property
    def full(self) -> bool:
        """Return whether as much may be passed on as at first."""
        return self.level() >= self._pace.burst

    def take(self, size: int) -> None:
        """Take so many, or give back: no more than a burst is kept."""
        self._level = min(self._level - size, self._pace.burst)

    def wait_s(self, size: int) -> float:
        """Return the seconds until so many may be passed on."""
        return max(0.0, (size - self._level) / self._pace.bytes_per_s)


class _Caller(asyncio.BufferedProtocol):
    """A caller's end of a connection: reads as much as may be passed on."""

    _transport: asyncio.Transport

    def __init__(self, valve: Valve) -> None:
        self._valve = valve
        self._loop = valve.loop
        self._service: asyncio.Transport | None = None
        self._held = bytearray()  # until the service has taken the connection
        self._bucket = _Bucket(valve.settings.paces.unproven, self._loop.time)
        self._credit = 0
        self._full = False
        self._paused = False
        self._short = False  # of what may be passed on
        self._timer: asyncio.TimerHandle | None = None
        self.holder: tuple[bool, int] | None = None
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count a connection, and wait for its first byte."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        # None: it was reset before it was accepted.
        address, port, *_ = self._transport.get_extra_info("peername") or ("", 0)
        found = read_ip(address)
        if found is None or not self._valve.add(self, found, port):
            self._transport.abort()
            return
        self._timer = self._loop.call_later(
            self._valve.settings.first_byte_s, self._transport.abort
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return room for what may be passed on."""
        return self._valve.room[: max(1, min(self._allowed(), _CHUNK))]

    def buffer_updated(self, nbytes: int) -> None:
        """Pass bytes on."""
        self.received += nbytes
        paid = min(nbytes, self._credit)
        self._credit -= paid
        self._bucket.take(nbytes - paid)
        self._valve.changed.add(self)
        data = bytes(self._valve.room[:nbytes])
        if self._service is not None:
            self._service.write(data)
        else:
            self._held += data
            if self._timer is not None:  # the first
                self._timer.cancel()
                self._timer = None
                self._valve.work(self._connect())
        self._read_on()

    def eof_received(self) -> bool | None:
        """Close the connection: TLS has no half of one."""
        return None

    def pause_writing(self) -> None:
        """Let the service wait for the caller."""
        if self._service is not None:
            self._service.pause_reading()

    def resume_writing(self) -> None:
        """Let the service go on."""
        if self._service is not None:
            self._service.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection to the service."""
        if self._timer is not None:
            self._timer.cancel()
        self._valve.remove(self)
        if self._service is not None:
            self._service.close()

    @property
    def is_passed_on(self) -> bool:
        """Return whether the service has taken the connection."""
        return self._service is not None

    def credit(self, size: int) -> None:
        """Let so many more bytes be passed on: a call has brought as many."""
        self._credit += size
        if (over := self._credit - _CREDIT_KEPT) > 0:
            self._credit = _CREDIT_KEPT
            self._bucket.take(-over)
        self._read_on()

    def share(self, bucket: _Bucket) -> None:
        """Have a pace together with other connections of a holder."""
        self._bucket = bucket
        self._read_on()

    def end(self) -> None:
        """End the connection at once; what was not passed on is discarded."""
        self._transport.abort()
        if self._service is not None:
            self._service.abort()

    def send(self, data: bytes) -> None:
        """Send the caller what the service says."""
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection when all is sent that the service has said."""
        self._transport.close()

    def hold(self, full: bool) -> None:
        """Read no more while the service takes no more."""
        self._full = full
        self._read_on()

    def _allowed(self) -> int:
        return self._credit + self._bucket.level()

    def _read_on(self) -> None:
        """Read, or pause until as much may be passed on as is worth it."""
        if self._transport.is_closing():
            return
        waits = self._service is None and bool(self._held)
        self._short = self._allowed() < (_LEAST if self._short else 1)
        stop = waits or self._full or self._short
        if stop != self._paused:
            self._paused = stop
            (self._transport.pause_reading if stop else self._transport.resume_reading)()
        if self._timer is None and self._short and not waits:
            # A pool may be emptied by another connection until then.
            wait_s = max(0.005, self._bucket.wait_s(_LEAST - self._credit))
            self._timer = self._loop.call_later(wait_s, self._look)

    def _look(self) -> None:
        self._timer = None
        self._read_on()

    async def _connect(self) -> None:
        """Connect to the service, and pass on what has come."""
        passage = self._valve.passages[self]
        while not self._transport.is_closing():
            with suppress(OSError):
                connection = self._valve.dial(passage)
                service, _ = await self._loop.create_unix_connection(
                    lambda: _Service(self), sock=connection
                )
                break
            if self._valve.refuses:
                self._transport.abort()
            await asyncio.sleep(_AGAIN_S)
        else:
            return
        if self._transport.is_closing():
            service.abort()
            return
        self._service = service
        service.write(bytes(self._held))
        self._held.clear()
        self._read_on()


class _Service(asyncio.Protocol):
    """The service's end of a connection."""

    def __init__(self, caller: _Caller) -> None:
        self._caller = caller

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        self._caller.send(data)

    def pause_writing(self) -> None:
        """Let the caller wait for the service."""
        self._caller.hold(True)

    def resume_writing(self) -> None:
        """Let the caller go on."""
        self._caller.hold(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the caller's connection."""
        self._caller.close()


class _Holder:
    """Connections of the holder of a certificate, and what they may send together."""

    def __init__(self, pace: Pace, settled: Pace, clock: Callable[[], float]) -> None:
        self.callers: set[_Caller] = set()
        self.early = _Bucket(pace, clock)
        self.settled = _Bucket(settled, clock)


class Valve(asyncio.Protocol):
    """Connections of a valve, and its talk with the service."""

    def __init__(self, inner: str, settings: ValveSettings) -> None:
        self.loop = asyncio.get_running_loop()
        self.server: asyncio.Server
        self.settings = settings
        self.room = memoryview(bytearray(_CHUNK))
        self.refuses = False
        self.changed: set[_Caller] = set()
        self.passages: dict[_Caller, Passage] = {}
        self._inner = inner
        self._numbers = count(time.monotonic_ns())  # never again
        self._callers: dict[int, _Caller] = {}
        self._holders: dict[tuple[bool, int], _Holder] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reports = bytearray()
        self._waiting = b""
        self._control: asyncio.Transport

    def add(self, caller: _Caller, address: IpAddress, port: int) -> bool:
        """Take a connection up; False: there are as many as there may be, or none is accepted."""
        if self.refuses or len(self._callers) >= self.settings.connections:
            return False
        passage = Passage(next(self._numbers), address, port)
        self.passages[caller] = passage
        self._callers[passage.number] = caller
        packed = address.packed
        if isinstance(address, IPv4Address):
            packed = IPv6Address(f"::ffff:{address}").packed
        self._reports += REPORT.pack(OPENED, passage.number, 0, packed, port)
        return True

    def remove(self, caller: _Caller) -> None:
        """Forget a connection."""
        passage = self.passages.pop(caller, None)
        if passage is None:
            return
        del self._callers[passage.number]
        self.changed.discard(caller)
        self._leave(caller)
        self._reports += REPORT.pack(GONE, passage.number, caller.received, bytes(16), 0)

    def dial(self, passage: Passage) -> socket.socket:
        """Connect to the service by a socket with the passage's name; raises OSError."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            connection.bind(passage.name)
            connection.connect(self._inner)
        except OSError:
            connection.close()
            raise
        finally:
            Path(passage.name).unlink(missing_ok=True)
        return connection

    def work(self, coroutine: Any) -> None:
        """Run a coroutine beside all others."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Talk with the service."""
        self._control = cast(asyncio.Transport, transport)
        self._control.write(READY)
        self._tell()
        self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the process: the service has gone."""
        os._exit(0)

    def data_received(self, data: bytes) -> None:
        """Do what the service says; what it says of a connection that has gone is nothing."""
        data = self._waiting + data
        whole = len(data) - len(data) % COMMAND.size
        self._waiting = data[whole:]
        for kind, number, value in COMMAND.iter_unpack(data[:whole]):
            if kind == REFUSE:
                self._refuse()
            caller = self._callers.get(number)
            if caller is None:
                continue
            if kind == CREDIT:
                caller.credit(value)
            elif kind == END:
                caller.end()
            else:
                self._prove(caller, (kind == GATEWAY, value))

    def _refuse(self) -> None:
        """Accept no more connections; those that the service has taken go on."""
        self.refuses = True
        self.server.close()
        for caller in list(self._callers.values()):
            if not caller.is_passed_on:
                caller.end()

    def _prove(self, caller: _Caller, holder: tuple[bool, int]) -> None:
        if caller.holder == holder:
            return
        self._leave(caller)
        if holder not in self._holders:
            paces = self.settings.paces
            pace = paces.gateway if holder[0] else paces.device
            self._holders[holder] = _Holder(pace, paces.settled, self.loop.time)
        found = self._holders[holder]
        found.callers.add(caller)
        caller.holder = holder
        caller.share(found.early)
        self.loop.call_later(self.settings.settled_s + _MARGIN_S, self._settle, caller, holder)

    def _settle(self, caller: _Caller, holder: tuple[bool, int]) -> None:
        """Let a connection that is still open have the pace of those that keep gRPC's limits."""
        if caller.holder == holder and caller in self.passages:
            caller.share(self._holders[holder].settled)

    def _leave(self, caller: _Caller) -> None:
        if caller.holder is not None:
            self._holders[caller.holder].callers.discard(caller)

    def _forget(self) -> None:
        """Forget holders without a connection, once they would be as new ones."""
        self._holders = {
            holder: found
            for holder, found in self._holders.items()
            if found.callers or not found.early.full
        }
        self.loop.call_later(_FORGET_EVERY_S, self._forget)

    def _tell(self) -> None:
        """Report what has changed."""
        for caller in self.changed:
            number = self.passages[caller].number
            self._reports += REPORT.pack(RECEIVED, number, caller.received, bytes(16), 0)
        self.changed.clear()
        if self._reports:
            self._control.write(bytes(self._reports))
            self._reports.clear()
        self.loop.call_later(_REPORT_EVERY_S, self._tell)


async def serve(
    listening: socket.socket, control: socket.socket, inner: Path, settings: ValveSettings
) -> None:
    """Pass connections on until the service ends."""
    loop = asyncio.get_running_loop()
    os.chdir(inner.parent)  # the path of a socket has a hundred bytes: names alone fit anywhere
    valve = Valve(inner.name, settings)
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
    if sys.platform.startswith("linux"):  # as gRPC does for its own
        unread_ms = round(settings.unread_s * 1_000)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)
    # asyncio listens anew, by default with a backlog of 100: many call at once after a restart.
    valve.server = await loop.create_server(
        lambda: _Caller(valve), sock=listening, backlog=socket.SOMAXCONN
    )
    await loop.create_unix_connection(lambda: valve, sock=control)
    await loop.create_future()  # its control's end ends the process


def main() -> int:
    """Run; return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the service, which has them too, ends it
    listening, control, inner, text = sys.argv[1:]
    settings = ValveSettings.of_text(text)
    allow_descriptors(2 * settings.connections + _OTHER_DESCRIPTORS)
    here, there = (socket.socket(fileno=int(one)) for one in (listening, control))
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(here, there, Path(inner), settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
