"""State of a store, read from outside for an operator's checks; nothing is changed or held."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from dataclasses import dataclass
from pathlib import Path

from askance_aggregator.store.migrations import KIND
from askance_client.errors import StoreError

# The file's header is read as bytes (https://sqlite.org/fileformat2.html, section 1.3): to open a
# file in WAL mode makes two files beside it, which would belong to the operator, perhaps root.
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_VERSION_PLACE = 60  # user_version
_APPLICATION_PLACE = 68  # application_id
_LOCKS_PLACE, _LOCKS_BYTES = 1 << 30, 512  # where SQLite locks: pending, reserved, shared
_FLOCK = struct.Struct("hhqqi")  # Linux: struct flock


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """State of a store.

    Args:
      schema: version of the schema; None where there is none, or it cannot be read now.
      needed_schema: version that this askance needs.
      updates_itself: True if `serve` applies missing steps, False if `migrate` does.
      in_use: True if an aggregator holds it.
      folder: where its file is; None for a server elsewhere.
      unfit: settings or a version with which it is refused, one line each.
      missing_rights: rights that the role or user lacks.
      clock_ahead_s: the database's clock minus this machine's, in seconds; None: the same clock.
      written_unix_s: last change of its file; None for a server elsewhere.
    """

    engine: str
    schema: int | None
    needed_schema: int
    updates_itself: bool
    in_use: bool
    folder: Path | None = None
    unfit: tuple[str, ...] = ()
    missing_rights: tuple[str, ...] = ()
    clock_ahead_s: float | None = None
    written_unix_s: int | None = None


def inspect_file(path: Path) -> StoreFacts:
    """Inspect a store in a SQLite file; raise StoreError if there is none."""
    if not path.is_file():
        raise StoreError(f"store {path}: expected a store, found no file ({KIND.make})")
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            in_use = _is_locked(file.fileno())
    except OSError as error:
        raise StoreError(f"store {path}: cannot be read: {error.strerror}") from None
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreError(f"store {path}: expected a SQLite file, got other bytes")
    version, application = (
        int.from_bytes(header[place : place + 4], "big")
        for place in (_VERSION_PLACE, _APPLICATION_PLACE)
    )
    if application != KIND.application:
        raise StoreError(
            f"store {path}: expected application id {KIND.application:#x}, got {application:#x}"
        )
    return StoreFacts(
        engine=f"SQLite {sqlite3.sqlite_version}",
        schema=None if in_use else version,
        needed_schema=KIND.version,
        updates_itself=True,
        in_use=in_use,
        folder=path.parent,
        missing_rights=tuple(
            f"{name} {path}"
            for name, mode in (("to read", os.R_OK), ("to write", os.W_OK))
            if not os.access(path, mode)
        ),
        written_unix_s=int(path.stat().st_mtime),
    )


def _is_locked(descriptor: int) -> bool:
    """Return whether another process has a lock on a SQLite file; takes none. Linux only."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _LOCKS_PLACE, _LOCKS_BYTES, 0)
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
