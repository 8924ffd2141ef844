"""Calls that are passed on to the aggregator: bytes in, bytes out, with the caller's address.

Nothing is decided here but which methods there are, and how many calls at one time. Health is
answered from one watch of the aggregator's, so that callers who ask for it cost it nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health_pb2

from askance_aggregator.server.outer.addresses import CONNECT_KEY, FORWARDED_KEY
from askance_aggregator.server.outer.held import Held

ENROL, CERTIFY = "/askance.v1.Devices/Enrol", "/askance.v1.Devices/Certify"
CHECK_IN = "/askance.v1.Devices/CheckIn"
HEALTH_SERVICES = ("", "askance.v1.Devices", "askance.v1.Analysts")
"""Services whose health is told; they are in service together."""

MAX_CALLS = 1_024  # passed on at one time
MAX_REQUEST_BYTES = 1024 * 1024  # as the aggregator's own limit
MAX_ANSWER_BYTES = 160 * 1024 * 1024  # likewise; an export of a result of 2^20 cells is 112 MB
MAX_UNREAD_CALLS = 256  # of one caller, answers of which it does not read; a quarter of all
MAX_UNREAD_BYTES = 16 * 1024 * 1024  # likewise; or one answer
STREAMS = 16  # per connection
_DEVICES = frozenset({"CheckIn", "Participate", "Relay"})
_STREAMS = frozenset(f"/askance.v1.Devices/{name}" for name in ("Participate", "Relay"))
_KNOWN = _DEVICES | {"Enrol", "Certify"}  # the last two by HTTP/2 for earlier versions of devices
_SERVICES = ("askance.v1.Analysts", "askance.v1.Operators", "askance.v1.Devices")
_HEALTH_CHECK = "/grpc.health.v1.Health/Check"
_AGAIN_S = 1.0
_MESSAGE_S = 20.0  # for the one message of a call
CALL_S = 60.0  # of a call of a device
_FOREVER_MS = 2**31 - 1  # how gRPC writes no limit
ACCEPTED_KEY = "askance-protocol"
"""In the initial metadata of a call whose caller the aggregator knows."""
_Health = health_pb2.HealthCheckResponse

OUT_OF_MEMORY = 71
"""Exit code of a process that has reached its limit on memory."""

Metadata = tuple[tuple[str, str | bytes], ...]
Resolve = Callable[[str, Iterable[str]], str]
"""From a connection's name and what it forwards, the address of its caller."""


