"""The store of a service that is one process: one SQLite file, every commit synced to the disk.

The process that serves locks a file beside the store, which no second one can; the store itself is
not locked between transactions, so that operators' commands open it beside. All wait for each
other's transactions.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

from askance_aggregator.store.backups import (
    CHUNK_BYTES,
    BackupFile,
    BackupWriter,
    Manifest,
    write_backup,
)
from askance_aggregator.store.dialect import Execute, marks, note_restoration
from askance_aggregator.store.migrations import KIND
from askance_aggregator.store.moves import check_not_moved
from askance_aggregator.store.replicas import Replicas
from askance_aggregator.store.retention import reports_deleted
from askance_aggregator.store.sql_store import Store
from askance_aggregator.store.values import MAX_EVIDENCE, StoredReport
from askance_aggregator.store.watch import UNWATCHED, StoreWatch
from askance_client.durable_files import sync
from askance_client.errors import StoreError, StoreFailed
from askance_client.messages import AckStatus
from askance_client.sqlite_file import SqliteFile

T = TypeVar("T")
_PRIVATE = 0o600
_PROBE_BYTES = 64 * 1024  # some commits of reports
_REPORTS_AT_ONCE = 1024  # that one statement stores
_WAIT_S = 10.0  # for another process's transaction: one that revokes 10^6 devices takes some 5 s
_REMOVED_BYTES = 1 << 19
"""Size of the reports that one transaction removes: long ones have pages of their own, of which
each takes as long as ten short reports."""
_OF_STUDY = "(SELECT number FROM requests WHERE study = ?)"


class SqliteDialect:
    """A SQLite file, or a database in memory (see `Dialect`)."""

    population = (
        "SELECT 1 + max(coalesce((SELECT max(ordinal) FROM devices), -1),"
        " coalesce((SELECT max(ordinal) FROM empty_places), -1))"
    )
    for_update = skip_locked = ""  # one transaction writes at a time
    now_s = "unixepoch()"
    # A round of a store before the first column has no deadline yet: its time is measured from now.
    round_again = (
        "DO UPDATE SET boot = excluded.boot, at_ms = excluded.at_ms, left_ms = excluded.left_ms"
        " WHERE boot IS NULL AND closes_unix_s IS NOT NULL"
    )
    request_key = "number"
    of_request = "request = ?"

    def __init__(self, file: SqliteFile, path: Path, watch: StoreWatch) -> None:
        self._file = file
        self._path = path
        self._watch = watch

    def read(self, step: Callable[[Execute], T]) -> T:
        with self._reported(), self._file.reading() as connection:
            return step(connection.execute)

    def write(self, step: Callable[[Execute], T]) -> T:
        with self._reported(), self._file.transaction() as connection:
            result = step(connection.execute)
        self._watch.store_written()
        return result

    def one_of(
        self, column: str, values: Sequence[bytes] | Sequence[int]
    ) -> tuple[str, Sequence[object]]:
        return f"{column} IN ({marks(values)})", values

    def take_turn(self, execute: Execute, lock: int) -> None:
        """Do nothing: one transaction writes at a time."""

    def add_devices(
        self, execute: Execute, start: int, devices: Sequence[tuple[bytes, bytes]]
    ) -> None:
        for ordinal, device in enumerate(devices, start):
            execute(
                "INSERT INTO devices (ordinal, device_id, token_digest, enrolled_day)"
                " VALUES (?, ?, ?, unixepoch() / 86400)",
                (ordinal, *device),
            )

    def begin_study(self, execute: Execute, study: int) -> None:
        """Do nothing: reports have one table."""

    def note_requests(
        self, execute: Execute, digests: Sequence[bytes], round_: tuple[int, int, int]
    ) -> None:
        for digest in digests:
            execute(
                "INSERT INTO requests (digest, study, epoch, round) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (digest) DO UPDATE SET study = excluded.study,"
                " epoch = excluded.epoch, round = excluded.round",
                (digest, *round_),
            )

    def end_rounds(self, execute: Execute, study: int, epoch: int) -> None:
        """Do nothing: the one process that takes reports knows it."""

    def refuse_reports(self, execute: Execute, study: int) -> None:
        """Do nothing: the note itself is looked at before reports are stored."""

    def remove_reports(self, digest: bytes, most: int) -> int:
        def step(execute: Execute) -> int:
            rows = execute(
                "SELECT retention.study FROM retention JOIN studies"
                " ON studies.number = retention.study WHERE digest = ? AND rows_left",
                (digest,),
            ).fetchall()
            if not rows:
                return 0
            (study,) = rows
            # Evidence refers to its report, and is little: it goes first, whole.
            execute(f"DELETE FROM evidence WHERE request IN {_OF_STUDY}", study)
            some = f"FROM reports WHERE request IN {_OF_STUDY} LIMIT ?"
            # Reports to a request are all as long, and a step is mostly of one request.
            first = execute(f"SELECT length(data) {some}", (*study, 1)).fetchall()
            size = first[0][0] if first else 0
            removed = execute(
                f"DELETE FROM reports WHERE (request, ordinal) IN (SELECT request, ordinal {some})",
                (*study, min(most, 1 + _REMOVED_BYTES // (size + 1))),
            ).rowcount
            if not removed:
                execute("UPDATE retention SET rows_left = 0 WHERE study = ?", study)
            return removed

        return self.write(step)

    def probe(self, execute: Execute) -> None:
        execute("CREATE TABLE probe (filler BLOB NOT NULL) STRICT", ())
        execute("INSERT INTO probe VALUES (zeroblob(?))", (_PROBE_BYTES,))
        execute("DROP TABLE probe", ())

    def back_up(self, path: Path, now_s: int) -> Manifest:
        return back_up_sqlite(self._file, path, now_s)

    def size_bytes(self) -> int:
        total = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                total += self._path.with_name(self._path.name + suffix).stat().st_size
        return total

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report a failure of the disk to the observer."""
        try:
            yield
        except StoreFailed as error:
            self._watch.store_failed(error)
            raise


