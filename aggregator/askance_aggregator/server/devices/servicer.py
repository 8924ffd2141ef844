"""The calls that a device makes, over raw bytes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable

import grpc

from askance_aggregator.server.devices.admission import Admission, EnrolmentVerifier, check_protocol
from askance_aggregator.server.devices.calls import CallStatus, Context, read_message, served
from askance_aggregator.server.devices.connections import Ack, Connection, next_message
from askance_aggregator.server.devices.hub import Hub
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.devices.peers import Overloaded
from askance_aggregator.server.devices.settings import Settings
from askance_aggregator.server.devices.statuses import status_of
from askance_aggregator.store import EnrolmentRefused
from askance_client.errors import AskanceError
from askance_client.service import (
    SERVICE,
    CheckIn,
    Response,
    accepted_metadata,
    decode_check_in,
    decode_enrol,
    encode_enrolled,
    encode_response,
    protocol_of,
    read_credentials,
    read_enrolment,
    retry_metadata,
)

_LOGGER = logging.getLogger(__name__)
_PEERS_FAULT = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED)
# Streams of a device, and check-ins of one: a new call while the network has not noticed that the
# old one is gone. A check-in without a message is held for some seconds.
_CALLS_PER_DEVICE = 4


class DevicesServicer:
    """Serve the Devices service for one hub.

    Args:
      jitter: from a bound, a whole number drawn uniformly from 0 to it; spreads check-ins.
      observer: is called at every event.
      enrolment: verifies enrolment tokens; None: no enrolment over the network.
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
        self._streams_of: Counter[int] = Counter()  # by device
        self._check_ins = 0
        self._check_ins_of: Counter[int] = Counter()  # by device
        # Not gRPC's own limit on concurrent calls, which the asyncio server does not always keep.
        self._at_work = asyncio.Semaphore(settings.max_check_ins)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler by which a server routes calls.

        Messages pass as bytes, without serializers.
        """
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Enrol": served(self.enrol, self.refused),
                "CheckIn": served(self.check_in, self.refused),
                "Participate": served(self.participate, self.refused),
            },
        )
        return handler

    async def enrol(self, context: Context) -> None:
        """Serve Enrol: devices become known."""
        metadata = context.invocation_metadata()
        check_protocol(protocol_of(metadata))
        if self._enrolment is None:
            raise EnrolmentRefused("enrolment: expected devices that are enrolled already")
        token_id, limit = self._enrolment.verify(read_enrolment(metadata))
        message = decode_enrol(await read_message(context, self._settings.first_message_s))
        async with self._at_work:
            enrolled = await self._admission.enrol(message.devices, token_id, limit)
        await context.write(encode_enrolled(enrolled.new, enrolled.known))

    async def check_in(self, context: Context) -> None:
        """Serve CheckIn: reports in; acknowledgements and requests out."""
        began = time.perf_counter()
        ordinal = await self._caller(context)
        if self._check_ins >= 2 * self._settings.max_check_ins:
            raise Overloaded("expected fewer check-ins at one time")
        if self._check_ins_of[ordinal] >= _CALLS_PER_DEVICE:
            raise Overloaded(f"expected at most {_CALLS_PER_DEVICE} check-ins per device")
        self._check_ins += 1
        self._check_ins_of[ordinal] += 1
        try:
            message = decode_check_in(await read_message(context, self._settings.first_message_s))
            async with self._at_work:
                response = await self._answer(ordinal, message)
        finally:
            self._check_ins -= 1
            self._check_ins_of[ordinal] -= 1
            if not self._check_ins_of[ordinal]:
                del self._check_ins_of[ordinal]
        await context.write(response)
        self._observer.checked_in(time.perf_counter() - began)

    async def participate(self, context: Context) -> None:
        """Serve Participate: the same, held open."""
        ordinal = await self._caller(context)
        if self._streams >= self._settings.max_streams:
            raise Overloaded(f"expected at most {self._settings.max_streams} devices connected")
        if self._streams_of[ordinal] >= _CALLS_PER_DEVICE:
            raise Overloaded(f"expected at most {_CALLS_PER_DEVICE} streams per device")
        await context.send_initial_metadata(accepted_metadata())
        self._streams += 1
        self._streams_of[ordinal] += 1
        self._observer.stream_opened()
        try:
            await self._participate(ordinal, context)
        finally:
            self._streams -= 1
            self._streams_of[ordinal] -= 1
            if not self._streams_of[ordinal]:
                del self._streams_of[ordinal]
            self._observer.stream_closed()

    async def _caller(self, context: Context) -> int:
        """Return the ordinal of the device that calls, from the call's metadata alone."""
        credentials = read_credentials(context.invocation_metadata())
        return await self._admission.ordinal(credentials, context.peer())

    async def _answer(self, ordinal: int, message: CheckIn) -> bytes:
        acks = tuple(await self._deliver(ordinal, message))
        acknowledged = await self._hub.acknowledged_sequence(ordinal)
        parts = deque(self._hub.owed(ordinal, set(message.known_studies)))
        every = self._settings.check_in_every_ms
        wait_ms = every // 2 + self._jitter(every)
        first = Response(acks=acks, retry_after_ms=wait_ms, acknowledged_sequence=acknowledged)
        parts.appendleft(encode_response(first))
        return next_message(parts)

    async def _participate(self, ordinal: int, context: Context) -> None:
        message = decode_check_in(await read_message(context, self._settings.first_message_s))
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
                self._hub.acknowledge(connection, await self._deliver(ordinal, message))
                await connection.flushed()
        finally:
            self._hub.disconnect(connection)
            await connection.last_written()

    async def _deliver(self, ordinal: int, message: CheckIn) -> list[Ack]:
        """Deliver a message's reports together."""
        return await self._hub.deliver(ordinal, message.reports) if message.reports else []

    def refused(self, error: Exception) -> CallStatus:
        """Return the status that a call ends with, from the table; count and log it."""
        code, details = status_of(error)
        self._observer.call_refused(code)
        if code in _PEERS_FAULT:
            self._observer.peer_refused(code.name.lower().replace("_", "-"))
        if code is grpc.StatusCode.INTERNAL:
            _LOGGER.error("a call failed", exc_info=error)
        elif not isinstance(error, AskanceError | TimeoutError):
            _LOGGER.warning("a call was refused", exc_info=error)
        if not isinstance(error, Overloaded):
            return CallStatus(code, details)
        retry_ms = self._settings.retry_ms + self._jitter(self._settings.retry_ms)
        return CallStatus(code, details, retry_metadata(retry_ms))
