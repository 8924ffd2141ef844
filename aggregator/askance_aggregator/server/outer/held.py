"""Counts of what callers hold: calls, connections, bytes that they have not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Held(Generic[K]):
    """Counts what callers hold, of each and in all; for one event loop.

    It keeps nothing about a caller who holds nothing: its length is the number of callers.
    """

    def __init__(self) -> None:
        self.total = 0
        self._by: Counter[K] = Counter()

    def __len__(self) -> int:
        return len(self._by)

    def of(self, caller: K) -> int:
        """Return what a caller holds."""
        return self._by[caller]

    @contextmanager
    def hold(self, caller: K, number: int = 1) -> Iterator[None]:
        """Count so many more of a caller for the length of a block."""
        self.take(caller, number)
        try:
            yield
        finally:
            self.give_back(caller, number)

    def take(self, caller: K, number: int = 1) -> None:
        """Count so many more of a caller, until `give_back`."""
        self.total += number
        self._by[caller] += number

    def give_back(self, caller: K, number: int = 1) -> None:
        """Count so many less of a caller."""
        self.total -= number
        self._by[caller] -= number
        if not self._by[caller]:
            del self._by[caller]
