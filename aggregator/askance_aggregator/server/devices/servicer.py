"""The calls that a device makes, over raw bytes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

import grpc

from askance_aggregator.exchange import (
    decode_check_in,
    decode_enrol,
    encode_enrolled,
    encode_response,
)
from askance_aggregator.server.devices import calls
from askance_aggregator.server.devices.admission import (
    Admission,
    EnrolmentVerifier,
    Unauthenticated,
    UnsupportedProtocol,
    check_protocol,
)
from askance_aggregator.server.devices.certification import (
    CERTIFICATE_METHOD,
    TOKENS_ALONE,
    CallerProofs,
    Proof,
)
from askance_aggregator.server.devices.connection_guard import ConnectionGuard, FieldLimit, guarded
from askance_aggregator.server.devices.connections import Ack, Connection, next_message
from askance_aggregator.server.devices.credentials import (
    accepted_metadata,
    read_credentials,
    read_enrolment,
    retry_metadata,
)
from askance_aggregator.server.devices.gateways import Relay
from askance_aggregator.server.devices.hub import Hub
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.devices.peers import Overloaded
from askance_aggregator.server.devices.settings import Settings
from askance_aggregator.server.devices.standings import LAST_WORDS, Revoked
from askance_aggregator.server.outer.addresses import CONNECT_KEY
from askance_aggregator.server.outer.held import Held
from askance_aggregator.store import CertificateHolder, EnrolmentRefused
from askance_aggregator.store.register import StandingChanges
from askance_client.addresses import Address
from askance_client.errors import AskanceError, RemoteProtocolError, StoreError
from askance_client.service import SERVICE, CheckIn, Metadata, Response
from askance_client.service.credentials import TAKES_ADDRESS, protocol_of
from askance_client.service.exchange import ExchangeTooLarge
from askance_protos.v1 import exchange_pb2 as pb

# The first that fits; the caller gets the error's text only where `True`.
_STATUSES: tuple[tuple[type[Exception], grpc.StatusCode, bool], ...] = (
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED, True),
    (UnsupportedProtocol, grpc.StatusCode.FAILED_PRECONDITION, True),
    (Revoked, grpc.StatusCode.PERMISSION_DENIED, True),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED, True),
    (ExchangeTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED, True),
    (EnrolmentRefused, grpc.StatusCode.PERMISSION_DENIED, True),
    (RemoteProtocolError, grpc.StatusCode.INVALID_ARGUMENT, True),
    (StoreError, grpc.StatusCode.UNAVAILABLE, False),  # paths and disks are the operator's matter
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED, False),
)
_UNTOLD = {
    grpc.StatusCode.UNAVAILABLE: "nothing was acknowledged: deliver again later",
    grpc.StatusCode.DEADLINE_EXCEEDED: "expected a first message, found none in time",
    grpc.StatusCode.INTERNAL: "internal error: deliver again later",
}


def status_of(error: Exception) -> tuple[grpc.StatusCode, str]:
    """The gRPC status and its details for an error."""
    for kind, code, told in _STATUSES:
        if isinstance(error, kind):
            return code, str(error) if told else _UNTOLD[code]
    return grpc.StatusCode.INTERNAL, _UNTOLD[grpc.StatusCode.INTERNAL]


_LOGGER = logging.getLogger(__name__)
_PEERS_FAULT = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED)
# Streams of a device, and check-ins of one: a new call while the network has not noticed that the
# old one is gone. A check-in without a message is held for some seconds.
_CALLS_PER_DEVICE = 4
_SHORT = 1024  # bytes of a message that others are likely to send as well
_decoded = lru_cache(maxsize=1 << 12)(decode_check_in)


class DevicesServicer:
    """Serve the Devices service for one hub.

    Args:
      jitter: from a bound, a whole number drawn uniformly from 0 to it; spreads check-ins.
      enrolment: verifies enrolment tokens; None: no enrolment over the network.
      proofs: of callers, beside their tokens.
      guard: of the listener of devices with certificates; None: none.
    """

    def __init__(
        self,
        hub: Hub,
        admission: Admission,
        settings: Settings,
        jitter: Callable[[int], int],
        observer: Observer = SILENT,
        enrolment: EnrolmentVerifier | None = None,
        proofs: CallerProofs = TOKENS_ALONE,
        guard: ConnectionGuard | None = None,
    ) -> None:
        self._hub = hub
        self._observer = observer
        self._enrolment = enrolment
        self._admission = admission
        self._standings = admission.standings
        self._proofs = proofs
        self._guard = guard
        self._devices_address = pb.CertifyResponse()
        self._connect_every_ms = 0
        self._settings = settings
        self._jitter = jitter
        self._streams: Held[Hashable] = Held()  # by device or gateway
        self._relay = Relay(hub, admission, settings)
        self._check_ins: Held[int] = Held()
        # Not gRPC's own limit on concurrent calls, which the asyncio server does not always keep.
        self._at_work = asyncio.Semaphore(settings.max_check_ins)

    def change(self, settings: Settings) -> None:
        """Keep other limits from now on, but for the check-ins at one time; calls at work go on."""
        self._settings = replace(settings, max_check_ins=self._settings.max_check_ins)
        self._relay.change(self._settings)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler by which a server routes calls.

        Messages pass as bytes, without serializers.
        """
        return self._handler({**self._exchange, "Enrol": self.enrol})

    def certified_handler(self) -> grpc.GenericRpcHandler:
        """Return the handler of the listener on which every caller shows a certificate."""
        return self._handler({**self._exchange, CERTIFICATE_METHOD: self.certify})

    def inner_handler(
        self, port: int, advertised: Address | None, *, devices: bool, connect_every_ms: int = 0
    ) -> grpc.GenericRpcHandler:
        """Return the handler of calls that the outer process passes on.

        Args:
          port: of the listener of devices with certificates.
          advertised: where devices are told to call in place of it; None: at the host they know.
          devices: whether devices without a certificate are served.
          connect_every_ms: the shortest wait between two check-ins by Connect; 0: there are none.
        """
        self._connect_every_ms = connect_every_ms
        there = pb.CertifyResponse(port=port)
        if advertised is not None:  # a device of an earlier version knows the port alone
            there = pb.CertifyResponse(port=advertised.port, address=str(advertised))
        self._devices_address = there
        methods = {"Enrol": self.enrol, CERTIFICATE_METHOD: self.certify}
        if connect_every_ms:
            methods["CheckIn"] = self.check_in
        return self._handler({**self._exchange, **methods} if devices else methods)

    @property
    def _exchange(self) -> dict[str, calls.Method]:
        return {"CheckIn": self.check_in, "Participate": self.participate, "Relay": self.relay}

    def _handler(self, methods: Mapping[str, calls.Method]) -> grpc.GenericRpcHandler:
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: calls.served(self._guarded(method), self.refused)
                for name, method in methods.items()
            },
        )
        return handler if self._guard is None else FieldLimit(handler, self._guard)

    def _guarded(self, method: calls.Method) -> calls.Method:
        return method if self._guard is None else guarded(method, self._guard)

    def _note(self, context: calls.Context, holder: CertificateHolder) -> None:
        """Note that a call's caller is proven."""
        if self._guard is not None:
            self._guard.prove(context.peer(), holder)

    async def enrol(self, context: calls.Context) -> None:
        """Serve Enrol: devices become known."""
        metadata = context.invocation_metadata()
        check_protocol(protocol_of(metadata))
        if self._enrolment is None:
            raise EnrolmentRefused("enrolment: expected devices that are enrolled already")
        token_id, limit = self._enrolment.verify(read_enrolment(metadata))
        await _accept(context)
        message = decode_enrol(await calls.read_message(context, self._settings.first_message_s))
        async with self._at_work:
            enrolled = await self._admission.enrol(message, token_id, limit)
        await context.write(encode_enrolled(enrolled.new, enrolled.known))

    async def certify(self, context: calls.Context) -> None:
        """Serve Certify: a certificate for a device or gateway that its own token proves."""
        metadata = context.invocation_metadata()
        credentials = read_credentials(metadata)
        caller = await self._admission.relay_caller(credentials, calls.caller_of(context))
        holder = CertificateHolder(caller.gateway, caller.ordinal)
        data = await calls.read_message(context, self._settings.first_message_s)
        async with self._at_work:
            answer = await self._proofs.issue(data, holder)
        answer.MergeFrom(self._devices_address)
        if TAKES_ADDRESS not in (metadata or ()):
            answer.ClearField("address")
        await context.write(answer.SerializeToString(deterministic=True))

    async def check_in(self, context: calls.Context) -> None:
        """Serve CheckIn: reports in; acknowledgements and requests out."""
        began = time.perf_counter()
        ordinal, _ = await self._caller(context)
        if self._check_ins.total >= 2 * self._settings.max_check_ins:
            raise Overloaded("expected fewer check-ins at one time")
        if self._check_ins.of(ordinal) >= _CALLS_PER_DEVICE:
            raise Overloaded(f"expected at most {_CALLS_PER_DEVICE} check-ins per device")
        with self._check_ins.hold(ordinal):
            connect = await _accept(context)
            message = decode_check_in(
                await calls.read_message(context, self._settings.first_message_s)
            )
            self._standings.check_device(ordinal)
            async with self._at_work:
                response = await self._answer(ordinal, message, connect=connect)
        await context.write(response)
        self._observer.checked_in(time.perf_counter() - began)

    async def participate(self, context: calls.Context) -> None:
        """Serve Participate: the same, held open."""
        ordinal, prove = await self._caller(context)
        with self._stream(ordinal):
            await context.send_initial_metadata(_accepted(context))
            await self._participate(ordinal, context, prove)

    async def relay(self, context: calls.Context) -> None:
        """Serve Relay: the same for all members of a gateway."""
        credentials = read_credentials(context.invocation_metadata())
        caller = await self._admission.relay_caller(credentials, calls.caller_of(context))
        holder = CertificateHolder(caller.gateway, caller.ordinal)
        prove = await self._proofs.prove_holder(context, holder)
        self._note(context, holder)
        with self._stream(caller):
            await context.send_initial_metadata(_accepted(context))
            await self._relay.serve(caller, context, prove)

    def apply(self, changes: StandingChanges) -> None:
        """End the streams of devices and gateways that the register excludes."""
        self._admission.forget(changes.devices.keys())
        for state, details in LAST_WORDS.items():
            gone = [ordinal for ordinal, found in changes.devices.items() if found is state]
            self._hub.bar(gone, f"device: {details}")
        self._relay.end_gateways(changes.gateways)

    @contextmanager
    def _stream(self, caller: Hashable) -> Iterator[None]:
        """Count a stream for the length of a block."""
        if self._streams.total >= self._settings.max_streams:
            raise Overloaded(f"expected at most {self._settings.max_streams} streams")
        if self._streams.of(caller) >= _CALLS_PER_DEVICE:
            raise Overloaded(f"expected at most {_CALLS_PER_DEVICE} streams per device or gateway")
        with self._streams.hold(caller):
            self._observer.stream_opened()
            try:
                yield
            finally:
                self._observer.stream_closed()

    async def _caller(self, context: calls.Context) -> tuple[int, Proof]:
        """Return the ordinal of the device that calls, and its proof for later messages."""
        # The call's metadata and the connection's certificate are enough: no message is read.
        credentials = read_credentials(context.invocation_metadata())
        ordinal = await self._admission.ordinal(credentials, calls.caller_of(context))
        prove = await self._proofs.prove_device(context, ordinal, credentials.device_id)
        self._note(context, CertificateHolder(0, ordinal))
        return ordinal, prove

    async def _answer(self, ordinal: int, message: CheckIn, *, connect: bool = False) -> bytes:
        acks = tuple(await self._deliver(ordinal, message))
        acknowledged = await self._hub.acknowledged_sequence(ordinal)
        parts = deque(self._hub.owed(ordinal, set(message.known_studies)))
        every = self._settings.check_in_every_ms
        wait_ms = every // 2 + self._jitter(every)
        if connect:
            wait_ms = self._connect_every_ms + self._jitter(self._connect_every_ms)
        first = Response(acks=acks, retry_after_ms=wait_ms, acknowledged_sequence=acknowledged)
        parts.appendleft(encode_response(first))
        return next_message(parts)

    async def _participate(self, ordinal: int, context: calls.Context, prove: Proof) -> None:
        message = decode_check_in(await calls.read_message(context, self._settings.first_message_s))
        acks = await self._deliver(ordinal, message)  # first: what is settled is not asked again
        known = set(message.known_studies)
        connection = Connection(ordinal, known, context.write, context.abort)
        connection.echo(await self._hub.acknowledged_sequence(ordinal))
        self._hub.connect(connection, ordinal)
        try:
            connection.acknowledge(acks)
            connection.flush()
            while isinstance(data := await context.read(), bytes):
                self._standings.check_device(ordinal)
                await prove()
                message = _decoded(data) if len(data) <= _SHORT else decode_check_in(data)
                self._hub.acknowledge(connection, await self._deliver(ordinal, message))
                await connection.flushed()
        finally:
            connection.drop()
            self._hub.disconnect(connection, (ordinal,))
            await connection.last_written()

    async def _deliver(self, ordinal: int, message: CheckIn) -> Sequence[Ack]:
        """Deliver a message's reports together."""
        return await self._hub.deliver(ordinal, message.reports) if message.reports else ()

    def refused(self, error: Exception) -> calls.CallStatus:
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
            return calls.CallStatus(code, details)
        retry_ms = self._settings.retry_ms + self._jitter(self._settings.retry_ms)
        return calls.CallStatus(code, details, retry_metadata(retry_ms))


async def _accept(context: calls.Context) -> bool:
    """Ask for the message of a call by Connect, whose caller is known; return whether it is one."""
    if CONNECT_KEY not in dict(context.invocation_metadata() or ()):
        return False
    await context.send_initial_metadata(_accepted(context))
    return True


def _accepted(context: calls.Context) -> Metadata:
    """Return what tells a caller that its stream is accepted, in its own version."""
    return accepted_metadata(protocol_of(context.invocation_metadata()))
