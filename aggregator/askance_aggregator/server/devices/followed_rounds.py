"""Rounds that another replica drives, and reports that are in the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any

import numpy as np

from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.store import Store
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.intake import without_sequence
from askance_aggregator.studies.rounds import Round
from askance_client.messages import AckStatus

_LOGGER = logging.getLogger(__name__)
_PAGE = 1024  # reports that are entered between two turns of the loop
_HINT_S = 0.02  # between two hints

RoundNumber = tuple[int, int]
"""Epoch and number of a round."""


class Hint(Enum):
    """State of the hints to other replicas."""

    NONE = "none"
    WANTED = "wanted"
    GIVEN = "given"


@dataclass(slots=True)
class _Followed:
    number: RoundNumber
    opened: OpenRound
    task: asyncio.Task[None]
    left: bool = False


class FollowedRounds:
    """Followed rounds, at most one per study; for use in one event loop."""

    def __init__(
        self,
        ask: Callable[[OpenRound, int], Coroutine[Any, Any, None]],
        is_open: Callable[[bytes], bool],
    ) -> None:
        self._ask = ask
        self._is_open = is_open
        self._rounds: dict[bytes, _Followed] = {}  # by study

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks that end when the rounds are closed."""
        return [followed.task for followed in self._rounds.values()]

    def follow(
        self,
        round_: Round,
        accounts: Accounts,
        on_answered: Callable[[], None] | None = None,
        age_s: int = 0,
    ) -> None:
        """Ask a round until it is left, in place of an earlier one of its study.

        A round that is followed already is left as it is. `on_answered` is called when the users
        that this process asked have all answered. It was opened `age_s` seconds ago.
        """
        study, number = round_.study_digest, (round_.epoch, round_.number)
        before = self._rounds.get(study)
        if before is not None and before.number == number and not before.left:
            return
        if before is not None:
            before.opened.close()
        opened = OpenRound(round_, accounts, on_answered)
        task = asyncio.ensure_future(self._follow(opened, age_s, before))
        self._rounds[study] = _Followed(number, opened, task)

    def number_of(self, study_digest: bytes) -> RoundNumber | None:
        """Return which round of a study is followed; may be called from any thread."""
        followed = self._rounds.get(study_digest)
        return None if followed is None or followed.left else followed.number

    def keep(self, rounds: Mapping[bytes, RoundNumber]) -> None:
        """Leave every round but these."""
        for study, followed in tuple(self._rounds.items()):
            if rounds.get(study) != followed.number:
                followed.left = True
                followed.opened.close()
                if followed.task.done():
                    del self._rounds[study]

    async def leave(self, study_digest: bytes) -> None:
        """Leave a study's round; what has arrived of it is committed."""
        followed = self._rounds.pop(study_digest, None)
        if followed is not None:
            followed.opened.close()
            await asyncio.wait([followed.task])

    async def _follow(self, opened: OpenRound, age_s: int, before: _Followed | None) -> None:
        """Ask a round, once the one before is left."""
        study = opened.study_digest
        if before is not None:
            await asyncio.wait([before.task])
        if self._is_open(study):  # not left by this process yet, which has lost its lease
            self._drop(opened)
            return
        try:
            await self._ask(opened, age_s)
        except Exception as error:  # the next look follows it again
            _LOGGER.warning("a round of another replica is left", exc_info=error)
            self._drop(opened)

    def _drop(self, opened: OpenRound) -> None:
        """Forget a round, unless a newer one of its study has taken its place."""
        followed = self._rounds.get(opened.study_digest)
        if followed is not None and followed.opened is opened:
            del self._rounds[opened.study_digest]


class StoredReports:
    """Reports of open rounds that are in the store; for use in one event loop."""

    def __init__(self, store: Store, run: Callable[..., Awaitable[Any]]) -> None:
        self._store = store
        self._run = run
        self._at_work: set[asyncio.Task[None]] = set()
        self._hint: Hint = Hint.NONE

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Tasks that enter reports now, or let other replicas look."""
        return list(self._at_work)

    async def enter_first(self, opened: OpenRound) -> None:
        """Enter what the store holds of a round that has not begun."""
        stored, opened.position = await self._run(
            self._store.replicas.stored, tuple(opened.requests)
        )
        if stored is None:
            await self.enter_all(opened)
            return
        for data, ordinals in stored:
            opened.add_stored(data, ordinals)

    async def enter_all(self, opened: OpenRound) -> None:
        """Enter what the store holds of a round, a page at a time."""
        for digest in opened.requests:
            reports = self._store.reports(digest)

            def page() -> list[tuple[int, bytes]]:
                return list(islice(reports, _PAGE))  # noqa: B023  # called before the next turn

            while stored := await self._run(page):
                equal: dict[bytes, list[tuple[int, bytes]]] = {}
                for ordinal, data in stored:
                    equal.setdefault(without_sequence(data)[0], []).append((ordinal, data))
                for data, same in equal.items():
                    if not isinstance(opened.check((data,)), AckStatus):
                        ordinals = [ordinal for ordinal, _ in same]
                        opened.add_stored(data, np.array(ordinals, np.int64))
                        continue
                    for ordinal, whole in same:  # its end is no sequence number, but a symbol's
                        opened.add_stored(whole, np.array([ordinal], np.int64))

    async def enter_new(self, opened: OpenRound) -> None:
        """Enter what other replicas have stored of a round since the last time."""
        async with opened.catching_up:
            opened.news = False
            stored, opened.position = await self._run(
                self._store.replicas.stored_since, tuple(opened.requests), opened.position
            )
            for data, ordinals in stored:
                opened.add_stored(data, ordinals)

    def look(self, rounds: Iterable[OpenRound]) -> None:
        """Enter it soon; what fails for want of the store is tried at the next look."""
        for opened in rounds:
            if opened.asking and not opened.catching_up.locked():
                self._start(self._catch_up(opened))
            else:
                opened.news = True  # to look once more: the read under way may lack it

    def hint(self) -> None:
        """Let other replicas look soon; many hints within a short time are one."""
        if self._hint is Hint.NONE:
            self._start(self._give_hints())
        self._hint = Hint.WANTED

    async def _catch_up(self, opened: OpenRound) -> None:
        await self.enter_new(opened)
        while opened.news and not opened.closing:
            await self.enter_new(opened)

    async def _give_hints(self) -> None:
        try:
            while self._hint is Hint.WANTED:
                self._hint = Hint.GIVEN
                await self._run(self._store.replicas.hint)
                await asyncio.sleep(_HINT_S)
        finally:
            self._hint = Hint.NONE

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._at_work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._at_work.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            _LOGGER.warning("the store was not looked at", exc_info=error)
