"""A check-in that is cancelled anywhere sends nothing uncharged, and loses no charge for good."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.exchange import decode_check_in, encode_response
from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.queries import category, predicate
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_report
from askance_client.device import Device
from askance_client.ledger import LedgerFile, SqliteLedger
from askance_client.messages import AckStatus, Refusal
from askance_client.service import Response
from askance_client.service.runtime import DeviceRunner

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
POINTS = ("before the commit", "after the commit", "while it is sent", "before it is acknowledged")


class Stops:
    """Points at which a check-in stops until it is let go on; each is passed once unhindered."""

    def __init__(self, point: str) -> None:
        self._point = point
        self.reached = threading.Event()
        self.goes_on = threading.Event()

    def stop(self, point: str) -> None:
        """Wait in a thread."""
        if point == self._point and not self.reached.is_set():
            self.reached.set()
            assert self.goes_on.wait(30)

    async def pause(self, point: str) -> None:
        """Wait in the loop, where a cancellation arrives."""
        if point == self._point and not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()


class StoppingLedger:
    """A ledger on disk that stops before or after its first commit."""

    def __init__(self, inner: SqliteLedger, stops: Stops) -> None:
        self._inner, self._stops = inner, stops

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, *arguments: Any) -> Any:
        self._stops.stop("before the commit")
        outcome = self._inner.commit(*arguments)
        self._stops.stop("after the commit")
        return outcome


class Wire:
    """A channel whose aggregator asks for what it lacks, and checks each report by the ledger."""

    def __init__(self, asking: Response, ledger: SqliteLedger, stops: Stops) -> None:
        self._asking, self._ledger, self._stops = asking, ledger, stops
        self.received: dict[bytes, bytes] = {}

    def unary_unary(self, method: str) -> Any:
        async def call(data: bytes, timeout: int, metadata: object) -> bytes:
            reports = decode_check_in(data).reports
            if not reports:
                return encode_response(self._asking)
            await self._stops.pause("while it is sent")
            acks = []
            for report in reports:
                read = decode_report(report)
                assert not isinstance(read.outcome, Refusal)
                assert self._ledger.stored(read.request_digest) == report  # charged before it left
                assert self.received.setdefault(read.request_digest, report) == report
                acks.append((read.request_digest, AckStatus.ACCEPTED))
            await self._stops.pause("before it is acknowledged")
            return encode_response(Response(acks=tuple(acks)))

        return call

    def stream_stream(self, method: str) -> None:
        return None


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqliteLedger]:
    file = LedgerFile.create(tmp_path / "ledger.sqlite")
    yield file.ledger()
    file.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_cancelled_check_in_is_made_good_by_the_next(
    point: str, world: World, ledger: SqliteLedger, run: Run
) -> None:
    stops = Stops(point)
    smoker, epsilon = world.schema.smoker, parse_epsilon("0.2")
    coin, three = randomized_response(epsilon), k_ary_response(3, epsilon)
    colour = category(world.schema.colour)
    groups = [
        world.group(range(1), 1, place=0, query=predicate(smoker == 1), randomizer=coin),
        world.group(range(1), 1, place=1, query=predicate(smoker == 0), randomizer=coin),
        world.group(range(1), 1, place=2, query=colour, randomizer=three),
    ]
    asking = Response(studies=(world.study,), requests=tuple(group.payload for group in groups))
    wire: Any = Wire(asking, ledger, stops)
    stopping: Any = StoppingLedger(ledger, stops)

    def runner(device: Device, executor: ThreadPoolExecutor) -> DeviceRunner:
        return DeviceRunner(device, world.identity(0), wire, offload=executor)

    async def scenario() -> list[int]:
        with ThreadPoolExecutor(2) as executor:
            task = asyncio.ensure_future(
                runner(world.device(0, stopping), executor).check_in_once()
            )
            assert await asyncio.to_thread(stops.reached.wait, 30)
            task.cancel()
            await asyncio.sleep(0)
            stops.goes_on.set()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(outcome, asyncio.CancelledError)
        charged = [entry.nano_nats for entry in ledger.history()]
        with ThreadPoolExecutor(2) as executor:  # another process: nothing is left in memory
            await runner(world.device(0, ledger), executor).check_in_once()
        return charged

    charged = run(scenario())
    # What was begun was made durable: a commit is not given up in the middle.
    assert charged == [group.nano_nats for group in groups]
    assert [entry.nano_nats for entry in ledger.history()] == charged
    assert set(wire.received) == {group.digest for group in groups}
