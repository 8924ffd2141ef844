"""A SQLite store that one process serves and operators' commands open beside it.

The process that serves locks a file beside the store, which no second one can; the store itself is
not locked between transactions. Both wait for each other's transactions.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

from askance_aggregator.store.migrations import KIND
from askance_client.errors import StoreError
from askance_client.sqlite_file import SqliteFile

_WAIT_S = 10.0  # for another process's transaction: one that revokes 10^6 devices takes some 5 s
_PRIVATE = 0o600


class ServingLock:
    """Lock of the one process that serves a store; the system releases it when the process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Args:
          path: of the store; the lock's file is beside it and stays there, empty.

        Raises:
          StoreError: another process has the lock, or the disk says no.
        """
        try:
            self._descriptor = os.open(
                path.with_name(f"{path.name}-lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE
            )
        except OSError as error:
            raise StoreError(f"store {path}: cannot be locked: {error.strerror}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise StoreError(
                f"store {path}: expected one that no other process uses, found it in use: stop that"
                " process first"
            ) from None

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def open_shared(path: Path) -> SqliteFile:
    """Open a store's file that other processes may have open, and bring it up to date.

    Raises:
      StoreError: no file, no store, damaged, or held by a process that shares it with none.
      UnsupportedStore: written by a newer version.
    """
    return SqliteFile.open(path, KIND, _connect_shared)


def _connect_shared(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_WAIT_S)