class PassThrough(grpc.GenericRpcHandler):
    """Handler of every method that is passed on: of analysts, and with `devices` of those too."""

    def __init__(self, inner: aio.Channel, caller: Resolve, *, devices: bool) -> None:
        self.devices = devices
        self._inner = inner
        self._caller = caller
        self._calls = 0
        self._open: set[Any] = set()
        self._ending = False
        self._unread_calls: Held[bytes] = Held()
        self._unread_bytes: Held[bytes] = Held()
        self._health = _Health.NOT_SERVING
        self.health_known = asyncio.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method; None: it is not served."""
        method = str(handler_call_details.method)
        if method == _HEALTH_CHECK:
            return grpc.unary_unary_rpc_method_handler(self._check_health)
        _, service, name = (*method.split("/"), "", "")[:3]
        if service == "askance.v1.Devices" and name in _DEVICES and not self.devices:
            return grpc.stream_stream_rpc_method_handler(_refuse_device)
        if service not in _SERVICES or (service == "askance.v1.Devices" and name not in _KNOWN):
            return None

        async def serve(_: object, context: Any) -> None:
            try:
                await self._serve(method, context)
            except MemoryError:
                end_without_memory()

        return grpc.stream_stream_rpc_method_handler(serve)

    async def call(
        self, method: str, message: bytes, metadata: Metadata, address: str
    ) -> tuple[str, str, bytes, Metadata]:
        """Make a unary call of a device; return status, details, answer and trailing metadata."""
        if self._calls >= MAX_CALLS:
            return "RESOURCE_EXHAUSTED", _TOO_MANY, b"", ()
        self._calls += 1
        passed = (*metadata, (FORWARDED_KEY, address))
        try:
            called: Any = self._inner.unary_unary(method)
            data: bytes = await called(message, metadata=passed, timeout=CALL_S)
        except aio.AioRpcError as error:
            trailing = tuple(error.trailing_metadata() or ())
            return error.code().name, error.details() or "no reason given", b"", trailing
        finally:
            self._calls -= 1
        return "OK", "", data, ()

    async def call_once_known(
        self,
        method: str,
        metadata: Metadata,
        address: str,
        body: Callable[[], Awaitable[bytes]],
        within_s: float,
    ) -> tuple[str, str, bytes, Metadata]:
        """Make a call whose message is read once the aggregator knows the caller.

        Returns as `call`. What `body` raises ends the call; `within_s` is for the whole call.
        """
        if self._calls >= MAX_CALLS:
            return "RESOURCE_EXHAUSTED", _TOO_MANY, b"", ()
        self._calls += 1
        passed = (*metadata, (FORWARDED_KEY, address), (CONNECT_KEY, "1"))
        opened: Any = self._inner.stream_stream(method)
        call = opened(metadata=passed, timeout=within_s)
        self._open.add(call)
        try:
            data = await _once_known(call, body)
            code, trailing = await call.code(), tuple(await call.trailing_metadata() or ())
            if code is grpc.StatusCode.OK and data is not None:
                return "OK", "", data, ()
            return code.name, await call.details() or "no reason given", b"", trailing
        finally:
            self._open.discard(call)
            self._calls -= 1
            call.cancel()

    async def watch_health(self) -> None:
        """Follow the aggregator's health until cancelled."""
        method = "/grpc.health.v1.Health/Watch"
        while True:
            with suppress(aio.AioRpcError, DecodeError):
                called: Any = self._inner.unary_stream(method)
                call = called(b"", wait_for_ready=True)
                while isinstance(data := await call.read(), bytes):
                    self._health = _Health.FromString(data).status
                    self.health_known.set()
            self._health = _Health.NOT_SERVING
            await asyncio.sleep(_AGAIN_S)

    async def _check_health(self, data: bytes, context: Any) -> bytes:
        try:
            name = health_pb2.HealthCheckRequest.FromString(data).service
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "expected a HealthCheckRequest")
        if name not in HEALTH_SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "expected a service that is here")
        return bytes(_Health(status=self._health).SerializeToString())

    async def _serve(self, method: str, context: Any) -> None:
        if self._calls >= MAX_CALLS:
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            context.set_details(_TOO_MANY)
            return
        self._calls += 1
        try:
            await self._pass(method, context)
        finally:
            self._calls -= 1

    async def _pass(self, method: str, context: Any) -> None:
        given = tuple(context.invocation_metadata() or ())
        forwarded = [str(value) for key, value in given if key == FORWARDED_KEY]
        address = self._caller(context.peer(), forwarded)
        metadata = (*_passed(given), (FORWARDED_KEY, address))
        left_s = context.time_remaining()
        if method in _STREAMS:
            call: Any = self._inner.stream_stream(method)(metadata=metadata, timeout=left_s)
        else:  # with its one message: a write to a call that is refused would lose the status
            try:
                async with asyncio.timeout(_MESSAGE_S):
                    data = await context.read()
            except TimeoutError:
                data = None
            if not isinstance(data, bytes):
                context.set_code(grpc.StatusCode.DEADLINE_EXCEEDED)
                context.set_details(f"call: expected a message within {_MESSAGE_S:g} s, got none")
                return
            called: Any = self._inner.unary_stream(method)
            call = called(data, metadata=metadata, timeout=left_s)
        self._open.add(call)
        try:
            write = partial(self._write, context, _credential(given))
            await _answer(call, context, write, sends=method in _STREAMS)
        except asyncio.CancelledError:
            if not self._ending:
                raise
            context.set_code(grpc.StatusCode.UNAVAILABLE)
        finally:
            self._open.discard(call)
            call.cancel()

    def end_calls(self) -> None:
        """End the calls that are open; of one that ends with its server gRPC writes a trace."""
        self._ending = True
        for call in self._open:
            call.cancel()

    async def _write(self, context: Any, who: bytes, data: bytes) -> None:
        """Pass an answer on; the aggregator has checked the caller, and counts it no longer."""
        held = self._unread_bytes.of(who)
        if self._unread_calls.of(who) >= MAX_UNREAD_CALLS or (
            held and held + len(data) > MAX_UNREAD_BYTES
        ):
            raise _Unread
        with self._unread_calls.hold(who), self._unread_bytes.hold(who, len(data)):
            await context.write(data)


class _Unread(Exception):
    """Caller that reads too little of what it is sent."""


def _credential(given: Metadata) -> bytes:
    """Return what a caller proves itself by: its key, its token or its device's id."""
    for key, value in given:
        if key == "askance-call-bin":
            return bytes(value[:34])  # type: ignore[arg-type]  # bytes: the field public_key
        if key in ("authorization", "askance-device-bin"):
            return value if isinstance(value, bytes) else value.encode()
    return b""