class SqliteStore(Store):
    """Store in one SQLite file.

    One process serves from it: a second would count on its own. `open` shares the file with none;
    `open_to_serve` lets operators' commands open it beside.
    """

    def __init__(self, file: SqliteFile, path: Path, watch: StoreWatch | None = None) -> None:
        """Use `create` or `open`."""
        super().__init__(SqliteDialect(file, path, watch or UNWATCHED), Replicas())
        self._file = file
        self._release: Callable[[], None] = lambda: None

    @classmethod
    def create(cls, path: Path) -> SqliteStore:
        """Make a new, empty store at `path`.

        Raises:
          StoreError: something is there already (a store is never overwritten), or the disk says
            no.
        """
        return cls(SqliteFile.create(path, KIND), path)

    @classmethod
    def in_memory(cls) -> Self:
        """Make an empty store that is gone when it is closed; for tests alone."""
        path = Path(":memory:")
        return cls(SqliteFile(empty_connection(), path, KIND), path)

    @classmethod
    def open(cls, path: Path, watch: StoreWatch | None = None) -> SqliteStore:
        """Open the store at `path` and bring an older version up to date, or refuse.

        Raises:
          StoreError: no file, no store, damaged, in use, moved away, or not wholly moved here.
          UnsupportedStore: written by a newer version.
        """
        return cls(_checked(SqliteFile.open(path, KIND), path), path, watch)

    @classmethod
    def open_to_serve(cls, path: Path, watch: StoreWatch | None = None) -> SqliteStore:
        """Open the store as the one process that serves from it; raises as `open`."""
        if not path.is_file():
            return cls.open(path, watch)  # which says so
        lock = ServingLock(path)
        try:
            opened = cls(_open_shared(path), path, watch)
        except StoreError:
            lock.release()
            raise
        opened._release = lock.release
        return opened

    @classmethod
    def open_beside(cls, path: Path) -> SqliteStore:
        """Open the store for an operator's command, also while a process serves from it."""
        return cls(_open_shared(path), path)

    def close(self) -> None:
        super().close()
        self._release()

    def _accept(self, arrivals: Sequence[StoredReport]) -> list[AckStatus]:
        def step(execute: Execute) -> list[AckStatus]:
            digests = {arrival.request_digest for arrival in arrivals}
            numbers = {digest: _request_number(execute, digest) for digest in digests}
            if _all_new(execute, numbers, arrivals):
                statuses = [AckStatus.ACCEPTED] * len(arrivals)
            else:
                statuses = [
                    _accept_one(execute, numbers[arrival.request_digest], arrival)
                    for arrival in arrivals
                ]
            _note_sequences(execute, arrivals, statuses)
            return statuses

        return self._dialect.write(step)


class ServingLock:
    """Lock of the one process that serves a store; the system releases it when the process ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock; its file is beside the store and stays there, empty."""
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


