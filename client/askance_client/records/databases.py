"""Records from queries of SQLite and DuckDB databases, opened for reading only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any, TypeAlias

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.records.naming import ByColumn
from askance_client.records.sources import Members, ReadLimits, Several, SourceFailed
from askance_client.records.tables import Table, field_names

MAX_ROWS = 1 << 22  # of one result
_STEPS = 1 << 12  # of SQLite's machine between two looks at the clock: below 1 ms

Result: TypeAlias = tuple[tuple[str, ...], list[Sequence[object]]]
"""Names of the columns, and the rows."""

Select: TypeAlias = Callable[[Path, str, Sequence[object], ReadLimits], Result]
"""Runs a statement with its parameters on the database in a file."""


def select_sqlite(
    path: Path, statement: str, parameters: Sequence[object], limits: ReadLimits
) -> Result:
    """Run a statement on an SQLite file."""
    deadline = limits.deadline()
    try:
        with closing(_open_sqlite(path)) as connection:
            connection.execute(f"PRAGMA busy_timeout = {limits.time_ms}")
            connection.set_progress_handler(lambda: deadline.left_ms == 0, _STEPS)
            cursor = connection.execute(statement, tuple(parameters))
            return _columns(cursor.description), _bounded(path, cursor.fetchmany(MAX_ROWS + 1))
    except sqlite3.Error as error:
        problem = _compile_error(path, statement) or getattr(
            error, "sqlite_errorname", type(error).__name__
        )
        raise SourceFailed(f"{path}: expected rows from SQLite, got {problem}") from None


def select_duckdb(
    path: Path, statement: str, parameters: Sequence[object], limits: ReadLimits
) -> Result:
    """Run a statement on a DuckDB file; no extension is installed for it.

    Raises:
      SourceFailed: no file, several statements, an error of DuckDB, or it was not done in time.
      InvalidParameter: duckdb is not installed.
    """
    duckdb = _duckdb()
    try:
        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            timer = Timer(limits.whole_s, connection.interrupt)
            timer.daemon = True
            timer.start()
            try:
                # DuckDB runs all statements of a text, and may fetch an extension for one.
                found = len(connection.extract_statements(statement))
                if found != 1:
                    raise SourceFailed(f"{path}: expected one statement, got {found}")
                connection.execute("SET autoinstall_known_extensions = false")
                cursor = connection.execute(statement, list(parameters))
                return _columns(cursor.description), _bounded(path, cursor.fetchmany(MAX_ROWS + 1))
            finally:
                timer.cancel()
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        problem = str(error).split("\n")[0]  # about the statement; further errors may have values
        raise SourceFailed(f"{path}: expected rows from DuckDB, got {problem}") from None
    except duckdb.Error as error:
        raise SourceFailed(
            f"{path}: expected rows from DuckDB, got {type(error).__name__}"
        ) from None


@dataclass(frozen=True, slots=True)
class Database:
    """Query of a database, as a table.

    Args:
      query: a SELECT statement, whose columns are those of the records.
    """

    path: Path
    query: str
    select: Select

    @property
    def place(self) -> str:
        return str(self.path)

    def version(self) -> None:
        """Return None: a database is asked anew for every question."""

    def read(self, limits: ReadLimits) -> Table:
        return self._table("", (), limits)

    def rows_of(self, column: str, cell: object, limits: ReadLimits) -> Table:
        """Read the rows with this cell in a column."""
        return self._table(f" WHERE {_quoted(column)} = ?", (cell,), limits)

    def _table(self, where: str, parameters: Sequence[object], limits: ReadLimits) -> Table:
        query = self.query.strip().rstrip(";")  # a line of its own, since it may end with a comment
        statement = f"SELECT * FROM (\n{query}\n) AS people{where}"
        header, rows = self.select(self.path, statement, parameters, limits)
        if not rows:
            raise SourceFailed(f"{self.path}: expected at least one row, got none")
        return Table(self.path, header, field_names(self.path, header), rows)


class KeyedDatabase:
    """Members in a database, named by a column; one member's rows are asked for by its key."""

    def __init__(
        self, database: Database, rule: ByColumn, several: Several, limits: ReadLimits
    ) -> None:
        self._database = database
        self._rule = rule
        self._several = several
        self._limits = limits
        self._column = rule.column
        self._keys: dict[str, object] = {}

    @property
    def naming(self) -> str:
        return self._rule.text

    def members(self) -> Members:
        table = self._database.read(self._limits.patient())
        place = table.column_index(self._rule.column)
        chosen = self._rule.choose(table)
        if not chosen.rows:
            raise InvalidRecord(f"{table.path}: expected a row with a usable name, got none")
        self._several.check(table, chosen.rows)
        keys = {name: table.rows[rows[0]][place] for name, rows in chosen.rows.items()}
        self._keys, self._column = keys, table.written[place]
        rows = [row for theirs in chosen.rows.values() for row in theirs]
        warnings = tuple(f"{table.path}: {problem}; left out" for problem in chosen.left_out)
        return Members(tuple(keys), warnings, table.choose(rows))

    def load(self, member: str) -> Table:
        """Read the rows whose name is the member's.

        The database may compare otherwise than names do (without case, 1 as 1.0): a row that it
        finds and that has another name, or none, is not the member's.
        """
        table = self._database.rows_of(self._column, self._keys[member], self._limits)
        rows = self._rule.choose(table).rows.get(member)
        if rows is None:
            raise SourceFailed(f"{table.path}: expected a row of each member, got none")
        return table.choose(rows)


def _columns(description: Sequence[Sequence[object]] | None) -> tuple[str, ...]:
    return tuple(str(column[0]) for column in description or ())


def _bounded(path: Path, rows: list[Sequence[object]]) -> list[Sequence[object]]:
    if len(rows) > MAX_ROWS:
        raise SourceFailed(f"{path}: expected at most {MAX_ROWS} rows, got more")
    return rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _compile_error(path: Path, statement: str) -> str | None:
    """Return SQLite's text about a statement that it cannot compile, which has no row's value."""
    try:
        with closing(_open_sqlite(path)) as connection:
            connection.execute(f"EXPLAIN {statement}", (None,) * statement.count("= ?"))
    except sqlite3.Error as error:
        return str(error)
    return None


def _open_sqlite(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InvalidParameter(
            "records: expected duckdb installed to read such a file (pip install duckdb)"
        ) from None
    return duckdb
