"""A network without sockets: a device's channel to whichever aggregator is running.

What passes is bytes, through the service's own calls; what goes wrong is chosen, one exchange at a
time: lost on the way there or back, delivered twice, or kept by the network for later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
from grpc import aio

from askance_aggregator.server.devices.calls import serving
from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_client.service import Identity, Metadata, Response, decode_response, device_metadata
from askance_simulation.disturbances import Fault

CUT = aio.AioRpcError(
    grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), "the network was cut"
)
_END = object()


ON_THE_WAY = (Fault.NONE, Fault.LOST_REQUEST, Fault.LOST_RESPONSE, Fault.TWICE, Fault.HELD)
"""What may become of an exchange with a network like this one."""


class MessageRecorder:
    """Sees whatever an aggregator says, whether it arrives or not."""

    def __init__(self) -> None:
        self.responses: list[tuple[int, Response]] = []
        self.statuses: set[grpc.StatusCode] = set()

    def says(self, ordinal: int, data: bytes) -> None:
        """The aggregator said this to a device."""
        self.responses.append((ordinal, decode_response(data)))


class Link:
    """Channel of one device (what `StreamRunner` uses of gRPC's).

    Args:
      ordinal: whose it is.
      identity: the device's.
      find: the running aggregator's calls; None: there is none.
      recorder: sees what the aggregator says.
    """

    def __init__(
        self,
        ordinal: int,
        identity: Identity,
        find: Callable[[], DevicesServicer | None],
        recorder: MessageRecorder,
    ) -> None:
        self.ordinal = ordinal
        self.faults: deque[Fault] = deque()
        self.held: list[bytes] = []
        self.messages = 0  # that the next stream carries before it is cut
        self.stream: Stream | None = None
        self._find = find
        self._identity = identity
        self._recorder = recorder

    def unary_unary(self, _: str) -> Any:
        """CheckIn."""
        return self._check_in

    def stream_stream(self, _: str) -> Any:
        """Participate."""
        return self._participate

    async def deliver(self, data: bytes) -> bytes:
        """Pass one exchange."""
        servicer = self._find()
        if servicer is None:
            raise CUT
        context = _Unary(data, device_metadata(self._identity))
        await serving(servicer.check_in, servicer.refused)(None, context)
        answer = context.answer
        if answer is None:
            self._recorder.statuses.add(context.status)
            raise aio.AioRpcError(context.status, aio.Metadata(), aio.Metadata(), context.details)
        if self._find() is not servicer:
            raise CUT  # who died while it worked says nothing
        self._recorder.says(self.ordinal, answer)
        return answer

    async def _check_in(self, data: bytes, timeout: float, metadata: Metadata) -> bytes:  # gRPC's
        fault = self.faults.popleft() if self.faults else Fault.NONE
        if fault is Fault.HELD:
            self.held.append(data)
        if fault in (Fault.HELD, Fault.LOST_REQUEST):
            raise CUT
        if fault is Fault.TWICE:
            await self.deliver(data)
        answer = await self.deliver(data)
        if fault is Fault.LOST_RESPONSE:
            raise CUT
        return answer

    def _participate(self, metadata: Metadata) -> Stream:
        self.stream = Stream(self.ordinal, self._find(), self.messages, self._recorder, metadata)
        return self.stream


class Stream:
    """Stream, seen from the device; it is cut after a number of messages, both ways together."""

    def __init__(
        self,
        ordinal: int,
        servicer: DevicesServicer | None,
        messages: int,
        recorder: MessageRecorder,
        metadata: Metadata,
    ) -> None:
        self._ordinal = ordinal
        self._left = messages
        self._up: asyncio.Queue[object] = asyncio.Queue()
        self._down: asyncio.Queue[bytes | aio.AioRpcError] = asyncio.Queue()
        self._recorder = recorder
        self.metadata = metadata
        self._accepted: asyncio.Future[Metadata] = asyncio.Future()
        self._over: aio.AioRpcError | None = None
        self._serving: asyncio.Future[None] | None = None
        if servicer is None:
            self.end(CUT)
        else:
            self._serving = asyncio.ensure_future(self._serve(servicer))

    async def initial_metadata(self) -> Metadata:
        """Wait until the aggregator accepts or refuses the stream."""
        return await self._accepted

    def accept(self, metadata: Metadata) -> None:
        """The aggregator accepts, or the stream ends without that."""
        if not self._accepted.done():
            self._accepted.set_result(metadata)

    async def write(self, data: bytes) -> None:
        """The device says something."""
        if self._over is not None:
            raise asyncio.InvalidStateError
        if self._pass():
            self._up.put_nowait(data)

    async def read(self) -> bytes:
        """Return the aggregator's next message."""
        found = await self._down.get()
        if isinstance(found, bytes):
            return found
        self._down.put_nowait(found)  # it stays so
        raise found

    def cancel(self) -> None:
        """The device hangs up."""
        self.end(CUT)

    def end(self, why: aio.AioRpcError) -> None:
        """Nothing passes any more."""
        if self._over is None:
            self._over = why
            self.accept(())
            self._up.put_nowait(_END)
            self._down.put_nowait(why)

    async def served(self) -> None:
        """Wait until the aggregator has released it."""
        if self._serving is not None:
            await asyncio.wait([self._serving])
            self._serving.result()

    async def _serve(self, servicer: DevicesServicer) -> None:
        try:
            await serving(servicer.participate, servicer.refused)(None, _Streaming(self))
        except aio.AbortError:
            return
        finally:
            self.end(CUT)

    def _pass(self) -> bool:
        self._left -= 1
        if self._left < 0:
            self.end(CUT)
        return self._left >= 0

    def hears(self, data: bytes) -> None:
        """The aggregator says something."""
        self._recorder.says(self._ordinal, data)
        if self._over is None and self._pass():
            self._down.put_nowait(data)

    async def sent(self) -> object:
        """Return the device's next message, for the aggregator."""
        return await self._up.get()

    def refused(self, code: grpc.StatusCode, details: str) -> None:
        """The aggregator ends it."""
        self._recorder.statuses.add(code)
        self.end(aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details))


class _Context:
    """Context of every call."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.status = grpc.StatusCode.OK
        self.details = ""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:4711"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def code(self) -> grpc.StatusCode:
        return self.status

    def set_code(self, code: grpc.StatusCode) -> None:
        self.status = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, _: Metadata) -> None:
        pass


class _Unary(_Context):
    """The context of a check-in."""

    def __init__(self, data: bytes, metadata: Metadata) -> None:
        super().__init__(metadata)
        self._data = data
        self.answer: bytes | None = None

    async def send_initial_metadata(self, _: Metadata) -> None:
        raise AssertionError("a check-in has no initial metadata")

    async def read(self) -> object:
        return self._data

    async def write(self, message: bytes) -> None:
        self.answer = message

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise AssertionError("a check-in is not aborted")


class _Streaming(_Context):
    """The context of a stream."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream.metadata)
        self._stream = stream

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        self._stream.accept(metadata)

    async def read(self) -> object:
        return await self._stream.sent()

    async def write(self, message: bytes) -> None:
        self._stream.hears(message)

    def set_details(self, details: str) -> None:
        self._stream.refused(self.status, details)

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self._stream.refused(code, details)
        raise aio.AbortError
