"""Stores and ledgers of a process that dies at a chosen write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from askance_client.errors import StoreError

T = TypeVar("T")

WRITES = frozenset(
    {"add_study", "open_round", "close_round", "append", "accept", "conclude", "commit"}
)
"""Durable operations of a store, a transcript and a ledger."""


class Life:
    """Lifetime of a process: until it is killed, or until one of its writes.

    A process that is dead reads and writes nothing; whatever waits for it gets an error.
    """

    def __init__(self) -> None:
        self.ended = False
        self._lock = threading.Lock()
        self._writes: int | None = None
        self._kept = False
        self._failing: dict[str, bool] = {}

    def end(self) -> None:
        """Kill the process now."""
        self.ended = True

    def end_at(self, writes: int, *, kept: bool) -> None:
        """Kill the process after that many writes, at the next, before or after it is durable."""
        self._writes, self._kept = writes, kept

    def fail_at(self, write: str, *, kept: bool) -> None:
        """Make the disk fail at the next write of this kind, before or after it is durable.

        The process lives on.
        """
        self._failing[write] = kept

    def do(self, name: str, work: Callable[[], T]) -> T:
        """Perform an operation of the process on something durable."""
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
    """Proxy that forwards all operations while the process lives."""

    def __init__(self, thing: Any, life: Life) -> None:
        self._thing, self._life = thing, life

    def __getattr__(self, name: str) -> Any:
        if not callable(operation := getattr(self._thing, name)):
            return self._life.do(name, lambda: getattr(self._thing, name))

        def alive(*arguments: Any, **named: Any) -> Any:
            found = self._life.do(name, lambda: operation(*arguments, **named))
            return _Mortal(found, self._life) if name == "log" else found

        return alive


def mortal(thing: T, life: Life) -> T:
    """Wrap a store, transcript or ledger for a process with this lifetime."""
    return cast(T, _Mortal(thing, life))
