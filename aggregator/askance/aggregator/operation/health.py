"""The standard health service (`grpc.health.v1`), for those who watch from outside.

Anybody who reaches the port may ask, so that what is kept for those who ask is bounded, and nobody
waits for one of them: who watches and does not read keeps neither the others nor the aggregator
from going on. (The package's own servicer writes to a watcher under the lock that a change needs.)
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health_pb2

SERVICES = ("", "askance.protos.v1.Devices", "askance.protos.v1.Analysts")
MAX_WATCHERS = 64
MAX_REQUEST_BYTES = 256  # a service's name; it is kept for as long as somebody watches
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
_Answer = health_pb2.HealthCheckResponse


class Health:
    """What is answered; to be used in the service's event loop."""

    def __init__(self) -> None:
        self._status = dict.fromkeys(SERVICES, _Answer.NOT_SERVING)
        self._changed = asyncio.Event()  # another one after every change
        self._watchers = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = False
        self._failing = False
        self._over = False

    def add_to(self, server: aio.Server) -> None:
        """Registers the service, before the server starts, in its event loop."""
        self._loop = asyncio.get_running_loop()
        encode = _Answer.SerializeToString
        handler = grpc.method_handlers_generic_handler(
            _HEALTH,
            {
                "Check": grpc.unary_unary_rpc_method_handler(
                    self._check, response_serializer=encode
                ),
                "Watch": grpc.unary_stream_rpc_method_handler(
                    self._watch, response_serializer=encode
                ),
            },
        )
        server.add_generic_rpc_handlers((handler,))

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
        with suppress(RuntimeError):  # a loop that is closed answers nobody
            self._loop.call_soon_threadsafe(self.failing, failing)

    async def going_down(self) -> None:
        """None is any more, for good."""
        self._over = True
        self._show()

    def _show(self) -> None:
        serves = self._ready and not self._failing and not self._over
        status = _Answer.SERVING if serves else _Answer.NOT_SERVING
        if set(self._status.values()) == {status}:
            return
        self._status = dict.fromkeys(SERVICES, status)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _check(self, data: bytes, context: Any) -> Any:
        status = self._status.get(await _asked(data, context))
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "expected a service that is here")
        return _Answer(status=status)

    async def _watch(self, data: bytes, context: Any) -> None:
        name = await _asked(data, context)
        if self._watchers >= MAX_WATCHERS:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"expected at most {MAX_WATCHERS} who watch at one time",
            )
        self._watchers += 1
        try:
            told = None
            while True:
                changed, status = self._changed, self._status.get(name, _Answer.SERVICE_UNKNOWN)
                if status != told:
                    await context.write(_Answer(status=status))
                    told = status
                await changed.wait()
        finally:
            self._watchers -= 1


async def _asked(data: bytes, context: Any) -> str:
    """The service that is asked about; where there is none the call ends. gRPC's own parsing would
    call that UNKNOWN."""
    request = health_pb2.HealthCheckRequest()
    try:
        if len(data) > MAX_REQUEST_BYTES:
            raise DecodeError
        request.ParseFromString(data)
    except DecodeError:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, "expected a HealthCheckRequest, found other bytes"
        )
    return str(request.service)
