"""Ends of open rounds: their deadlines on a steady clock, and the ends of their epochs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace

from askance_aggregator.clock import SteadyClock
from askance_aggregator.encoding import read_terms
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import Deadline, RoundNote, Store
from askance_aggregator.studies.rounds import Round
from askance_client.errors import StoreError
from askance_client.service.observable import Sleep

# Between two looks at the clock, and two notes of what is left of a round: a machine that starts
# again gives its rounds at most this much more time than they had left.
_LONGEST_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class NotedRound:
    """A round that is durable, and what ends it.

    Args:
      closed: whether it has closed before.
      age_s: seconds since it was first opened, by whichever process.
      deadline: on this process's clock; None: it has none.
      epoch_left_ms: returns the milliseconds until the end of its epoch; None: no such end.
    """

    round: Round
    closed: bool
    age_s: int
    deadline: Deadline | None
    clock: SteadyClock
    epoch_left_ms: Callable[[], int] | None

    @property
    def ends(self) -> bool:
        """True if something but its members' answers ends it."""
        return self.deadline is not None or self.epoch_left_ms is not None

    @property
    def over(self) -> bool:
        """True if no member is to be asked: an answer would come too late."""
        return self.closed or (self.ends and self.left_ms() <= 0)

    def left_ms(self) -> int:
        """Return the milliseconds until it closes; it must end."""
        left = [] if self.epoch_left_ms is None else [self.epoch_left_ms()]
        if self.deadline is not None:
            left.append(self.deadline.at_ms - self.clock.now_ms())
        return min(left)


class RoundDeadlines:
    """Note the deadlines of rounds and close these at their ends; in the hub's event loop.

    Args:
      clock: by which rounds close; it is never set.
    """

    def __init__(self, store: Store, executor: Executor, clock: SteadyClock, sleep: Sleep) -> None:
        self._store = store
        self._run = InExecutor(executor)
        self._clock = clock
        self._sleep = sleep

    async def note(
        self, opened: OpenRound, round_: Round, epoch_left_ms: Callable[[], int] | None
    ) -> NotedRound:
        """Make durable that a round is about to be asked; it keeps the deadline it had first."""
        lasts_ms = 1000 * read_terms(round_.study.study).conduct.round_deadline_s
        fresh = self._deadline(lasts_ms) if lasts_ms else None

        def note() -> RoundNote:
            study, number, epoch = round_.study_digest, round_.number, round_.epoch
            self._store.add_study(study, round_.study)
            found = self._store.open_round(study, number, list(opened.requests), fresh, epoch)
            if found.deadline is None or self._on_this_clock(found.deadline):
                return found
            # Another run of the machine: only a clock that is set would show how long it was off.
            deadline = self._deadline(found.deadline.left_ms)
            self._store.note_deadline(study, number, deadline, epoch)
            return replace(found, deadline=deadline)

        noted = await self._run(note)
        return NotedRound(
            round_, noted.closed, noted.age_s, noted.deadline, self._clock, epoch_left_ms
        )

    async def close_at_end(self, opened: OpenRound, noted: NotedRound) -> None:
        """Close a round at its end; note meanwhile how much is left until its deadline."""
        while (left_ms := noted.left_ms()) > 0:
            await self._sleep(min(left_ms, _LONGEST_WAIT_MS))
            if noted.deadline is not None and noted.left_ms() > 0:
                with suppress(StoreError):  # the store's observer has it; the next note comes soon
                    await self._note_left(noted.round, noted.deadline)
        opened.close()

    def timer(self, opened: OpenRound, noted: NotedRound) -> RoundTimer:
        """Return the timer of a round that is open; it does not run yet."""
        return RoundTimer(self, opened, noted)

    def hold(self, noted: NotedRound) -> Deadline | None:
        """Return what is left of a round's deadline, on no clock; None: it has none."""
        if noted.deadline is None:
            return None
        return Deadline("", 0, max(noted.deadline.at_ms - self._clock.now_ms(), 1))

    def go_on(self, held: Deadline | None) -> Deadline | None:
        """Return a deadline on the clock again after a hold."""
        return None if held is None else self._deadline(held.left_ms)

    async def keep(self, round_: Round, deadline: Deadline | None) -> None:
        """Note a deadline that has changed, for the process after this one."""
        if deadline is not None:
            with suppress(StoreError):  # the store's observer has it
                await self._write(round_, deadline)

    async def _note_left(self, round_: Round, deadline: Deadline) -> None:
        left_ms = deadline.at_ms - self._clock.now_ms()
        await self._write(round_, Deadline(deadline.boot, deadline.at_ms, left_ms))

    async def _write(self, round_: Round, deadline: Deadline) -> None:
        note, study = self._store.note_deadline, round_.study_digest
        await self._run(note, study, round_.number, deadline, round_.epoch)

    def _deadline(self, left_ms: int) -> Deadline:
        return Deadline(self._clock.boot, self._clock.now_ms() + left_ms, left_ms)

    def _on_this_clock(self, deadline: Deadline) -> bool:
        return bool(deadline.boot) and deadline.boot == self._clock.boot


class RoundTimer:
    """Timer of one open round; its deadline stands still while the round is held.

    The end of an epoch does not wait: a round that is held then closes with what has come.
    """

    def __init__(self, deadlines: RoundDeadlines, opened: OpenRound, noted: NotedRound) -> None:
        self._deadlines = deadlines
        self._opened = opened
        self._noted = noted
        self._held: Deadline | None = None
        self._task: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Wait for the round's end, if it has one."""
        if self._noted.ends:
            self._task = asyncio.ensure_future(
                self._deadlines.close_at_end(self._opened, self._noted)
            )

    def hold(self) -> None:
        """Let no time pass until `go_on`, but for the epoch's."""
        self.cancel()
        self._held = self._deadlines.hold(self._noted) or self._held
        self._noted = replace(self._noted, deadline=None)
        self._task = asyncio.ensure_future(self._changed(self._held))

    def go_on(self) -> None:
        """Let the time that was left pass."""
        self.cancel()
        deadline = self._deadlines.go_on(self._held)
        self._held, self._noted = None, replace(self._noted, deadline=deadline)
        self._task = asyncio.ensure_future(self._changed(deadline))

    def cancel(self) -> None:
        """Wait no more."""
        if self._task is not None:
            self._task.cancel()

    async def _changed(self, deadline: Deadline | None) -> None:
        await self._deadlines.keep(self._noted.round, deadline)
        if self._noted.ends:
            await self._deadlines.close_at_end(self._opened, self._noted)
