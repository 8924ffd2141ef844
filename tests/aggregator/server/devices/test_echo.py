"""An aggregator's echo of the highest sequence number that it has acknowledged to a device.

A ledger that was restored together with its mark forgets charges, and nothing on the device shows
it: the aggregator's number does. A lying aggregator stops its own exchanges and no other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import SqliteStore, StoredReport
from askance_client.device import Device
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus
from askance_client.service import Response, channel_options
from askance_client.service.runtime import LedgerOlder
from askance_simulation.fleets.memory_ledger import MemoryLedger
from tests.aggregator.server.devices.test_hostile_aggregator import Script, aggregator, until

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]


def asking(world: World, acknowledged: int) -> Response:
    """A good response with the study, one request, and a number."""
    round_ = world.broadcast(1)
    return Response(
        studies=(round_.study,),
        requests=(round_.groups[0].payload,),
        acknowledged_sequence=acknowledged,
    )


@pytest.fixture
def device(world: World) -> Device:
    return world.device(0)


@pytest.mark.parametrize("ahead", [1, 7, (1 << 64) - 1])
def test_an_aggregator_ahead_of_the_ledger_is_answered_nothing(
    world: World, device: Device, run: Run, ahead: int
) -> None:
    script = Script(asking(world, ahead))

    async def check_in() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel)
            with pytest.raises(LedgerOlder, match=f"at most 0 .* has {ahead}") as caught:
                await runner.check_in_once()
            assert "device accept-loss" in str(caught.value)
            assert isinstance(caught.value, RemoteProtocolError)  # tried again, as any other
            assert runner.unacknowledged == 0

    run(check_in())
    assert list(device.ledger.history()) == []


def test_nothing_of_it_is_kept_and_the_next_aggregator_is_answered(
    world: World, device: Device, run: Run
) -> None:
    lying, honest = Script(asking(world, 5)), Script(asking(world, 0))

    async def check_in() -> None:
        async with aggregator(lying) as channel:
            with pytest.raises(LedgerOlder):
                await world.runner(0, device, channel).check_in_once()
        async with aggregator(honest) as channel:
            await world.runner(0, device, channel).check_in_once()

    run(check_in())
    assert device.ledger.sequence == 1


def test_its_acknowledgements_are_not_believed_either(
    world: World, device: Device, run: Run
) -> None:
    """The report is kept for an aggregator that may be believed."""
    (digest,) = (group.digest for group in world.broadcast(1).groups)
    lie = Response(acks=((digest, AckStatus.ACCEPTED),), acknowledged_sequence=2)
    script = Script(asking(world, 0), lie)

    async def check_in() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel)
            with pytest.raises(LedgerOlder, match=r"at most 1 .* has 2"):
                await runner.check_in_once()
            assert runner.unacknowledged == 1
            await runner.check_in_once()  # from here on the script is honest
            assert runner.unacknowledged == 0

    run(check_in())
    assert len({message.reports for message in script.heard[1:3]}) == 1


@pytest.mark.parametrize("echo", [0, 1])
def test_a_lower_number_or_none_is_accepted(
    world: World, device: Device, run: Run, echo: int
) -> None:
    """The aggregator may be new, or restored itself."""
    script = Script(asking(world, 0))

    async def check_in() -> None:
        async with aggregator(script) as channel:
            await world.runner(0, device, channel).check_in_once()
            script.answers.append(asking(world, echo))
            await world.runner(0, device, channel).check_in_once()

    run(check_in())
    assert device.ledger.sequence == 1
    assert sum(len(message.reports) for message in script.heard) == 2


def test_a_stream_is_closed_and_the_failure_is_reported(
    world: World, device: Device, run: Run
) -> None:
    script = Script(asking(world, 3))
    failures: list[Exception] = []

    async def participate() -> None:
        async with aggregator(script) as channel:
            runner = world.runner(0, device, channel, on_failure=failures.append)
            task = asyncio.ensure_future(runner.participate())
            await until(lambda: bool(failures))
            task.cancel()

    run(participate())
    assert isinstance(failures[0], LedgerOlder)
    assert list(device.ledger.history()) == []


@pytest.mark.parametrize("streams", [False, True])
def test_a_device_whose_ledger_was_restored_is_found_by_its_aggregator(
    world: World,
    store: SqliteStore,
    server: AggregatorServer,
    run: Run,
    streams: bool,
    participating: Any,
) -> None:
    """The device answers a round, forgets it, and is asked the next one by the same aggregator."""
    from grpc import aio

    world.enrol(store, 1)
    ledger = MemoryLedger()
    device = world.device(0, ledger)
    failures: list[Exception] = []

    async def answer() -> None:
        asked = asyncio.ensure_future(
            asyncio.to_thread(server.fleet.ask, world.broadcast(1), world.accounts(1))
        )
        async with aio.insecure_channel(server.address, options=channel_options()) as channel:
            runner = world.runner(0, device, channel)
            while not asked.done():
                await runner.check_in_once()
                await asyncio.sleep(0.005)
        await asked
        assert store.acknowledged_sequence(0) == ledger.sequence == 1

    async def forgotten() -> None:
        restored = world.device(0)
        if streams:
            async with participating(world, server.address, [restored], on_failure=failures.append):
                await until(lambda: bool(failures))
        else:
            async with aio.insecure_channel(server.address, options=channel_options()) as channel:
                with pytest.raises(LedgerOlder) as caught:
                    await world.runner(0, restored, channel).check_in_once()
                failures.append(caught.value)
        assert list(restored.ledger.history()) == []

    run(answer())
    run(forgotten())
    assert isinstance(failures[0], LedgerOlder)


def test_what_the_store_knows_from_before_is_echoed(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    from grpc import aio

    world.enrol(store, 1)
    store.accept([StoredReport(bytes(32), 0, b"a report", 12)])

    async def check_in() -> None:
        async with aio.insecure_channel(server.address, options=channel_options()) as channel:
            with pytest.raises(LedgerOlder, match="has 12"):
                await world.runner(0, world.device(0), channel).check_in_once()

    run(check_in())
