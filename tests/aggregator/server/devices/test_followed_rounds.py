"""Rounds that another replica drives: which are asked, and which are left."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from askance_aggregator.server.devices import Hub
from askance_aggregator.server.devices.followed_rounds import FollowedRounds
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Accounts, Round
from askance_client.errors import StoreError


class Asking:
    """Rounds that were asked, and those that fail at their end."""

    def __init__(self) -> None:
        self.opened: list[OpenRound] = []
        self.failing: set[int] = set()  # places in `opened`
        self.rounds = FollowedRounds(self.ask, lambda study: False)

    async def ask(self, opened: OpenRound, age_s: int) -> None:
        place = len(self.opened)
        self.opened.append(opened)
        await opened.closed()
        if place in self.failing:
            raise StoreError("store: expected a working one")

    def follow(self, round_: Round, number: int) -> None:
        self.rounds.follow(replace(round_, number=number), Accounts(2, 10**9))


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_round_that_fails_when_it_is_superseded_leaves_the_newer_one(world: Any) -> None:
    """Else nothing could end the newer one, and its study would fail at a take-over."""
    round_ = world.broadcast(2)
    study = round_.study_digest

    async def scenario() -> None:
        asking = Asking()
        asking.failing.add(0)
        asking.follow(round_, 1)
        await turns()
        asking.follow(round_, 2)
        await turns()
        assert asking.rounds.number_of(study) == (0, 2)
        await asking.rounds.leave(study)
        assert asking.rounds.tasks == []
        assert all(opened.closing for opened in asking.opened)
        assert len(asking.opened) == 2

    asyncio.run(scenario())


def test_a_round_that_was_left_is_followed_again(world: Any) -> None:
    round_ = world.broadcast(2)
    study = round_.study_digest

    async def scenario() -> None:
        asking = Asking()
        asking.follow(round_, 1)
        await turns()
        asking.rounds.keep({})  # this replica takes the study over ...
        assert asking.rounds.number_of(study) is None
        asking.follow(round_, 1)  # ... and loses it before it has opened the round
        await turns()
        assert asking.rounds.number_of(study) == (0, 1)
        assert [opened.closing for opened in asking.opened] == [True, False]
        await asking.rounds.leave(study)

    asyncio.run(scenario())


def test_a_round_that_failed_can_be_followed_again(world: Any) -> None:
    round_ = world.broadcast(2)

    async def scenario() -> None:
        asking = Asking()
        asking.failing.add(0)
        asking.follow(round_, 1)
        await turns()
        asking.opened[0].close()
        await turns()
        assert asking.rounds.number_of(round_.study_digest) is None
        asking.follow(round_, 1)
        await turns()
        assert len(asking.opened) == 2
        await asking.rounds.leave(round_.study_digest)

    asyncio.run(scenario())


def test_a_stop_waits_for_no_round_that_is_not_open_yet(world: Any) -> None:
    """The task of that round would open it after all others were closed, and wait for its users."""

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as executor:
            hub = Hub(SqliteStore.in_memory(), executor)
            hub.follow(world.broadcast(2), Accounts(2, 10**9))
            async with asyncio.timeout(10):
                await hub.stop()
            assert hub.outstanding == 0

    asyncio.run(scenario())
