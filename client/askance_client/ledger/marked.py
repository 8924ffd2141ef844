"""A ledger file together with its mark: commit, then mark, and only then is anything seen."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from askance_client.errors import StoreError
from askance_client.ledger.mark import ID_BYTES, High, Mark, mark_path
from askance_client.ledger.postings import KIND, NO_HASH, fill_hashes
from askance_client.sqlite_file import ProcessLock, SqliteFile

ID, GAPS, ACCEPTED = "id", "gaps", "accepted"
"""Names of facts: the file's random id; how many places have no row, by losses that the owner
accepted; the last place of the latest accepted loss."""

_ADVICE = "stop, and read 'A ledger is refused' in docs/deployment.md (device accept-loss)"


class LedgerBehind(StoreError):
    """A ledger is older than its mark, or the mark is missing: charges may be forgotten."""


class MarkedFile:
    """An open ledger file and its mark; safe to share between threads.

    A row is not visible before the mark has reached it. If the mark cannot be written, the
    charge stands and every later read and step tries the mark again first.
    """

    def __init__(self, file: SqliteFile, mark: Mark) -> None:
        """Use `create` or `open`."""
        self.file = file
        self._mark = mark
        self._lock = ProcessLock()
        self._behind = True  # rows may have been committed that the mark has not reached

    @classmethod
    def create(cls, path: Path) -> MarkedFile:
        """Make a new file without any row at `path`, and its mark.

        Raises:
            StoreError: a ledger or a mark is there already, or the disk refuses.
        """
        if mark_path(path).exists() and not path.exists():
            raise StoreError(
                f"ledger {path}: expected no mark without a ledger, found {mark_path(path)}:"
                f" the ledger was lost: {_ADVICE}"
            )
        SqliteFile.create(path, KIND).close()
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> MarkedFile:
        """Open the file at `path`, bring an older version up to date, and check it by its mark.

        Raises:
            LedgerBehind: the file is older than its mark, or the mark is missing.
            StoreError: no file, no ledger, damaged, or in use by another process.
            UnsupportedStore: written by a newer version.
        """
        file = SqliteFile.open(path, KIND)
        try:
            with file.reading() as connection:
                known = read_fact(connection, ID)
            if known is None:
                _adopt(file, path)
            mark = _checked(file, path)
        except BaseException:
            file.close()
            raise
        marked = cls(file, mark)
        with marked.reading():  # a crash may have come between a commit and its mark
            return marked

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read, alone, rows that the mark has reached."""
        with self._lock:
            self._settle()
            with self.file.reading() as connection:
                yield connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Make one atomic step durable, in the file and then in the mark."""
        with self._lock:
            self._settle()
            self._behind = True
            with self.file.transaction() as connection:
                yield connection
            self._settle()

    def close(self) -> None:
        """Close the file and the mark; a forked child leaves both to its parent."""
        if self.file.is_own:
            with self._lock:
                self.file.close()
                self._mark.close()

    def _settle(self) -> None:
        if not self._behind:
            return
        with self.file.reading() as connection:
            place, chained = read_tip(connection)
        if place > self._mark.high.place:
            self._mark.advance(place, chained)
        self._behind = False


def read_fact(connection: sqlite3.Connection, name: str) -> bytes | None:
    """Return the value of a fact about the file, if it is known."""
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])


def write_fact(connection: sqlite3.Connection, name: str, value: bytes) -> None:
    """Set the value of a fact about the file."""
    connection.execute(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def read_number(connection: sqlite3.Connection, name: str) -> int:
    """Return a fact that is a number; 0 if it is not known."""
    return int.from_bytes(read_fact(connection, name) or b"", "big")


def read_tip(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Return the place and hash of the file's last row; (0, zeros) for an empty file."""
    row = connection.execute("SELECT place, hash FROM postings ORDER BY place DESC LIMIT 1")
    found = row.fetchone()
    return (0, NO_HASH) if found is None else (int(found[0]), bytes(found[1] or NO_HASH))


def fresh_id() -> bytes:
    """Return a new random id for a file."""
    return os.urandom(ID_BYTES)


def _adopt(file: SqliteFile, path: Path) -> None:
    """Give a file that is new, or from before the marks, its hashes, its id and its mark."""
    beside = mark_path(path)
    if beside.exists():
        mark = Mark.open(beside)
        mark.close()
        if mark.high.place:
            with file.reading() as connection:
                last, _ = read_tip(connection)
            found = _too_few(mark.high.place, last)
            raise LedgerBehind(f"ledger {path}: {found}: {_ADVICE}")
        beside.unlink()  # a crash came before the id was committed
    high = High(fresh_id(), 0, NO_HASH)
    Mark.create(beside, high).close()
    with file.transaction() as connection:
        fill_hashes(connection)
        write_fact(connection, ID, high.ledger)


def _checked(file: SqliteFile, path: Path) -> Mark:
    """Open the mark and hold the file against it."""
    mark = None
    try:
        mark = Mark.open(mark_path(path))
        with file.reading() as connection:
            found = _difference(connection, mark.high)
    except StoreError as error:
        if mark is not None:
            mark.close()
        raise LedgerBehind(f"ledger {path}: {error}: {_ADVICE}") from None
    if found is not None:
        mark.close()
        raise LedgerBehind(f"ledger {path}: {found}: {_ADVICE}")
    return mark


def _difference(connection: sqlite3.Connection, high: High) -> str | None:
    """Return what the file lacks of all that its mark says, if anything."""
    if read_fact(connection, ID) != high.ledger:
        return "expected its own mark, found another ledger's"
    last, _ = read_tip(connection)
    if last < high.place:
        return _too_few(high.place, last)
    if high.place:
        row = connection.execute(
            "SELECT 1 FROM postings WHERE place = ? AND hash = ?", (high.place, high.chained)
        )
        if row.fetchone() is None:
            return f"expected row {high.place} to be the one that its mark has, found another"
    return _missing(connection, last)


def _too_few(place: int, last: int) -> str:
    return f"expected row {place}, as its mark says, found {last} as the last one"


def _missing(connection: sqlite3.Connection, last: int) -> str | None:
    (count,) = connection.execute("SELECT count(*) FROM postings").fetchone()
    expected = last - read_number(connection, GAPS)
    return None if count == expected else f"expected {expected} rows, found {count}"
