"""Many threads' steps in one commit, so that they wait for the disk together."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from askance_client.errors import StoreError
from askance_client.ledger.marked import MarkedFile
from askance_client.sqlite_file import ProcessLock

T = TypeVar("T")


class GroupCommit:
    """Commit together the steps that arrive during the commit before; there is no timer.

    The first thread that comes leads: it runs the steps of all that wait, its own among them, in
    one transaction, and wakes them when the disk has it and the mark has reached it. A step that
    came meanwhile is the next commit, led by the first of them. A lone thread commits at once.

    No effect of a step is visible before it is durable: the file is held from the first
    step's first statement until the commit has returned.
    """

    def __init__(self, file: MarkedFile) -> None:
        self._file = file
        self._guard = ProcessLock()  # of the two below
        self._waiting: list[_Step[Any]] = []
        self._led = False

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a step and return what it returned, durably.

        Args:
          work: reads, and then writes, as the last thing it does and by statements only; so one
            that raises anything but the disk's error has written nothing, and the others' steps
            stand.

        Raises:
          StoreError: nothing of the whole transaction was made durable.
        """
        step: _Step[T] = _Step(work)
        with self._guard:
            self._waiting.append(step)
            leads = not self._led
            self._led = True
        if not leads:
            step.woken.wait()
        if not step.settled:
            self._lead()
        if step.failure is not None:
            raise step.failure
        return step.results[0]

    def _lead(self) -> None:
        with self._guard:
            batch, self._waiting = self._waiting, []
        try:
            with self._file.transaction() as connection:
                for step in batch:
                    step.take(connection)
        except BaseException as failure:
            # All that wait must get the error; the leader gets it by this very raise.
            for step in batch:
                step.failure = StoreError(str(failure) or "ledger: nothing was spent")
            raise
        finally:
            self._hand_over(batch)

    def _hand_over(self, batch: list[_Step[Any]]) -> None:
        with self._guard:
            if self._waiting:
                self._waiting[0].woken.set()  # leads the next
            else:
                self._led = False
        for step in batch:
            step.settled = True
            step.woken.set()


class _Step(Generic[T]):
    """Thread's part of a commit."""

    __slots__ = ("failure", "results", "settled", "woken", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self.work = work
        self.woken = threading.Event()
        self.settled = False
        self.results: list[T] = []
        self.failure: BaseException | None = None

    def take(self, connection: sqlite3.Connection) -> None:
        """Run the step; a failure of the disk fails all steps, any other this step alone."""
        try:
            self.results.append(self.work(connection))
        except sqlite3.Error:
            raise
        except Exception as failure:
            self.failure = failure