async def _refuse_device(_: object, context: Any) -> None:
    context.set_code(grpc.StatusCode.UNAUTHENTICATED)
    context.set_details(
        "expected a device that shows a certificate, at the port for devices, got one without"
        " (askance-client of this version gets one by itself)"
    )


_TOO_MANY = "calls: expected fewer at one time"


def end_without_memory() -> None:
    """End the process now; the aggregator starts another one."""
    os._exit(OUT_OF_MEMORY)


def server_options(
    handshake_s: float,
    idle_s: float,
    age_s: float,
    *,
    settled_s: float | None = None,
    streams: int = STREAMS,
    request_bytes: int = MAX_REQUEST_BYTES,
) -> list[tuple[str, int]]:
    """The options of a gRPC server; by default of the one behind the listener."""
    return [
        ("grpc.max_receive_message_length", request_bytes),
        ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
        ("grpc.max_concurrent_streams", streams),
        # Or gRPC resets calls by chance as a connection comes near that number.
        ("grpc.http.overload_protection", 0),
        ("grpc.server_handshake_timeout_ms", _ms(handshake_s)),
        # gRPC's own limit on a header list (16 kB) binds a peer that has acknowledged it.
        ("grpc.http2.settings_timeout", _ms(handshake_s if settled_s is None else settled_s)),
        ("grpc.max_connection_idle_ms", _ms(idle_s)),
        ("grpc.max_connection_age_ms", _ms(age_s)),
        ("grpc.max_connection_age_grace_ms", _FOREVER_MS),
        # Windows grow with a connection's bandwidth otherwise, for unread messages as well.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        # A device behind a NAT pings once a minute; twice as often is still no abuse.
        ("grpc.http2.min_ping_interval_without_data_ms", 30_000),
    ]


def open_inner_channel(socket: str) -> aio.Channel:
    """Open a channel to the aggregator's Unix socket."""
    return aio.insecure_channel(
        f"unix:{socket}",
        options=[
            ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
            ("grpc.max_send_message_length", MAX_REQUEST_BYTES),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.default_authority", "localhost"),
        ],
    )


def _ms(seconds: float) -> int:
    return min(_FOREVER_MS, max(1, round(1000 * seconds)))


def _passed(given: Metadata) -> Metadata:
    """Return the metadata of a call that goes on: not what proxies, this process or gRPC set."""
    return tuple(
        (key, value)
        for key, value in given
        if key not in (FORWARDED_KEY, CONNECT_KEY, "user-agent") and not key.startswith("grpc-")
    )


async def _once_known(call: Any, body: Callable[[], Awaitable[bytes]]) -> bytes | None:
    """Give a call its message once its caller is known; return the answer, None without one."""
    if ACCEPTED_KEY not in dict(await call.initial_metadata() or ()):
        return None
    message = await body()
    with suppress(aio.AioRpcError, asyncio.InvalidStateError):  # its status says why it has ended
        await call.write(message)
        await call.done_writing()
        data = await call.read()
        return data if isinstance(data, bytes) else None
    return None


async def _send(read: Callable[[], Awaitable[object]], call: Any) -> None:
    """Pass a caller's messages on, and their end."""
    with suppress(aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
        while isinstance(data := await read(), bytes):
            await call.write(data)
        await call.done_writing()


async def _answer(
    call: Any, context: Any, write: Callable[[bytes], Awaitable[None]], *, sends: bool
) -> None:
    """Pass the aggregator's metadata, messages and status back."""
    # call: to the aggregator.
    # context: of the caller's call.
    # write: passes an answer on.
    # sends: whether more messages come from the caller: once it knows that it is accepted.
    sending: asyncio.Future[None] | None = None
    try:
        await context.send_initial_metadata(tuple(await call.initial_metadata()))
        if sends:
            sending = asyncio.ensure_future(_send(context.read, call))
        while isinstance(data := await call.read(), bytes):
            await write(data)
        trailing = await call.trailing_metadata()
    except _Unread:
        context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
        context.set_details("expected the caller to read its other answers first")
        trailing = (("askance-reason", "unread-answers"),)
    except aio.AioRpcError as error:
        context.set_code(error.code())
        context.set_details(error.details() or "")
        trailing = error.trailing_metadata()
    finally:
        if sending is not None:
            sending.cancel()
    context.set_trailing_metadata(tuple(trailing or ()))
