"""A ledger file together with its mark: commit, then mark, and only then is anything seen."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from askance_client.errors import StoreError, StoreFailed
from askance_client.ledger.mark import ID_BYTES, CounterPlace, High, LedgerCounter, Mark, mark_path
from askance_client.ledger.postings import KIND, NO_HASH, fill_hashes
from askance_client.sqlite_file import ProcessLock, SqliteFile

ID, GAPS, ACCEPTED, COUNTED = "id", "gaps", "accepted", "counted"
"""Names of facts: the file's random id; how many places have no row, by losses that the owner
accepted; the last place of the latest accepted loss; whether the file was ever opened with a
counter, which may not be missing from then on."""

_ADVICE = "stop, and read 'A ledger is refused' in docs/deployment.md (device accept-loss)"


class LedgerBehind(StoreError):
    """A ledger is older than its mark or counter, or lacks one: charges may be forgotten."""


class MarkedFile:
    """An open ledger file, its mark and maybe a counter; safe to share between threads.

    A row is not visible before the mark, and then the counter, have reached it. If one cannot be
    written, the charge stands and every later read and step tries again first.
    """

    def __init__(self, file: SqliteFile, marks: Sequence[LedgerCounter]) -> None:
        """Use `create` or `open`."""
        self.file = file
        self._marks = marks  # the mark is first: a counter is never ahead of it
        self._lock = ProcessLock()
        self._behind = True  # rows may have been committed that the mark has not reached

    @classmethod
    def create(cls, path: Path) -> MarkedFile:
        """Make a new file without any row at `path`, and its mark."""
        if mark_path(path).exists() and not path.exists():
            raise StoreError(
                f"ledger {path}: expected no mark without a ledger, found {mark_path(path)}:"
                f" the ledger was lost: {_ADVICE}"
            )
        SqliteFile.create(path, KIND).close()
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, counter: CounterPlace | None = None) -> MarkedFile:
        """Open the file at `path`, bring an older version up to date, and check it by its mark.

        Raises:
            StoreFailed: the mark or counter cannot be opened, or made.
            LedgerBehind, StoreError, UnsupportedStore: as of `LedgerFile.open`.
        """
        file = SqliteFile.open(path, KIND)
        marks: list[LedgerCounter] = []
        try:
            with file.reading() as connection:
                known, counted = read_fact(connection, ID), read_fact(connection, COUNTED)
            if known is None:
                _adopt(file, path)
            _check(file, path, "mark", lambda: Mark.open(mark_path(path)), marks)
            if counter is not None:
                made = marks[0].high if counted is None else None
                _check(file, path, "counter", lambda: counter.open(made), marks)
                with file.transaction() as connection:
                    write_fact(connection, COUNTED, b"yes")
        except BaseException:
            for mark in marks:
                mark.close()
            file.close()
            raise
        marked = cls(file, marks)
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
        """Close the file and the marks; a forked child leaves them to its parent."""
        if self.file.is_own:
            with self._lock:
                self.file.close()
                for mark in self._marks:
                    mark.close()

    def _settle(self) -> None:
        if not self._behind:
            return
        with self.file.reading() as connection:
            place, chained = read_tip(connection)
        for mark in self._marks:
            if place > mark.high.place:
                mark.advance(place, chained)
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
            found = _too_few("mark", mark.high.place, last)
            raise LedgerBehind(f"ledger {path}: {found}: {_ADVICE}")
        beside.unlink()  # a crash came before the id was committed
    high = High(fresh_id(), 0, NO_HASH)
    Mark.create(beside, high).close()
    with file.transaction() as connection:
        fill_hashes(connection)
        write_fact(connection, ID, high.ledger)


def _check(
    file: SqliteFile,
    path: Path,
    name: str,
    opener: Callable[[], LedgerCounter],
    marks: list[LedgerCounter],
) -> None:
    """Open a mark or counter, add it to `marks`, and hold the file against it."""
    try:
        marks.append(opener())
        with file.reading() as connection:
            found = _difference(connection, name, marks[-1].high)
    except StoreFailed as failure:
        advice = "nothing was forgotten: make its folder, and let this user write there"
        raise StoreFailed(f"ledger {path}: {name}: {failure} ({advice})") from None
    except StoreError as error:
        found = str(error)
    if found is not None:
        raise LedgerBehind(f"ledger {path}: {found}: {_ADVICE}")


def _difference(connection: sqlite3.Connection, name: str, high: High) -> str | None:
    """Return what the file lacks of all that its mark or counter says, if anything."""
    if high.ledger and read_fact(connection, ID) != high.ledger:
        return f"expected its own {name}, found another ledger's"
    last, _ = read_tip(connection)
    if last < high.place:
        return _too_few(name, high.place, last)
    if high.place and high.chained:
        row = connection.execute(
            "SELECT 1 FROM postings WHERE place = ? AND hash = ?", (high.place, high.chained)
        )
        if row.fetchone() is None:
            return f"expected row {high.place} to be the one that its {name} has, found another"
    return _missing(connection, last)


def _too_few(name: str, place: int, last: int) -> str:
    return f"expected row {place}, as its {name} says, found {last} as the last one"


def _missing(connection: sqlite3.Connection, last: int) -> str | None:
    (count,) = connection.execute("SELECT count(*) FROM postings").fetchone()
    expected = last - read_number(connection, GAPS)
    return None if count == expected else f"expected {expected} rows, found {count}"
