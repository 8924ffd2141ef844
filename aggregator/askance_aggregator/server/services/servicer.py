"""Servicer: the methods of a service of the .proto, as Python methods, and the handler for gRPC.

The RPC `DeleteReports` of the service `Analysts` is the method `delete_reports` of
`AnalystsServicer`: it is given the request's message and the admitted call, and returns the
answer's message, or yields messages where the .proto says `stream`. Before it runs, its caller has
been admitted by the metadata alone, and the request has been read, held against the digest that the
caller signed, and parsed (ADR 25). Messages pass gRPC as bytes, without serializers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import aclosing
from typing import Any, ClassVar, ParamSpec, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from askance_aggregator.analyst.calls import Call
from askance_aggregator.analyst.messages import MAX_SUBMISSION_BYTES
from askance_aggregator.server.callers import Admitted, Gate
from askance_aggregator.server.callers.gate import Do
from askance_aggregator.server.devices.calls import Context, Method, read_message, served
from askance_aggregator.server.services.statuses import refused_status
from askance_client.codec import parse

_MESSAGE_S = 5.0  # how long a request may take to arrive, after its metadata
_LARGE_BYTES = 65_536  # a larger message is serialised in the executor
P = ParamSpec("P")
T = TypeVar("T")


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
        self._executor = executor

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

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what waits for the disk in the executor."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))
