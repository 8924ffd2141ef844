"""Backup of the SQLite store while it is written to, and its restoration into a new file."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from askance_aggregator.store.backups import (
    CHUNK_BYTES,
    BackupFile,
    BackupWriter,
    Manifest,
    write_backup,
)
from askance_aggregator.store.migrations import KIND
from askance_client.durable_files import sync
from askance_client.errors import StoreError
from askance_client.sqlite_file import SqliteFile

SQLITE = "sqlite"
_PART = "store.sqlite"
_PAGES = 512  # that a copy takes at a time: 2 MiB, some 2 ms
_YIELD_S = 0.0005  # a lock is not handed over: a thread that waits for it has to be let in


def _copy(file: SqliteFile, path: Path) -> None:
    """Copy an open file to a new one, as it is at the end; transactions pass in between."""

    def others(*_: int) -> None:
        file.lock.release()
        time.sleep(_YIELD_S)
        file.lock.acquire()

    with file.reading() as connection, closing(sqlite3.connect(path)) as target:
        connection.backup(target, pages=_PAGES, progress=others)
    sync(path)


def back_up_sqlite(file: SqliteFile, path: Path, now_s: int) -> Manifest:
    """Write a backup of an open file to a new one; transactions pass while it is copied.

    An image of the store is made beside the backup meanwhile.

    Raises:
      StoreError: the store cannot be read, or the backup not be written; nothing is left.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
            image = Path(folder) / _PART
            _copy(file, image)
            with closing(sqlite3.connect(image)) as copied:
                (devices,) = copied.execute("SELECT count(*) FROM devices").fetchone()
                (studies,) = copied.execute("SELECT count(*) FROM studies").fetchone()

            def fill(writer: BackupWriter) -> Manifest:
                writer.add(_PART, _chunks(image))
                return writer.finish(
                    SQLITE, KIND.version, at_unix_s=now_s, devices=devices, studies=studies
                )

            return write_backup(path, fill)
    except OSError as error:
        raise StoreError(f"backup {path}: cannot be written: {error.strerror}") from None
    except sqlite3.Error as error:
        raise StoreError(f"backup {path}: cannot be written: {error}") from None


def restore_sqlite(backup: BackupFile, path: Path, now_s: int) -> None:
    """Make a store of a backup, at a path where none is, and note that it was restored.

    Raises:
      StoreError: something is there already, or the backup is damaged or of another kind or a
        newer version; nothing is left.
    """
    for there in (path, path.with_name(f"{path.name}-wal")):  # a WAL that is left is read again
        if there.exists():
            raise StoreError(f"store {there}: expected no file there yet, got one (move it away)")
    backup.check(SQLITE, KIND.version)
    (part,) = backup.manifest.parts
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as image:
                for chunk in backup.chunks(part):
                    image.write(chunk)
            with closing(SqliteFile.open(beside, KIND)) as file, file.transaction() as connection:
                connection.execute("DELETE FROM restored_sequences")
                connection.execute(
                    "INSERT INTO restored_sequences SELECT ordinal, acknowledged_sequence"
                    " FROM devices WHERE acknowledged_sequence > 0"
                )
                connection.execute(
                    "INSERT INTO restores VALUES (?, ?)", (now_s, backup.manifest.at_unix_s)
                )
            sync(beside)
            os.link(beside, path)
            sync(path.parent)
        finally:
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    beside.with_name(beside.name + suffix).unlink()
    except FileExistsError:
        raise StoreError(f"store {path}: expected no file there yet, got one") from None
    except OSError as error:
        raise StoreError(f"store {path}: cannot be made: {error.strerror}") from None


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
