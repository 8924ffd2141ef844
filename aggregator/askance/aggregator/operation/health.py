"""The standard health service (`grpc.health.v1`), for those who watch from outside."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health, health_pb2

SERVICES = ("", "askance.protos.v1.Devices", "askance.protos.v1.Analysts")
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class Health:
    """What is answered; to be used in the service's event loop."""

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()

    def add_to(self, server: aio.Server) -> None:
        """Registers the service, before the server starts."""
        encode = health_pb2.HealthCheckResponse.SerializeToString
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
        """Every service is there."""
        for name in SERVICES:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def going_down(self) -> None:
        """None is any more, for good."""
        await self._servicer.enter_graceful_shutdown()

    async def _check(self, data: bytes, context: Any) -> Any:
        return await self._servicer.Check(await _asked(data, context), context)

    async def _watch(self, data: bytes, context: Any) -> None:
        await self._servicer.Watch(await _asked(data, context), context)


async def _asked(data: bytes, context: Any) -> Any:
    """The request; where it is none the call ends. gRPC's own parsing would call that UNKNOWN."""
    request = health_pb2.HealthCheckRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, "expected a HealthCheckRequest, found other bytes"
        )
    return request
