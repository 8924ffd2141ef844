"""The calls that a device makes, over raw bytes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import NoReturn, Protocol

import grpc
from grpc import aio

from askance.aggregator.service.admission import (
    Admission,
    EnrolmentVerifier,
    Overloaded,
    check_protocol,
)
from askance.aggregator.service.connections import Ack, Connection, next_message
from askance.aggregator.service.hub import Hub
from askance.aggregator.service.observer import SILENT, Observer
from askance.aggregator.service.settings import Settings
from askance.aggregator.service.statuses import status_of
from askance.aggregator.store import EnrolmentRefused
from askance.client.errors import AskanceError, RemoteProtocolError
from askance.client.service import (
    SERVICE,
    CheckIn,
    Response,
    decode_check_in,
    decode_enrol,
    encode_enrolled,
    encode_response,
)

_LOGGER = logging.getLogger(__name__)


class Context(Protocol):
    """What is used of gRPC's own context; at the end of a stream `read` returns no bytes object."""

    async def read(self) -> object: ...

    async def write(self, message: bytes) -> None: ...

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn: ...


class DevicesServicer:
    """Serves the Devices service for one hub.

    Args:
      jitter: from a bound, a whole number drawn uniformly from 0 to it; spreads check-ins.
      observer: told of what happens.
      enrolment: says what an enrolment token is worth; None: nobody is enrolled over the network.
    """

    def __init__(
        self,
        hub: Hub,
        admission: Admission,
        settings: Settings,
        jitter: Callable[[int], int],
        observer: Observer = SILENT,
        enrolment: EnrolmentVerifier | None = None,
    ) -> None:
        self._hub = hub
        self._observer = observer
        self._enrolment = enrolment
        self._admission = admission
        self._settings = settings
        self._jitter = jitter
        self._streams = 0
        self._check_ins = 0
        # Not gRPC's own limit on concurrent calls, which the asyncio server does not always keep.
        self._at_work = asyncio.Semaphore(settings.max_check_ins)

    def handler(self) -> grpc.GenericRpcHandler:
        """What a server routes calls by. Without serializers: messages are passed as bytes."""
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Enrol": grpc.unary_unary_rpc_method_handler(self.enrol),
                "CheckIn": grpc.unary_unary_rpc_method_handler(self.check_in),
                "Participate": grpc.stream_stream_rpc_method_handler(self.participate),
            },
        )
        return handler

    async def enrol(self, data: bytes, context: Context) -> bytes:
        """Enrol: devices become known."""
        try:
            return await self._enrol(data)
        except Exception as error:
            await self._abort(context, error)

    async def check_in(self, data: bytes, context: Context) -> bytes:
        """CheckIn: reports in; acknowledgements and requests out."""
        began = time.perf_counter()
        try:
            response = await self._check_in(data)
        except Exception as error:
            await self._abort(context, error)
        self._observer.checked_in(time.perf_counter() - began)
        return response

    async def participate(self, _: object, context: Context) -> None:
        """Participate: the same, held open."""
        try:
            if self._streams >= self._settings.max_streams:
                raise Overloaded(f"expected at most {self._settings.max_streams} devices connected")
            self._streams += 1
            self._observer.stream_opened()
            try:
                await self._participate(context)
            finally:
                self._streams -= 1
                self._observer.stream_closed()
        except aio.AbortError:
            raise
        except Exception as error:
            await self._abort(context, error)

    async def _check_in(self, data: bytes) -> bytes:
        if self._check_ins >= 2 * self._settings.max_check_ins:
            raise Overloaded("expected fewer check-ins at one time")
        self._check_ins += 1
        try:
            async with self._at_work:
                message = decode_check_in(data)
                ordinal = await self._admission.ordinal(message)
                acks = tuple(await self._deliver(ordinal, message))
                acknowledged = await self._hub.acknowledged_sequence(ordinal)
                parts = deque(self._hub.owed(ordinal, set(message.known_studies)))
        finally:
            self._check_ins -= 1
        every = self._settings.check_in_every_ms
        wait_ms = every // 2 + self._jitter(every)
        first = Response(acks=acks, retry_after_ms=wait_ms, acknowledged_sequence=acknowledged)
        parts.appendleft(encode_response(first))
        return next_message(parts)

    async def _participate(self, context: Context) -> None:
        async with asyncio.timeout(self._settings.first_message_s):
            data = await context.read()
        if not isinstance(data, bytes):
            return
        message = decode_check_in(data)
        ordinal = await self._admission.ordinal(message)
        acks = await self._deliver(ordinal, message)  # first: what is settled is not asked again
        known = set(message.known_studies)
        connection = Connection(ordinal, known, context.write, context.abort)
        connection.echo(await self._hub.acknowledged_sequence(ordinal))
        self._hub.connect(connection)
        try:
            connection.acknowledge(acks)
            connection.flush()
            while isinstance(data := await context.read(), bytes):
                message = decode_check_in(data)
                if message.device_id or message.token:
                    raise RemoteProtocolError("exchange: expected an identity in the first message")
                self._hub.acknowledge(connection, await self._deliver(ordinal, message))
                await connection.flushed()
        finally:
            self._hub.disconnect(connection)
            await connection.last_written()

    async def _deliver(self, ordinal: int, message: CheckIn) -> list[Ack]:
        """Delivers a message's reports together."""
        return await self._hub.deliver(ordinal, message.reports) if message.reports else []

    async def _enrol(self, data: bytes) -> bytes:
        message = decode_enrol(data)
        check_protocol(message.protocol)
        if self._enrolment is None:
            raise EnrolmentRefused("enrolment: expected devices that are enrolled already")
        token_id, limit = self._enrolment.verify(message.token)
        async with self._at_work:
            enrolled = await self._admission.enrol(message.devices, token_id, limit)
        return encode_enrolled(enrolled.new, enrolled.known)

    async def _abort(self, context: Context, error: Exception) -> NoReturn:
        """Ends a call with the status that the table has for an error."""
        code, details = status_of(error)
        self._observer.call_refused(code)
        if code is grpc.StatusCode.INTERNAL:
            _LOGGER.error("a call failed", exc_info=error)
        elif not isinstance(error, AskanceError | TimeoutError):
            _LOGGER.warning("a call was refused", exc_info=error)
        await context.abort(code, details)
