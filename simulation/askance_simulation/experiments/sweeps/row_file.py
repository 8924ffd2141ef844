"""A file of rows that a killed process can be followed on: whole lines, each durable."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from askance_client.durable_files import sync
from askance_client.errors import InvalidParameter

Row = dict[str, Any]

_OPENING = '{"cell": "'
"""First bytes of every row, so that a torn row is distinguished from other text."""


class RowFile:
    """Rows in JSON, one per line, appended only; one process at a time has it open."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self.rows, whole = _parsed(path)
        os.ftruncate(descriptor, whole)  # what a crash has torn off the last line

    def append(self, row: Row) -> None:
        """Write a row; it is durable when this returns.

        Raises:
          OSError: the row cannot be written, as on a full disk; earlier rows stay as they are.
        """
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None


@contextmanager
def opened(path: Path) -> Iterator[RowFile]:
    """Open the file, made if there is none."""
    descriptor = _locked(path)
    try:
        yield RowFile(path, descriptor)
    finally:
        if os.fstat(descriptor).st_size == 0:
            path.unlink(missing_ok=True)  # nothing was run
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Open and lock the file; a process without the lock leaves the file as it is."""
    while True:
        new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, descriptor):
                if new:
                    sync(path.parent)
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise InvalidParameter(f"{path}: another process is writing it") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last owner had written nothing, and removed it


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path still leads to the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def read_rows(path: Path) -> list[Row]:
    """Read the whole rows of a file, which may be written at the same time."""
    if not path.is_file():
        raise InvalidParameter(f"{path}: expected a file of rows, got none")
    return _parsed(path)[0]


def is_of_a_sweep(path: Path) -> bool:
    """Return whether the file has rows of a sweep, which no other sweep may overwrite."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_OPENING)) == _OPENING.encode()


def _parsed(path: Path) -> tuple[list[Row], int]:
    """Return the rows, and the bytes that they take; after them there may be a torn one."""
    data = path.read_bytes()
    rows, whole = [], 0
    for number, line in enumerate(data.splitlines(keepends=True), start=1):
        row = _row(line)
        if row is None:
            rest = data[whole:]
            if b"\n" not in rest and _torn(rest):
                break
            raise InvalidParameter(
                f"{path}: expected a sweep's row, got another text on line {number}"
            )
        rows.append(row)
        whole += len(line)
    return rows, whole


def _row(line: bytes) -> Row | None:
    if not line.endswith(b"\n"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and _names_a_trial(found) else None


def _names_a_trial(row: Row) -> bool:
    """Return whether a row identifies a trial; its writer has written all other fields."""
    return isinstance(row.get("cell"), str) and isinstance(row.get("trial"), int)


def _torn(rest: bytes) -> bool:
    opening = _OPENING.encode()
    return rest.startswith(opening) or opening.startswith(rest)
