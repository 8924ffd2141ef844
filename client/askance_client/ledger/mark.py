"""The high-water mark beside a ledger file: the last row whose report may have left.

A ledger that was restored from a copy, or lost its log or some rows, is behind its mark. The mark
is written after the commit and before anything is sent, so it is never ahead of an intact ledger.

The file has two slots in sectors of their own, written in turn: a write that was cut short leaves
the other slot as it was. It is overwritten in place, so that one sync makes it durable.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from askance_client.durable_files import flush, write_new
from askance_client.errors import StoreError, StoreFailed

ID_BYTES = 16
_FIELDS = struct.Struct(">8s16sQ32s")
_MAGIC = b"askmark1"
_SLOT = 4096  # bytes; no two slots share a sector
_CHECK = 32


@dataclass(frozen=True, slots=True)
class High:
    """A place in a ledger file, up to which reports may have left.

    Args:
        ledger: the file's random id, 16 bytes.
        place: the number of the row; 0 before the first.
        chained: the row's hash, 32 bytes; zeros before the first.
    """

    ledger: bytes
    place: int
    chained: bytes


class LedgerCounter(Protocol):
    """A place outside the ledger's folder that only rises: a second mark, or a number.

    The `high` of a number alone has an empty id and an empty hash.
    """

    high: High

    def advance(self, place: int, chained: bytes) -> None:
        """Move it to a later row, durably (see `Mark.advance`)."""
        ...

    def close(self) -> None:
        """Release it; closing it again does nothing."""
        ...


class CounterPlace(Protocol):
    """Place of a counter: a path, or a command."""

    def open(self, made: High | None) -> LedgerCounter:
        """Open the counter.

        Args:
            made: where it is made if it is missing, for a ledger that never had one; None: the
                ledger had one, which may not be missing.

        Raises:
            StoreError: it is missing, damaged or not reached.
        """
        ...


def mark_path(path: Path) -> Path:
    """Return the path of the mark of the ledger at `path`."""
    return path.with_name(f"{path.name}.mark")


class Mark:
    """An open mark. To be used by one thread at a time."""

    def __init__(self, path: Path, descriptor: int, slot: int, high: High) -> None:
        """Use `create` or `open`."""
        self._path = path
        self._descriptor = descriptor
        self._slot = slot
        self.high = high

    @classmethod
    def create(cls, path: Path, high: High) -> Mark:
        """Make a mark at `path`, durable when this returns.

        Raises:
            StoreError: a file is there already, or the disk refuses.
        """
        try:
            write_new(path, new_mark(high), mode=0o600)
        except OSError as error:
            raise StoreError(f"mark {path}: cannot be made: {error.strerror}") from None
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Mark:
        """Open the mark at `path`.

        Raises:
            StoreError: no file, or no slot of it is whole.
            StoreFailed: it cannot be opened.
        """
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            raise StoreError(f"mark {path}: expected the ledger's mark, found no file") from None
        except OSError as error:
            raise StoreFailed(f"mark {path}: cannot be opened: {error.strerror}") from None
        try:
            slots = [(_read(descriptor, slot), slot) for slot in (0, 1)]
        except OSError as error:
            os.close(descriptor)
            raise StoreError(f"mark {path}: cannot be read: {error.strerror}") from None
        whole = [(high.place, slot, high) for high, slot in slots if high is not None]
        if not whole:
            os.close(descriptor)
            raise StoreError(f"mark {path}: expected a sound mark, found a damaged one")
        _, slot, high = max(whole, key=lambda found: found[:2])
        return cls(path, descriptor, slot, high)

    def advance(self, place: int, chained: bytes) -> None:
        """Move the mark to a later row, durably.

        Raises:
            StoreError: the disk refuses; nothing of the rows behind the mark may be sent.
        """
        high = High(self.high.ledger, place, chained)
        slot = 1 - self._slot
        try:
            written = os.pwrite(self._descriptor, _record(high), slot * _SLOT)
            if written != _FIELDS.size + _CHECK:
                raise OSError(0, "written in part")
            flush(self._descriptor)
        except OSError as error:
            raise StoreError(
                f"mark {self._path}: charged, and nothing was sent: {error.strerror}"
            ) from None
        self._slot, self.high = slot, high

    def close(self) -> None:
        """Close the file; closing it again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _record(high: High) -> bytes:
    fields = _FIELDS.pack(_MAGIC, high.ledger, high.place, high.chained)
    return fields + hashlib.sha256(fields).digest()


def new_mark(high: High) -> bytes:
    """Return the bytes of a new mark: both slots are alike."""
    return 2 * _record(high).ljust(_SLOT, b"\0")


def _read(descriptor: int, slot: int) -> High | None:
    """Return a slot's content, or None if it is not whole."""
    data = os.pread(descriptor, _FIELDS.size + _CHECK, slot * _SLOT)
    fields = data[: _FIELDS.size]
    if len(data) < _FIELDS.size + _CHECK or hashlib.sha256(fields).digest() != data[len(fields) :]:
        return None
    magic, ledger, place, chained = _FIELDS.unpack(fields)
    return High(ledger, place, chained) if magic == _MAGIC else None
