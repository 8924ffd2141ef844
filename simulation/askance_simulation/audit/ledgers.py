"""Ledgers that outlive their device, so that it can be restarted; one at a time."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Protocol

from askance_client.ledger import Ledger, LedgerFile
from askance_simulation.fleets.memory_ledger import MemoryLedger


class Ledgers(Protocol):
    """Factory of the devices' ledgers."""

    def fresh(self) -> Ledger:
        """Return an empty one; the last one is given up."""
        ...

    def reopened(self) -> Ledger:
        """Return the last one, as a device finds it after a restart."""
        ...


class MemoryLedgers:
    """Ledgers of simulated devices, in memory; a restart finds the same object."""

    def __init__(self) -> None:
        self._kept = MemoryLedger()

    def fresh(self) -> Ledger:
        """Return an empty one."""
        self._kept = MemoryLedger()
        return self._kept

    def reopened(self) -> Ledger:
        """Return the last one."""
        return self._kept


class FileLedgers:
    """Ledgers of real devices: files in a folder, closed and opened again; a context manager.

    Args:
      folder: an empty one; the caller removes it.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = (folder / f"{number}.ledger" for number in count())
        self._path = folder
        self._file: LedgerFile | None = None

    def __enter__(self) -> FileLedgers:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def fresh(self) -> Ledger:
        """Return a new file's.

        Raises:
          StoreError: the disk fails.
        """
        self._close()
        self._path = next(self._paths)
        self._file = LedgerFile.create(self._path)
        return self._file.ledger()

    def reopened(self) -> Ledger:
        """Return the last file's, read anew.

        Raises:
          StoreError: there was none, or it cannot be read.
        """
        self._close()
        self._file = LedgerFile.open(self._path)
        return self._file.ledger()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
