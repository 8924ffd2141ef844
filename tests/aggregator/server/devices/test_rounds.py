"""A real aggregator and a few dozen devices over loopback: rounds are complete and exact."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Tally
from askance_client.errors import LocalProtocolError
from askance_client.service import channel_options

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

USERS = 36
Run = Callable[[Any], Any]


async def ask(server: AggregatorServer, *arguments: Any) -> tuple[Tally, ...]:
    """A session's call, from a thread of its own."""
    return await asyncio.to_thread(server.fleet.ask, *arguments)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_a_round_over_the_network_is_a_round_in_process_to_the_bit(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, USERS)
    round_, devices = world.round(USERS), world.devices(USERS)
    accounts = world.accounts(USERS)

    async def scenario() -> tuple[Tally, ...]:
        async with participating(world, server.address, devices) as runners:
            await until(lambda: server.hub.connected == USERS)
            tallies = await ask(server, round_, accounts)
            await until(lambda: all(runner.unacknowledged == 0 for runner in runners))
            return tallies

    tallies = run(scenario())
    assert tallies == world.straight(round_, world.devices(USERS))
    assert [tally.answered for tally in tallies] == [24, 12]
    charged = [group.nano_nats for group in round_.groups]
    assert [device.ledger.totals(bytes(32), 0).life for device in devices] == (
        [charged[0]] * 24 + [charged[1]] * 12
    )
    assert accounts.spending().total_spent == 24 * charged[0] + 12 * charged[1]
    assert [len(list(store.reports(group.digest))) for group in round_.groups] == [24, 12]
    assert server.fleet.population == USERS


def test_devices_that_connect_after_the_round_opened_are_asked_too(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, USERS)
    round_ = world.round(USERS)

    async def scenario() -> tuple[Tally, ...]:
        asking = asyncio.ensure_future(ask(server, round_, world.accounts(USERS)))
        await asyncio.sleep(0.05)
        assert not asking.done()
        async with participating(world, server.address, world.devices(USERS)):
            return await asking

    assert run(scenario()) == world.straight(round_, world.devices(USERS))


