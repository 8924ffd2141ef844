"""Observer of a store's disk."""

from __future__ import annotations

from typing import Protocol

from askance_client.errors import StoreFailed


class StoreWatch(Protocol):
    """Observer of a store's writes. Called in the thread that wrote, with the store unlocked."""

    def store_written(self) -> None:
        """A write became durable."""

    def store_failed(self, error: StoreFailed) -> None:
        """A read or a write failed by the disk's fault."""


class Unwatched:
    """An observer that does nothing."""

    def store_written(self) -> None:
        """Do nothing."""

    def store_failed(self, error: StoreFailed) -> None:
        """Do nothing."""


UNWATCHED = Unwatched()
