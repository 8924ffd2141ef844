"""Peers of the version before: their bytes, recorded, against this version's other side.

`recorded/check_ins_protocol_1.json` has the calls of three devices of protocol version 1, with
seeded coins, and what an aggregator of that time answered. It was recorded once and is never made
anew: a change that fails here breaks devices, or aggregators, that are one version older.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import SqliteStore
from askance_client.service import SERVICE, Metadata, Response, decode_response
from askance_client.service.credentials import SOFTWARE, SOFTWARE_KEY

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
RECORDED = json.loads(
    (Path(__file__).parent / "recorded" / "check_ins_protocol_1.json").read_text("utf-8")
)


@dataclass(frozen=True)
class RecordedCall:
    """A call of a recorded device, and its answer."""

    method: str
    metadata: Metadata
    request: bytes
    response: bytes


def recorded(place: int) -> list[RecordedCall]:
    """Return the calls of a device."""
    return [
        RecordedCall(
            row["method"],
            tuple(
                (key, bytes.fromhex(value) if key.endswith("-bin") else value)
                for key, value in row["metadata"]
            ),
            bytes.fromhex(row["request"]),
            bytes.fromhex(row["response"]),
        )
        for row in RECORDED["devices"][place]
    ]


def meaning(data: bytes) -> Response:
    """Decode a response; the wait until the next check-in is drawn at random."""
    return replace(decode_response(data), retry_after_ms=0)


def test_devices_of_the_version_before_are_answered_as_before(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    """Count their reports; each answer says what the older aggregator's said."""
    world.enrol(store, 3)

    async def scenario() -> None:
        asked = asyncio.get_running_loop().run_in_executor(
            None, server.fleet.ask, world.broadcast(3), world.accounts(3)
        )
        while server.hub.outstanding < 3:
            await asyncio.sleep(0.01)
        async with aio.insecure_channel(server.address) as channel:
            for place in range(3):
                for call in recorded(place):
                    made: Any = channel.unary_unary(call.method)
                    answer = await made(call.request, metadata=call.metadata, timeout=20)
                    assert meaning(answer) == meaning(call.response)
        (tally,) = await asked
        assert (tally.answered, tally.asked, tally.refusals) == (3, 3, ())

    run(scenario())


class OldAggregator:
    """An aggregator of the version before: answers one device with recorded bytes, in order."""

    def __init__(self, calls: list[RecordedCall]) -> None:
        self.received: list[tuple[bytes, Metadata]] = []
        self._answers: Iterator[bytes] = iter([call.response for call in calls])

    async def answer(self, request: bytes, context: Any) -> bytes:
        """Answer a CheckIn, whatever it says, and keep what it said."""
        given = tuple((k, v) for k, v in context.invocation_metadata() if k.startswith("askance-"))
        self.received.append((request, given))
        return next(self._answers)

    @property
    def handler(self) -> grpc.GenericRpcHandler:
        """Handler by which a server routes CheckIn."""
        answer: Callable[[bytes, Any], Awaitable[bytes]] = self.answer
        method: Any = grpc.unary_unary_rpc_method_handler(answer)
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE, {"CheckIn": method}
        )
        return handler


@pytest.mark.parametrize("place", range(3))
def test_a_device_says_to_an_older_aggregator_what_an_older_device_said(
    world: World, run: Run, place: int
) -> None:
    """Credentials and messages are the same bytes, the randomized report included.

    The one addition is the public name of the software, in metadata: an older aggregator picks its
    keys among those that gRPC adds to every call, and passes over others.
    """
    calls = recorded(place)
    old = OldAggregator(calls)

    async def scenario() -> None:
        server = aio.server()
        server.add_generic_rpc_handlers((old.handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await world.runner(place, world.device(place), channel).check_in_once()
        await server.stop(None)

    run(scenario())
    assert [request for request, _ in old.received] == [call.request for call in calls]
    for (_, given), call in zip(old.received, calls, strict=True):
        assert sorted(given) == sorted([*call.metadata, (SOFTWARE_KEY, SOFTWARE)])
