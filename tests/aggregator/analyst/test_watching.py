"""Watches of one study share one source: it is looked at once per period, however many watch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import pytest

from askance_aggregator.server.services.analysts import StudyWatches
from askance_aggregator.server.studies import StudyStatus
from askance_aggregator.store import StudyState
from askance_client.errors import StoreError

STUDY, ANOTHER = b"s" * 32, b"t" * 32
OPEN = StudyStatus(STUDY, b"k" * 32, "frequency", StudyState.OPEN, 0, 100, 0, 0, "", "")
DONE = replace(OPEN, state=StudyState.DONE, reason="done")


class Aggregator:
    """Status of a study that is changed by hand, and a sleep that ends when a test says so."""

    def __init__(self) -> None:
        self.status = OPEN
        self.error: Exception | None = None
        self.looks = 0
        self.waiting: list[asyncio.Future[None]] = []

    async def read(self) -> StudyStatus:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return self.status

    async def sleep(self, _: float) -> None:
        self.waiting.append(asyncio.get_running_loop().create_future())
        await self.waiting[-1]

    async def period(self) -> None:
        """Let one period between looks end."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)
        await settled()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(scenario: Callable[[Aggregator, StudyWatches], Awaitable[None]]) -> None:
    async def whole() -> None:
        aggregator = Aggregator()
        await scenario(aggregator, StudyWatches(aggregator.sleep))

    asyncio.run(whole())


async def watch(watches: StudyWatches, aggregator: Aggregator, seen: list[StudyStatus]) -> None:
    async with aclosing(watches.statuses(STUDY, aggregator.read)) as statuses:
        async for status in statuses:
            seen.append(status)


def test_further_watchers_cost_no_look() -> None:
    async def scenario(aggregator: Aggregator, watches: StudyWatches) -> None:
        seen: list[list[StudyStatus]] = [[] for _ in range(50)]
        watching = [asyncio.ensure_future(watch(watches, aggregator, one)) for one in seen]
        await settled()
        assert seen == [[OPEN]] * 50
        joined = aggregator.looks
        assert joined == 50  # a look each when they come: the present status at once
        for _ in range(10):
            await aggregator.period()
        assert aggregator.looks == joined + 10
        aggregator.status = replace(OPEN, answered=7)
        await aggregator.period()
        aggregator.status = DONE
        await aggregator.period()
        assert seen == [[OPEN, replace(OPEN, answered=7), DONE]] * 50
        await asyncio.gather(*watching)
        assert (aggregator.looks, watches.sources) == (joined + 12, 0)

    run(scenario)


def test_the_last_watcher_ends_the_looks() -> None:
    async def scenario(aggregator: Aggregator, watches: StudyWatches) -> None:
        watching = [asyncio.ensure_future(watch(watches, aggregator, [])) for _ in range(2)]
        await settled()
        watching[0].cancel()
        await aggregator.period()
        assert (aggregator.looks, watches.sources) == (3, 1)
        watching[1].cancel()
        await settled()
        await aggregator.period()
        assert (aggregator.looks, watches.sources) == (3, 0)

    run(scenario)


def test_a_failure_is_of_every_watcher_and_a_later_one_begins_anew() -> None:
    async def scenario(aggregator: Aggregator, watches: StudyWatches) -> None:
        seen: list[StudyStatus] = []
        watching = [asyncio.ensure_future(watch(watches, aggregator, seen)) for _ in range(3)]
        await settled()
        aggregator.error = StoreError("the disk")
        await aggregator.period()
        for one in watching:
            with pytest.raises(StoreError, match="the disk"):
                await one
        assert watches.sources == 0
        aggregator.error = None
        again = asyncio.ensure_future(watch(watches, aggregator, seen))
        await settled()
        assert seen == [OPEN] * 4
        again.cancel()

    run(scenario)


def test_studies_have_a_source_each() -> None:
    async def scenario(aggregator: Aggregator, watches: StudyWatches) -> None:
        first = asyncio.ensure_future(watch(watches, aggregator, []))
        async with aclosing(watches.statuses(ANOTHER, aggregator.read)) as statuses:
            assert await anext(statuses) == OPEN
            await settled()
            assert watches.sources == 2
        assert watches.sources == 1
        first.cancel()

    run(scenario)
