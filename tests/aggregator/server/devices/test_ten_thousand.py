"""Ten thousand devices on one machine answer a broadcast, and every one of them is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer, Settings
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Tally
from askance_client.service import channel_options

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

USERS = 10_000
CONNECTIONS = 20  # a descriptor at both ends of each


@pytest.mark.nightly
def test_ten_thousand_devices_answer_a_broadcast(world: World, tmp_path: Path) -> None:
    """In one process and one event loop: grpc.aio serves all loops of a process from one queue."""
    store = SqliteStore.create(tmp_path / "store")
    world.enrol(store, USERS)
    devices = world.devices(USERS)
    rounds = [world.broadcast(USERS, number=number) for number in range(2)]
    accounts = world.accounts(USERS)
    accounts.reserve(rounds[0].groups[0].cohort, rounds[0].groups[0].nano_nats)

    async def scenario(server: AggregatorServer) -> list[tuple[Tally, ...]]:
        channels = [
            aio.insecure_channel(server.address, options=channel_options(own_connection=True))
            for _ in range(CONNECTIONS)
        ]
        running = [
            asyncio.ensure_future(
                world.runner(ordinal, device, channels[ordinal % CONNECTIONS]).participate()
            )
            for ordinal, device in enumerate(devices)
        ]
        while server.hub.connected < USERS:
            await asyncio.sleep(0.05)
        tallies = [await server.hub.open(round_, accounts) for round_ in rounds]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for channel in channels:
            await channel.close()
        return tallies

    settings = Settings(connection_streams=2 * USERS // CONNECTIONS)
    with AggregatorServer.start(store, settings=settings) as server:
        playing = asyncio.run_coroutine_threadsafe(scenario(server), server.loop)
        tallies = playing.result(240)
    store.close()
    fresh = world.devices(USERS)
    assert tallies == [world.straight(round_, fresh) for round_ in rounds]
    assert accounts.reconciled()