def _request_number(execute: Execute, digest: bytes) -> int:
    """Return the number of a request, which is added if need be; raise if it was deleted."""
    rows = execute("SELECT number FROM requests WHERE digest = ?", (digest,)).fetchall()
    if not rows:
        statement = "INSERT INTO requests (digest) VALUES (?) RETURNING number"
        return int(execute(statement, (digest,)).fetchall()[0][0])
    deleted = execute(
        "SELECT 1 FROM requests JOIN retention ON retention.study = requests.study"
        " WHERE requests.number = ? AND reports_deleted_unix_s IS NOT NULL",
        rows[0],
    )
    if deleted.fetchall():
        raise reports_deleted(digest)
    return int(rows[0][0])


def _all_new(execute: Execute, numbers: dict[bytes, int], arrivals: Sequence[StoredReport]) -> bool:
    """Store all arrivals at once if none is stored yet, as is usual; else store none."""
    execute("SAVEPOINT all_new", ())
    new = True
    for start in range(0, len(arrivals), _REPORTS_AT_ONCE):
        part = arrivals[start : start + _REPORTS_AT_ONCE]
        added = execute(
            # Many rows a statement: each statement lets go of the interpreter and has to get it
            # back from an event loop that is busy.
            f"INSERT INTO reports VALUES {', '.join(['(?, ?, ?)'] * len(part))}"
            " ON CONFLICT DO NOTHING",
            [
                value
                for arrival in part
                for value in (numbers[arrival.request_digest], arrival.ordinal, arrival.data)
            ],
        )
        new = new and added.rowcount == len(part)
    if not new:
        execute("ROLLBACK TO all_new", ())
    execute("RELEASE all_new", ())
    return new


def _note_sequences(
    execute: Execute, arrivals: Sequence[StoredReport], statuses: list[AckStatus]
) -> None:
    """Raise the highest sequence number of every user whose report is new."""
    highest: dict[int, int] = {}
    for arrival, status in zip(arrivals, statuses, strict=True):
        if status is AckStatus.ACCEPTED and arrival.sequence > highest.get(arrival.ordinal, 0):
            highest[arrival.ordinal] = arrival.sequence
    pairs = list(highest.items())
    for start in range(0, len(pairs), _REPORTS_AT_ONCE):
        part = pairs[start : start + _REPORTS_AT_ONCE]
        execute(
            "UPDATE devices SET acknowledged_sequence = new.column2 FROM"
            f" (VALUES {', '.join(['(?, ?)'] * len(part))}) AS new"
            " WHERE ordinal = new.column1 AND acknowledged_sequence < new.column2",
            [value for pair in part for value in pair],
        )


def _accept_one(execute: Execute, request: int, arrival: StoredReport) -> AckStatus:
    """Store a report, or compare it with the one that is stored; keep other bytes as evidence."""
    added = execute(
        "INSERT INTO reports VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (request, arrival.ordinal, arrival.data),
    )
    if added.rowcount:
        return AckStatus.ACCEPTED
    place = (request, arrival.ordinal)
    ((first,),) = execute(
        "SELECT data FROM reports WHERE request = ? AND ordinal = ?", place
    ).fetchall()
    if first == arrival.data:
        return AckStatus.DUPLICATE
    kept = execute("SELECT data FROM evidence WHERE request = ? AND ordinal = ?", place).fetchall()
    if (arrival.data,) not in kept and len(kept) < MAX_EVIDENCE:
        execute("INSERT INTO evidence VALUES (?, ?, ?, ?)", (*place, len(kept), arrival.data))
    return AckStatus.CONFLICT


def empty_connection() -> sqlite3.Connection:
    """Return a connection to a new, empty store in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.deserialize(_empty_image())
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


@cache
def _empty_image() -> bytes:
    """Return the bytes of an empty store: to copy them takes a hundredth of making one."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(KIND.script(0))
        return connection.serialize()


def _open_shared(path: Path) -> SqliteFile:
    """Open a store's file that other processes may have open, and bring it up to date."""
    return _checked(SqliteFile.open(path, KIND, _connect_shared), path)


def _checked(file: SqliteFile, path: Path) -> SqliteFile:
    """Return a file that was not moved; close it otherwise, and raise StoreError."""
    try:
        with file.reading() as connection:
            check_not_moved(connection.execute, str(path))
    except StoreError:
        file.close()
        raise
    return file


def _connect_shared(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_WAIT_S)


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
                note_restoration(connection.execute, now_s, backup.manifest.at_unix_s)
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
