"""Ends of a move that are SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from askance_aggregator.store import moves
from askance_aggregator.store.dialect import Execute, list_rows
from askance_aggregator.store.migrations import KIND
from askance_aggregator.store.sqlite import ServingLock, SqliteDialect, empty_connection
from askance_client.errors import StoreError, StoreFailed
from askance_client.sqlite_file import FileKind, SqliteFile

T = TypeVar("T")
_KINDS: dict[str, moves.ValueKind] = {
    "INTEGER": "integer",
    "INT": "integer",
    "TEXT": "text",
    "BLOB": "bytes",
    "REAL": "real",
}
_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_AT_ONCE = 20_000  # rows of a transaction: the log beside the file stays small
_OF_BEFORE = (
    "SELECT count(*) FROM rounds WHERE closed = 0 AND boot IS NULL AND closes_unix_s IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM conclusions WHERE conclusions.study = rounds.study"
    " AND conclusions.epoch IN (0, rounds.epoch))"
)


class SqliteEnd:
    """A SQLite file as one end of a move (see `MoveEnd`)."""

    derived: Mapping[tuple[str, str], str] = {}

    def __init__(self, file: SqliteFile, name: str) -> None:
        """Use `held_sqlite` or `new_store`."""
        self.name = name
        self._file = file

    def read(self, step: Callable[[Execute], T]) -> T:
        with self._file.reading() as connection:
            return step(connection.execute)

    def write(self, step: Callable[[Execute], T]) -> T:
        with self._file.transaction() as connection:
            return step(connection.execute)

    def take_turn(self, execute: Execute, lock: int) -> None:
        """Do nothing: the file is held alone."""

    def tables(self) -> dict[str, moves.Columns]:
        return {
            table: {
                column: _KINDS[kind]
                for _, column, kind, *_ in list_rows(self, f"PRAGMA table_info({table})")
            }
            for (table,) in list_rows(self, _TABLES)
        }

    def unready(self) -> str | None:
        ((rounds,),) = list_rows(self, _OF_BEFORE)
        if not rounds:
            return None
        return (
            f"expected open rounds of this version, found {rounds} of an earlier one (serve from it"
            " once before)"
        )

    def population(self) -> int:
        ((ordinals,),) = list_rows(self, SqliteDialect.population)
        return int(ordinals)

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[moves.Row]:
        # Without the file's lock: the reader may break off, and the file is held alone.
        try:
            yield from self._file.connection.execute(f"SELECT {', '.join(columns)} FROM {table}")
        except sqlite3.Error as error:
            raise StoreFailed(f"store {self.name}: cannot be read: {error}") from None

    @contextmanager
    def filling(self, mark: moves.MoveMark) -> Iterator[None]:
        """Clear and mark the file, and let it be filled in the block (see `MoveEnd.filling`)."""
        if self.read(moves.read_mark) is None:  # empty
            self.write(lambda execute: moves.write_mark(execute, mark))
        else:
            with closing(empty_connection()) as fresh:
                moves.write_mark(fresh.execute, mark)
                with self._file.reading() as connection:
                    fresh.backup(connection)
        with self._file.reading() as connection:
            connection.execute("PRAGMA synchronous=NORMAL")  # the mark alone has to last meanwhile
            connection.execute("PRAGMA foreign_keys=OFF")  # checked at the end
        yield
        with self._file.reading() as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            broken = connection.execute("PRAGMA foreign_key_check").fetchone()
            ((busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if broken is not None:
            raise StoreError(
                f"store {self.name}: expected rows of {broken[2]} for all of {broken[0]}, found one"
                " without"
            )
        if busy:
            raise StoreError(f"store {self.name}: expected its log in the file, found it in use")

    def fill(self, table: str, columns: Sequence[str], rows: Iterator[moves.Row]) -> None:
        places = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
        # The seeds of a new store are in the source too.
        self.write(lambda execute: execute(f"DELETE FROM {table}", ()))
        more = True
        while more:
            with self._file.transaction() as connection:
                added = connection.executemany(statement, islice(rows, _AT_ONCE)).rowcount
            more = added == _AT_ONCE


@contextmanager
def held_sqlite(path: Path, name: str, new: moves.MoveMark | None) -> Iterator[SqliteEnd]:
    """Hold a store's file alone; with `new`, make a store with that mark where none is."""
    if new is None and not path.is_file():
        SqliteFile.open(path, KIND)  # which says so
    lock = ServingLock(path)
    try:
        if new is not None and not path.exists():
            SqliteFile.create(path, _marked(new)).close()
        with closing(SqliteFile.open(path, KIND)) as file:
            yield SqliteEnd(file, name)
    finally:
        lock.release()


def _marked(mark: moves.MoveMark) -> FileKind:
    """Return the kind of a store that has a mark from its first moment on."""
    other = mark.other.replace("'", "''")
    insert = (
        "INSERT INTO moves (id, unfinished, other, at_unix_s)"
        f" VALUES (x'{mark.id.hex()}', {int(mark.unfinished)}, '{other}', {mark.at_unix_s});"
    )
    *before, last = KIND.steps
    return replace(KIND, steps=(*before, f"{last}\n{insert}"))


@contextmanager
def new_store() -> Iterator[SqliteEnd]:
    """Provide a new, empty store in memory."""
    path = Path(":memory:")
    with closing(SqliteFile(empty_connection(), path, KIND)) as file:
        yield SqliteEnd(file, str(path))
