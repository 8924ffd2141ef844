"""The standard health service (`grpc.health.v1`), for those who watch from outside."""

from __future__ import annotations

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

SERVICES = ("", "askance.protos.v1.Devices", "askance.protos.v1.Analysts")


class Health:
    """What is answered; to be used in the service's event loop."""

    def __init__(self) -> None:
        self._servicer = health.aio.HealthServicer()

    def add_to(self, server: aio.Server) -> None:
        """Registers the service, before the server starts."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def serving(self) -> None:
        """Every service is there."""
        for name in SERVICES:
            await self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def going_down(self) -> None:
        """None is any more, for good."""
        await self._servicer.enter_graceful_shutdown()