def test_checking_in_gives_what_participating_gives(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    world.enrol(store, USERS)
    round_ = world.round(USERS)

    async def scenario() -> tuple[Tally, ...]:
        asking = asyncio.ensure_future(ask(server, round_, world.accounts(USERS)))
        async with aio.insecure_channel(server.address, options=channel_options()) as channel:
            runners = [
                world.runner(ordinal, device, channel)
                for ordinal, device in enumerate(world.devices(USERS))
            ]
            while not asking.done():
                waits = [await runner.check_in_once() for runner in runners]
                assert all(10 <= wait <= 30 for wait in waits)  # every 20 ms, give or take a half
            assert all(runner.unacknowledged == 0 for runner in runners)
        return await asking

    assert run(scenario()) == world.straight(round_, world.devices(USERS))


def test_rounds_follow_one_another_on_the_same_streams(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, USERS)
    first, second = world.round(USERS), world.broadcast(USERS, number=1)

    async def scenario() -> list[tuple[Tally, ...]]:
        async with participating(world, server.address, world.devices(USERS)):
            return [await ask(server, round_, world.accounts(USERS)) for round_ in (first, second)]

    devices = world.devices(USERS)
    assert run(scenario()) == [world.straight(round_, devices) for round_ in (first, second)]


def test_a_device_may_leave_between_rounds_and_come_back(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, USERS)
    first, second = world.round(USERS), world.broadcast(USERS, number=1)
    devices = world.devices(USERS)

    async def scenario() -> list[tuple[Tally, ...]]:
        async with participating(world, server.address, devices):
            tallies = [await ask(server, first, world.accounts(USERS))]
        await until(lambda: server.hub.connected == 0)
        asking = asyncio.ensure_future(ask(server, second, world.accounts(USERS)))
        async with participating(world, server.address, devices[:20]):
            await until(lambda: len(list(store.reports(second.groups[0].digest))) == 20)
        assert not asking.done()
        async with participating(world, server.address, devices):
            tallies.append(await asking)
        return tallies

    fresh = world.devices(USERS)
    assert run(scenario()) == [world.straight(round_, fresh) for round_ in (first, second)]


def test_two_studies_are_asked_at_the_same_time(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, USERS)
    rounds = [world.round(USERS, study=world.signed_study(bytes([n]) * 16)) for n in range(2)]

    async def scenario() -> list[tuple[Tally, ...]]:
        asking = [
            asyncio.ensure_future(ask(server, round_, world.accounts(USERS))) for round_ in rounds
        ]
        async with participating(world, server.address, world.devices(USERS)):
            return await asyncio.gather(*asking)

    first, second = run(scenario())
    # The same questions: whichever study came first, the other's answers are the frozen ones.
    assert [tally.counts for tally in first] == [tally.counts for tally in second]
    assert [tally.answered for tally in first] == [24, 12]


def test_a_refusal_settles_a_member(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, 3)
    round_ = world.broadcast(3)
    devices = [world.device(0), world.device(1, life=1), world.device(2)]

    async def scenario() -> tuple[Tally, ...]:
        async with participating(world, server.address, devices):
            return await ask(server, round_, world.accounts(3))

    (tally,) = run(scenario())
    assert (tally.asked, tally.answered) == (3, 2)
    assert [(reason.name, count) for reason, count in tally.refusals] == [("OVER_LIFE_BUDGET", 1)]


def test_only_members_are_asked(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, 6)
    whole = world.broadcast(6)
    group = world.group([1, 4], 6)
    round_ = type(whole)(0, whole.study, whole.study_digest, (group,))
    devices = world.devices(6)

    async def scenario() -> tuple[Tally, ...]:
        async with participating(world, server.address, devices):
            await until(lambda: server.hub.connected == 6)
            return await ask(server, round_, world.accounts(6))

    (tally,) = run(scenario())
    assert tally.answered == 2
    asked = [device.ledger.stored(group.digest) is not None for device in devices]
    assert asked == [False, True, False, False, True, False]


def test_a_study_has_one_round_open_at_a_time(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    world.enrol(store, 3)

    async def scenario() -> None:
        asking = asyncio.ensure_future(ask(server, world.broadcast(3), world.accounts(3)))
        await until(lambda: server.hub.progress(world.broadcast(3).study_digest) == (3, 0))
        with pytest.raises(LocalProtocolError, match="expected no open round"):
            await ask(server, world.broadcast(3, number=1), world.accounts(3))
        closing = asyncio.run_coroutine_threadsafe(
            _call(server.hub.close_round, world.broadcast(3).study_digest), server.loop
        )
        assert await asyncio.wrap_future(closing)
        (tally,) = await asking  # what had come when it was closed
        assert (tally.asked, tally.answered) == (3, 0)

    run(scenario())


async def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def test_a_stopped_service_lets_go_of_who_asks(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    world.enrol(store, 3)

    async def scenario() -> None:
        asking = asyncio.ensure_future(ask(server, world.broadcast(3), world.accounts(3)))
        await until(lambda: server.hub.progress(world.broadcast(3).study_digest) == (3, 0))
        await asyncio.to_thread(server.stop)
        with pytest.raises(LocalProtocolError, match="stopped"):
            await asking
        with pytest.raises(LocalProtocolError, match="running service"):
            await ask(server, world.broadcast(3), world.accounts(3))

    run(scenario())


def test_a_study_of_nobody_the_devices_trust_is_refused_request_by_request(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, 4)
    study = world.signed_study()
    forged = type(study)(study.study, study.public_key, bytes(64))
    round_ = world.broadcast(4)
    forged_round = type(round_)(0, forged, round_.study_digest, round_.groups)
    devices = world.devices(4)

    async def scenario() -> tuple[Tally, ...]:
        async with participating(world, server.address, devices):
            return await ask(server, forged_round, world.accounts(4))

    (tally,) = run(scenario())
    assert [(reason.name, count) for reason, count in tally.refusals] == [("UNKNOWN_STUDY", 4)]
    assert all(device.ledger.totals(bytes(32), 0).life == 0 for device in devices)


def test_a_closed_round_is_recalled_from_the_store_and_nobody_is_asked(
    world: World, store: SqliteStore, server: AggregatorServer, participating: Any, run: Run
) -> None:
    world.enrol(store, USERS)
    round_, accounts, again = world.round(USERS), world.accounts(USERS), world.accounts(USERS)

    async def scenario() -> None:
        async with participating(world, server.address, world.devices(USERS)):
            await ask(server, round_, accounts)

    run(scenario())
    server.fleet.recall(round_, again)
    assert again.spending().total_spent == accounts.spending().total_spent > 0


def test_what_is_outstanding_can_be_watched(
    world: World, store: SqliteStore, server: AggregatorServer, run: Run
) -> None:
    world.enrol(store, 3)
    round_ = world.broadcast(3)

    async def scenario() -> None:
        assert server.hub.outstanding == 0
        asking = asyncio.ensure_future(ask(server, round_, world.accounts(3)))
        await until(lambda: server.hub.outstanding == 3)
        async with aio.insecure_channel(server.address) as channel:
            for left in (2, 1, 0):
                await world.runner(left, world.device(left), channel).check_in_once()
                assert server.hub.outstanding == left
        await asking

    run(scenario())
