"""Servicer: the methods of a service of the .proto, as Python methods, and the handler for gRPC.

The RPC `DeleteReports` of the service `Analysts` is the method `delete_reports` of
`AnalystsServicer`: it is given the request's message and the admitted call, and returns the
answer's message, or yields messages where the .proto says `stream`. Before it runs, its caller has
been admitted by the metadata alone, and the request has been read, held against the digest that the
caller signed, and parsed (ADR 25). Messages pass gRPC as bytes, without serializers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Any, ClassVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from askance_aggregator.analyst.calls import Call, CallRefused
from askance_aggregator.analyst.messages import MAX_SUBMISSION_BYTES, REASON_KEY
from askance_aggregator.server.callers import Admitted, Gate
from askance_aggregator.server.callers.gate import Do
from askance_aggregator.server.devices.calls import (
    CallStatus,
    Context,
    Method,
    read_message,
    served,
)
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.server.studies import (
    ApprovalRefused,
    ResultsDeleted,
    SubmissionRefused,
    UnknownEpoch,
    UnknownStudy,
)
from askance_aggregator.store import StudyNotEnded
from askance_aggregator.store.register import UnknownDevice
from askance_client.codec import parse
from askance_client.errors import AskanceError, InvalidParameter, RemoteProtocolError, StoreError

_LOGGER = logging.getLogger(__name__)
_Code = grpc.StatusCode
_REASONS: dict[str, grpc.StatusCode] = {
    "untrusted-key": _Code.PERMISSION_DENIED,
    "bad-signature": _Code.UNAUTHENTICATED,
    "stale-call": _Code.UNAUTHENTICATED,
    "not-permitted": _Code.PERMISSION_DENIED,
    "no-key": _Code.PERMISSION_DENIED,
    "own-study": _Code.PERMISSION_DENIED,
    "nonce-missing": _Code.UNAUTHENTICATED,
    "replayed": _Code.UNAUTHENTICATED,
    "bad-token": _Code.UNAUTHENTICATED,
    "no-role": _Code.PERMISSION_DENIED,
    "malformed": _Code.INVALID_ARGUMENT,
    "unknown-learner": _Code.INVALID_ARGUMENT,
    "missing-fields": _Code.INVALID_ARGUMENT,
    "expired": _Code.FAILED_PRECONDITION,
    "keep-refused": _Code.FAILED_PRECONDITION,
    "plan-refused": _Code.FAILED_PRECONDITION,
    "over-user-budget": _Code.FAILED_PRECONDITION,
    "over-quota": _Code.RESOURCE_EXHAUSTED,
    "too-many-studies": _Code.RESOURCE_EXHAUSTED,
    "too-many-calls": _Code.RESOURCE_EXHAUSTED,
    "unread-answers": _Code.RESOURCE_EXHAUSTED,
}
_STORE_FAILED = "the aggregator's store failed: ask again later"
_SLOW = "expected a message, got none in time"
_GONE = "the caller went away"
_INTERNAL = "internal error: ask again later"


def status_of(error: Exception) -> tuple[grpc.StatusCode, str, str]:
    """Return the gRPC status of an error, its details as text and its reason code."""
    match error:
        case SubmissionRefused() | CallRefused() | ApprovalRefused():
            code = _REASONS.get(error.reason, _Code.FAILED_PRECONDITION)
            return code, str(error), error.reason
        case UnknownStudy():
            return _Code.NOT_FOUND, str(error), "unknown-study"
        case UnknownEpoch():
            return _Code.NOT_FOUND, str(error), "unknown-epoch"
        case ResultsDeleted():
            return _Code.NOT_FOUND, str(error), "results-deleted"
        case StudyNotEnded():
            return _Code.FAILED_PRECONDITION, str(error), "open"
        case UnknownDevice():  # a store's error, of the caller's own making
            return _Code.NOT_FOUND, str(error), "unknown-device"
        case InvalidParameter() | RemoteProtocolError():
            return _Code.INVALID_ARGUMENT, str(error), "malformed"
        case StoreError():  # paths and disks are the operator's matter
            return _Code.UNAVAILABLE, _STORE_FAILED, "store-failed"
        case aio.InternalError():  # of a write
            return _Code.CANCELLED, _GONE, "went-away"
        case TimeoutError():
            return _Code.DEADLINE_EXCEEDED, _SLOW, "timeout"
        case _:
            return _Code.INTERNAL, _INTERNAL, "internal"


def refused_status(error: Exception) -> CallStatus:
    """Return the status that a call ends with, from the table; log it."""
    code, details, reason = status_of(error)
    if code is grpc.StatusCode.INTERNAL:
        _LOGGER.error("an analyst's call failed", exc_info=error)
    elif not isinstance(error, AskanceError | TimeoutError):
        _LOGGER.warning("an analyst's call was refused", exc_info=error)
    return CallStatus(code, details, ((REASON_KEY, reason),))


_MESSAGE_S = 5.0  # how long a request may take to arrive, after its metadata
_LARGE_BYTES = 65_536  # a larger message is serialised in the executor


def method_name(name: str) -> str:
    """Return the name of the Python method that serves an RPC: `delete_reports`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Servicer:
    """Base of the servicers.

    Args:
      gate: admits, counts and records calls.
      executor: where calls wait for the disk, so that the event loop does not.
    """

    SERVICE: ClassVar[ServiceDescriptor]

    def __init__(self, gate: Gate, executor: Executor) -> None:
        self._gate = gate
        self._run = InExecutor(executor)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the handler by which a server routes calls."""
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            self.SERVICE.full_name,
            {one.name: served(self._method(one), refused_status) for one in self.SERVICE.methods},
        )
        return handler

    def _method(self, rpc: MethodDescriptor) -> Method:
        call, work = self._bound(rpc)
        if rpc.input_type.fields_by_name.get("selection") is None:

            async def do(context: Context, admitted: Admitted) -> None:
                request = await self._read(rpc, context, admitted)
                await self._answer(rpc, context, work(request, admitted))

            return self._gate.guarded(call, do)

        async def prepare(context: Context, admitted: Admitted) -> tuple[str, Do]:
            request = await self._read(rpc, context, admitted)

            async def change(context: Context, admitted: Admitted) -> None:
                await self._answer(rpc, context, work(request, admitted))

            return self.subject(request), change

        return self._gate.prepared(call, prepare)

    def _bound(self, rpc: MethodDescriptor) -> tuple[Call, Callable[[Any, Admitted], Any]]:
        return Call(f"{self.SERVICE.name}/{rpc.name}"), getattr(self, method_name(rpc.name))

    def subject(self, request: Any) -> str:
        """Describe the devices that a request selects, for the audit log."""
        raise NotImplementedError

    async def _read(self, rpc: MethodDescriptor, context: Context, admitted: Admitted) -> Message:
        """Read a request, which is the one that the caller has signed."""
        data = await read_message(context, _MESSAGE_S)
        admitted.check_body(data)
        return parse(GetMessageClass(rpc.input_type), data, limit=MAX_SUBMISSION_BYTES)

    async def _answer(self, rpc: MethodDescriptor, context: Context, answer: Any) -> None:
        if not rpc.server_streaming:
            await context.write(await self._bytes(await answer))
            return
        async with aclosing(answer) as parts:
            async for part in parts:
                await context.write(await self._bytes(part))

    async def _bytes(self, message: Message) -> bytes:
        if message.ByteSize() < _LARGE_BYTES:
            return message.SerializeToString(deterministic=True)
        return await self._run(lambda: message.SerializeToString(deterministic=True))
