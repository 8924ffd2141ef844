"""Reports that other replicas have stored: no news is lost, and few hints say it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from askance_aggregator.families import k_ary_response
from askance_aggregator.server.devices.followed_rounds import StoredReports
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.store import SqliteStore, StoredReport
from askance_aggregator.store.replicas import EqualReports, Replicas
from askance_aggregator.studies import Round
from askance_aggregator.studies.intake import without_sequence
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of, encode_report
from askance_client.messages import Report

USERS = 3


class Shared(Replicas):
    """Replicas of which another one stores reports."""

    shared = True

    def __init__(self) -> None:
        self.kept: list[EqualReports] = []
        self.hints = 0

    def hint(self) -> None:
        self.hints += 1

    def stored_since(
        self, request_digests: Sequence[bytes], position: int
    ) -> tuple[list[EqualReports], int]:
        return list(self.kept), position


class Scene:
    """An open round, and a store whose reads take as long as a test likes."""

    def __init__(self, world: Any) -> None:
        round_ = world.broadcast(USERS)
        self.answered = 0
        self.opened = OpenRound(round_, world.accounts(USERS), self.note_answered)
        self.data = encode_report(Report(round_.groups[0].digest, b"\x01", 1, 1))
        self.replicas = Shared()
        store = SqliteStore.in_memory()
        store.replicas = self.replicas
        self.let = asyncio.Event()
        self.let.set()
        self.reads = 0
        self.reports = StoredReports(store, self.run)

    def note_answered(self) -> None:
        self.answered += 1

    async def run(self, work: Callable[..., Any], *words: Any) -> Any:
        self.reads += 1
        found = work(*words)
        await self.let.wait()
        return found

    def store(self, *ordinals: int) -> None:
        self.replicas.kept.append(EqualReports(self.data, np.array(ordinals)))

    def add(self, ordinal: int) -> None:
        reports = self.opened.check((self.data,))
        assert not isinstance(reports, int)
        place = self.opened.place(reports, ordinal)
        assert place is not None
        self.opened.add(reports, ordinal, place)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_news_that_comes_during_a_look_is_looked_at(world: Any, run: Callable[[Any], Any]) -> None:
    async def scenario() -> None:
        scene = Scene(world)
        scene.opened.begin()
        scene.let.clear()
        scene.reports.look([scene.opened])
        await turns()
        scene.store(0, 1, 2)  # after the store was read
        scene.reports.look([scene.opened])
        scene.let.set()
        await scene.opened.closed()
        assert (scene.opened.outstanding, scene.reads) == (0, 2)
        await turns()
        assert scene.reports.tasks == []

    run(scenario())


def test_news_that_comes_before_a_round_has_begun_is_kept(
    world: Any, run: Callable[[Any], Any]
) -> None:
    async def scenario() -> None:
        scene = Scene(world)
        scene.reports.look([scene.opened])
        assert (scene.opened.news, scene.reports.tasks) == (True, [])
        await scene.reports.enter_new(scene.opened)
        assert not scene.opened.news

    run(scenario())


def test_hints_within_a_short_time_are_one(world: Any, run: Callable[[Any], Any]) -> None:
    async def scenario() -> None:
        scene = Scene(world)
        for _ in range(5):
            scene.reports.hint()
        await asyncio.wait(scene.reports.tasks)
        assert scene.replicas.hints == 1
        scene.reports.hint()
        await turns()
        for _ in range(5):
            scene.reports.hint()  # after one was given: once more
        await asyncio.wait(scene.reports.tasks)
        assert scene.replicas.hints == 3

    run(scenario())


def test_it_is_said_when_those_that_were_asked_have_answered(
    world: Any, run: Callable[[Any], Any]
) -> None:
    async def scenario() -> None:
        scene = Scene(world)
        scene.opened.begin()
        for ordinal in (0, 0, 1):
            scene.opened.note_asked(ordinal)
        scene.add(2)  # asked by another process
        scene.add(0)
        assert scene.answered == 0
        scene.add(1)
        scene.add(1)
        assert scene.answered == 1

    run(scenario())


@pytest.mark.parametrize("own_first", [False, True])
def test_an_answer_that_another_process_took_is_awaited_no_more(
    world: Any, run: Callable[[Any], Any], own_first: bool
) -> None:
    async def scenario() -> None:
        scene = Scene(world)
        scene.opened.begin()
        for ordinal in (0, 1):
            scene.opened.note_asked(ordinal)
        steps: list[Callable[[], None]] = [
            lambda: scene.opened.add_stored(scene.data, np.array([0, *range(10, 20)])),
            lambda: scene.add(1),
        ]
        for step in reversed(steps) if own_first else steps:
            assert scene.answered == 0
            step()
        assert (scene.answered, scene.opened.outstanding) == (1, 1)

    run(scenario())


def test_a_stored_report_that_ends_like_a_sequence_number_is_counted(
    world: Any, run: Callable[[Any], Any]
) -> None:
    """An answer that was charged in another study has no sequence number: it ends with a symbol."""

    async def read(work: Callable[..., Any], *words: Any) -> Any:
        return work(*words)

    async def scenario() -> None:
        randomizer = k_ary_response(1 << 14, parse_epsilon("1"))
        group = world.group(range(USERS), USERS, randomizer=randomizer)
        round_ = Round(0, world.study, digest_of(world.study.study), (group,))
        opened = OpenRound(round_, world.accounts(USERS), lambda: None)
        store = SqliteStore.in_memory()
        like_it = encode_report(Report(group.digest, b"\x30\x05", 0, 0))
        assert without_sequence(like_it) == (like_it[:-2], 5)
        other = encode_report(Report(group.digest, b"\x01\x05", 1, 1, 7))
        store.accept(
            [
                StoredReport(group.digest, 0, like_it, 0),
                StoredReport(group.digest, 1, other, 7),
                StoredReport(group.digest, 2, like_it, 0),
            ]
        )
        opened.begin()
        await StoredReports(store, read).enter_all(opened)
        assert opened.outstanding == 0

    run(scenario())
