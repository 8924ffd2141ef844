"""Device under faults: its process dies and restarts, its messages are lost, doubled or delayed.

The connection is a real one; between it and the device's runtime stands a `DeviceConnection` that
applies to each exchange its fault. The ledger and the messages that the network has kept outlive
the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import grpc
from grpc import aio

from askance_client.device import Device
from askance_client.errors import StoreError
from askance_client.ledger import Ledger
from askance_client.service import SERVICE, Identity, decode_response, device_metadata
from askance_simulation.disturbances.faults import Fates, Fault, FaultRecorder
from askance_simulation.stream_runner import StreamRunner

T = TypeVar("T")

WRITES = frozenset(
    {"add_study", "open_round", "close_round", "append", "accept", "conclude", "commit"}
)
"""Durable operations of a store, a transcript and a ledger."""


class Life:
    """Lifetime of a process: until it is killed, or until one of its writes.

    A process that is dead reads and writes nothing; whatever waits for it gets an error.
    """

    def __init__(self) -> None:
        self.ended = False
        self._lock = threading.Lock()
        self._writes: int | None = None
        self._kept = False
        self._failing: dict[str, bool] = {}

    def end(self) -> None:
        """Kill the process now."""
        self.ended = True

    def end_at(self, writes: int, *, kept: bool) -> None:
        """Kill the process after that many writes, at the next, before or after it is durable."""
        self._writes, self._kept = writes, kept

    def fail_at(self, write: str, *, kept: bool) -> None:
        """Make the disk fail at the next write of this kind, before or after it is durable.

        The process lives on.
        """
        self._failing[write] = kept

    def do(self, name: str, work: Callable[[], T]) -> T:
        """Perform an operation of the process on something durable."""
        with self._lock:
            if self.ended:
                raise StoreError("the process is dead")
            if name in self._failing:
                if self._failing.pop(name):
                    work()
                raise StoreError("the disk failed")
            if name not in WRITES or self._writes is None:
                return work()
            self._writes -= 1
            if self._writes >= 0:
                return work()
            self.ended = True
            if self._kept:
                work()
            raise StoreError("the process died at a write")


class _Mortal:
    """Proxy that forwards all operations while the process lives."""

    def __init__(self, thing: Any, life: Life) -> None:
        self._thing, self._life = thing, life

    def __getattr__(self, name: str) -> Any:
        if not callable(operation := getattr(self._thing, name)):
            return self._life.do(name, lambda: getattr(self._thing, name))

        def alive(*arguments: Any, **named: Any) -> Any:
            found = self._life.do(name, lambda: operation(*arguments, **named))
            return _Mortal(found, self._life) if name == "log" else found

        return alive


def mortal(thing: T, life: Life) -> T:
    """Wrap a store, transcript or ledger for a process with this lifetime."""
    return cast(T, _Mortal(thing, life))


_SLOW_S = 0.05
_HURRY = 50  # factor by which waits between two tries are shorter than on a real device
_CALL_TIMEOUT_S = 60
_CUT = aio.AioRpcError(
    grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), "the network was cut"
)
_DYING = {Fault.DIES_BEFORE_COMMIT: False, Fault.DIES_AFTER_COMMIT: True}
_AT_ONCE = frozenset({Fault.LOST_REQUEST, Fault.TWICE, Fault.HELD, Fault.SLOW})

Boot = Callable[[int, Ledger], Device]


class DeviceConnection:
    """Connection of a device (what `StreamRunner` uses of gRPC's channel) through all its lives."""

    def __init__(
        self,
        ordinal: int,
        channel: aio.Channel,
        identity: Identity,
        fates: Fates,
        recorder: FaultRecorder,
    ) -> None:
        self.ordinal = ordinal
        self.recorder = recorder
        self.life = Life()
        self._channel = channel
        self._identity = identity
        self._fates = fates
        self._exchanges = 0
        self._cause = Fault.NONE
        self._held: list[bytes] = []

    def start(self) -> Life:
        """Start the device: a new life, which may end at the next commit."""
        self.life = Life()
        self._arm()
        return self.life

    def unary_unary(self, method: str) -> Any:
        """Return the CheckIn method; it has no faults."""
        return self._channel.unary_unary(method)

    def stream_stream(self, method: str) -> Callable[..., Stream]:
        """Return the Participate method, with faults."""
        dial: Callable[..., Any] = self._channel.stream_stream(method)
        return lambda metadata: Stream(dial(metadata=metadata), self)

    def next_fate(self) -> Fault:
        """Return the fault of the exchange that begins now."""
        fate = self._fates.fate(self.ordinal, self._exchanges)
        self._exchanges += 1
        self._arm()
        return fate

    def happens(self, fault: Fault) -> None:
        """Record that a fault takes effect."""
        self.recorder.happened[fault] += 1

    def kill(self, fault: Fault) -> StoreError:
        """Kill the process now."""
        self._cause = fault
        self.life.end()
        return StoreError("the process is dead")

    def died(self) -> None:
        """Record the death of the process, at a commit or by `kill`."""
        self.happens(self._cause)

    def keep(self, data: bytes) -> None:
        """Keep a message, for later delivery."""
        self._held.append(data)

    async def deliver_kept(self) -> None:
        """Deliver the kept messages, the latest first."""
        held, self._held = self._held, []
        for data in reversed(held):
            await self.deliver(data)

    async def deliver(self, data: bytes) -> None:
        """Deliver a message by itself; the device does not receive the reply."""
        metadata = device_metadata(self._identity)
        call: Any = self._channel.unary_unary(f"/{SERVICE}/CheckIn")
        with suppress(aio.AioRpcError):
            answer = await call(data, timeout=_CALL_TIMEOUT_S, metadata=metadata)
            self.recorder.heard(self.ordinal, decode_response(answer).acks)

    def _arm(self) -> None:
        """Arm the process's death at its next commit, if that is its next fault."""
        fate = self._fates.fate(self.ordinal, self._exchanges)
        if fate in _DYING:
            self._cause = fate
            self.life.end_at(0, kept=_DYING[fate])


class Stream:
    """Stream of a connection."""

    def __init__(self, call: Any, line: DeviceConnection) -> None:
        self._call = call
        self._line = line
        self._greeted = False
        self._awaiting = Fault.NONE

    async def initial_metadata(self) -> Any:
        """Wait until the aggregator accepts or refuses the stream."""
        return await self._call.initial_metadata()

    async def write(self, data: bytes) -> None:
        """Send the device's message, subject to its fault."""
        fate = self._line.next_fate()
        greeting, self._greeted = not self._greeted, True
        if fate in _AT_ONCE:
            self._line.happens(fate)
        if fate is Fault.SLOW:
            await asyncio.sleep(_SLOW_S)
        if fate is Fault.HELD:
            self._line.keep(data)
        if fate in (Fault.LOST_REQUEST, Fault.HELD):
            raise self._cut()
        await self._call.write(data)
        if fate is Fault.TWICE:
            await (self._line.deliver(data) if greeting else self._call.write(data))
        if fate in (Fault.LOST_RESPONSE, Fault.DIES_AFTER_SEND):
            self._awaiting = fate
        await self._line.deliver_kept()

    async def read(self) -> Any:
        """Receive the aggregator's next message."""
        data = await self._call.read()
        if isinstance(data, bytes):
            self._line.recorder.heard(self._line.ordinal, decode_response(data).acks)
            if self._awaiting is Fault.LOST_RESPONSE:
                self._line.happens(Fault.LOST_RESPONSE)
                raise self._cut()
            if self._awaiting is Fault.DIES_AFTER_SEND:
                raise self._line.kill(Fault.DIES_AFTER_SEND)
        return data

    def cancel(self) -> None:
        """Close the stream from the device's side."""
        self._call.cancel()

    def _cut(self) -> aio.AioRpcError:
        self._call.cancel()
        return _CUT


class Unlucky:
    """Device that runs under faults and restarts after each death."""

    def __init__(
        self, line: DeviceConnection, identity: Identity, boot: Boot, ledger: Ledger
    ) -> None:
        self._line = line
        self._identity = identity
        self._boot = boot
        self._ledger = ledger

    async def participate(self) -> None:
        """Hold a stream open for ever, through deaths and restarts."""
        while True:
            life = self._line.start()
            device = self._boot(self._line.ordinal, mortal(self._ledger, life))
            channel: Any = self._line
            runner = StreamRunner(device, self._identity, channel, sleep=_soon)
            try:
                await runner.participate()
            except StoreError:
                if not life.ended:
                    raise
                self._line.died()


async def _soon(milliseconds: float) -> None:
    await asyncio.sleep(milliseconds / 1000 / _HURRY)
