"""Things as one process has them: they die with it, at a write of one's choice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from askance.client.errors import StoreError

T = TypeVar("T")

WRITES = frozenset(
    {"add_study", "open_round", "close_round", "append", "accept", "conclude", "commit"}
)
"""Of a store, a transcript and a ledger: what makes something durable."""


class Life:
    """How long a process lives: until it is killed, or until one of its writes.

    A process that is dead reads and writes nothing; whatever waits for it gets an error.
    """

    def __init__(self) -> None:
        self.ended = False
        self._lock = threading.Lock()
        self._writes: int | None = None
        self._kept = False
        self._failing: dict[str, bool] = {}

    def end(self) -> None:
        """Killed, here and now."""
        self.ended = True

    def end_at(self, writes: int, *, kept: bool) -> None:
        """To be killed after so many writes and at the next, before or after it is durable."""
        self._writes, self._kept = writes, kept

    def fail_at(self, write: str, *, kept: bool) -> None:
        """The disk is to fail at the next write of this kind, before or after it is durable; the
        process lives on."""
        self._failing[write] = kept

    def do(self, name: str, work: Callable[[], T]) -> T:
        """An operation of the process on something durable."""
        with self._lock:
            if self.ended:
                raise StoreError("the process is dead")
            if name in self._failing:
                if self._failing.pop(name):
                    work()
                raise StoreError("the disk failed")
            if name not in WRITES or self._writes is None:
                return work()
            self._writes -= 1
            if self._writes >= 0:
                return work()
            self.ended = True
            if self._kept:
                work()
            raise StoreError("the process died at a write")


class _Mortal:
    """Passes everything on for as long as the process lives."""

    def __init__(self, thing: Any, life: Life) -> None:
        self._thing, self._life = thing, life

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._thing, name)

        def alive(*arguments: Any, **named: Any) -> Any:
            found = self._life.do(name, lambda: operation(*arguments, **named))
            return _Mortal(found, self._life) if name == "log" else found

        return alive


def mortal(thing: T, life: Life) -> T:
    """A store, transcript or ledger as a process with this life has it."""
    return cast(T, _Mortal(thing, life))
