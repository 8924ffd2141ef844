"""The standard health service (`grpc.health.v1`), for monitoring from outside.

Every peer that reaches the port may ask; so the state kept per peer is bounded, and no peer
waits for one of them: a watcher that does not read keeps neither the others nor the aggregator
from going on. (The package's own servicer writes to a watcher under the lock that a change needs.)
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health_pb2

from askance_aggregator.server.devices import PeerLimits, Peers
from askance_aggregator.server.devices.calls import (
    CallStatus,
    Context,
    caller_of,
    read_message,
    served,
)
from askance_aggregator.server.devices.peers import Overloaded
from askance_aggregator.server.outer.pass_through import HEALTH_SERVICES
from askance_client.errors import AskanceError, RemoteProtocolError

MAX_WATCHERS = 64
MAX_REQUEST_BYTES = 256  # a service's name; kept for as long as a call watches it
# Callers need no identity here, so their messages (1 MiB at most) are few at one time.
READING = PeerLimits(calls=32, calls_per_address=8)
_MESSAGE_S = 2.0
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_Answer = health_pb2.HealthCheckResponse


class Health:
    """State of the health service; for use in the service's event loop."""

    def __init__(self) -> None:
        self._status = dict.fromkeys(HEALTH_SERVICES, _Answer.NOT_SERVING)
        self._changed = asyncio.Event()  # another one after every change
        self._watchers = 0
        self._peers = Peers(READING)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = False
        self._failing = False
        self._over = False

    def add_to(self, server: aio.Server) -> None:
        """Register the service, before the server starts, in its event loop."""
        self._loop = asyncio.get_running_loop()
        handler = grpc.method_handlers_generic_handler(
            _HEALTH,
            {"Check": served(self._check, _refused), "Watch": served(self._watch, _refused)},
        )
        server.add_generic_rpc_handlers((handler,))

    @property
    def is_serving(self) -> bool:
        """True while the service says SERVING; for any thread."""
        return self._ready and not self._failing and not self._over

    async def serving(self) -> None:
        """Every service is there, unless it fails or is going down already."""
        self._ready = True
        self._show()

    def failing(self, failing: bool) -> None:
        """Take every service out, or back in, while the machine fails."""
        self._failing = failing
        self._show()

    def failing_soon(self, failing: bool) -> None:
        """Call `failing` in the event loop; for any thread."""
        if self._loop is None:
            self._failing = failing
            return
        with suppress(RuntimeError):  # a closed loop answers no call
            self._loop.call_soon_threadsafe(self.failing, failing)

    async def going_down(self) -> None:
        """None is any more, for good."""
        self._over = True
        self._show()

    def _show(self) -> None:
        status = _Answer.SERVING if self.is_serving else _Answer.NOT_SERVING
        if set(self._status.values()) == {status}:
            return
        self._status = dict.fromkeys(HEALTH_SERVICES, status)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _check(self, context: Context) -> None:
        status = self._status.get(await self._asked(context))
        if status is None:
            raise _UnknownService("expected a service that is here")
        await context.write(_Answer(status=status).SerializeToString())

    async def _watch(self, context: Context) -> None:
        name = await self._asked(context)
        if self._watchers >= MAX_WATCHERS:
            raise Overloaded(f"expected at most {MAX_WATCHERS} who watch at one time")
        self._watchers += 1
        try:
            told = None
            while True:
                changed, status = self._changed, self._status.get(name, _Answer.SERVICE_UNKNOWN)
                if status != told:
                    await context.write(_Answer(status=status).SerializeToString())
                    told = status
                await changed.wait()
        finally:
            self._watchers -= 1

    async def _asked(self, context: Context) -> str:
        """Read the name of the service that a caller asks about."""
        with self._peers.unproven(caller_of(context)):
            data = await read_message(context, _MESSAGE_S)
        request = health_pb2.HealthCheckRequest()
        try:
            if len(data) > MAX_REQUEST_BYTES:
                raise DecodeError
            request.ParseFromString(data)
        except DecodeError:
            raise RemoteProtocolError("expected a HealthCheckRequest, found other bytes") from None
        return str(request.service)


class _UnknownService(AskanceError):
    """No service of that name is served."""


_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (RemoteProtocolError, grpc.StatusCode.INVALID_ARGUMENT),
    (_UnknownService, grpc.StatusCode.NOT_FOUND),
)


def _refused(error: Exception) -> CallStatus:
    """Return the status that a call ends with."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return CallStatus(code, str(error))
    return CallStatus(grpc.StatusCode.INTERNAL, "internal error")
