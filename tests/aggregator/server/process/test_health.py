"""The health service: open to every peer, and no peer can block it or fill its memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from askance_aggregator.server.outer.pass_through import HEALTH_SERVICES
from askance_aggregator.server.process.health import (
    MAX_REQUEST_BYTES,
    MAX_WATCHERS,
    Health,
)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
Scenario = Callable[[Health, Any], Awaitable[None]]


def request(service: str = "") -> Any:
    return health_pb2.HealthCheckRequest(service=service)


def served(scenario: Scenario) -> None:
    async def whole() -> None:
        health, server = Health(), aio.server()
        health.add_to(server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with asyncio.timeout(20), aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await scenario(health, health_pb2_grpc.HealthStub(channel))
        finally:
            await server.stop(0)

    asyncio.run(whole())


async def code_of(call: Awaitable[Any]) -> grpc.StatusCode:
    with pytest.raises(aio.AioRpcError) as refused:
        await call
    return refused.value.code()


def test_every_service_serves_from_the_start_until_the_end_and_not_again() -> None:
    async def scenario(health: Health, stub: Any) -> None:
        for change, status in (
            (None, NOT_SERVING),
            (health.serving, SERVING),
            (health.going_down, NOT_SERVING),
            (health.serving, NOT_SERVING),
        ):
            if change is not None:
                await change()
            found = [(await stub.Check(request(name))).status for name in HEALTH_SERVICES]
            assert found == [status] * 3
        assert await code_of(stub.Check(request("another"))) is grpc.StatusCode.NOT_FOUND

    served(scenario)


def test_who_watches_is_told_of_every_change() -> None:
    async def scenario(health: Health, stub: Any) -> None:
        watching, stranger = stub.Watch(request(HEALTH_SERVICES[1])), stub.Watch(request("another"))
        assert (await watching.read()).status == NOT_SERVING
        assert (await stranger.read()).status == UNKNOWN
        await health.serving()
        assert (await watching.read()).status == SERVING
        await health.going_down()
        assert (await watching.read()).status == NOT_SERVING

    served(scenario)


def test_who_does_not_read_holds_up_nobody() -> None:
    """Once, writes happened under a lock that the start and the end of the process waited for."""

    class Deaf:
        def peer(self) -> str:
            return "ipv4:192.0.2.1:4711"

        async def read(self) -> bytes:
            return b""

        async def write(self, _: object) -> None:
            await asyncio.Event().wait()

    async def scenario(health: Health, stub: Any) -> None:
        deaf_one: Any = Deaf()
        deaf = asyncio.ensure_future(health._watch(deaf_one))
        await asyncio.sleep(0)
        watching = stub.Watch(request())
        assert (await watching.read()).status == NOT_SERVING
        await health.serving()
        assert (await watching.read()).status == SERVING
        await health.going_down()
        assert (await watching.read()).status == NOT_SERVING
        deaf.cancel()

    served(scenario)


def test_so_many_watch_and_no_more_until_one_has_gone() -> None:
    async def scenario(_: Health, stub: Any) -> None:
        watching: list[Any] = []
        while len(watching) < MAX_WATCHERS:  # one after another: few are read at one time
            watching.append(stub.Watch(request()))
            await watching[-1].read()
        assert await code_of(stub.Watch(request()).read()) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await stub.Check(request())).status == NOT_SERVING
        watching[0].cancel()
        while True:
            try:
                await stub.Watch(request()).read()
            except aio.AioRpcError:
                continue
            return

    served(scenario)


@pytest.mark.parametrize("call", ["Check", "Watch"])
def test_a_long_name_is_not_kept(call: str) -> None:
    async def scenario(_: Health, stub: Any) -> None:
        asked = getattr(stub, call)(request("x" * MAX_REQUEST_BYTES))
        found = await code_of(asked.read() if call == "Watch" else asked)
        assert found is grpc.StatusCode.INVALID_ARGUMENT

    served(scenario)
