"""Ends of a move that are PostgreSQL databases: rows by COPY, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from psycopg import sql

from askance_aggregator.store.dialect import Execute
from askance_aggregator.store.moves import (
    OWN_COLUMNS,
    Columns,
    MoveMark,
    Row,
    ValueKind,
    write_mark,
)
from askance_aggregator.store.postgresql import schema
from askance_aggregator.store.postgresql.backup import (
    PARTITIONED,
    UNLIMITED,
    ordered_tables,
    raise_identities,
)
from askance_aggregator.store.postgresql.database import (
    Connection,
    PostgresqlDatabase,
    add_partition,
    executing,
    one_row,
)
from askance_aggregator.store.postgresql.store import refuse_reports
from askance_client.errors import StoreError

T = TypeVar("T")
_KINDS: dict[str, ValueKind] = {
    "bigint": "integer",
    "integer": "integer",
    "smallint": "integer",
    "boolean": "integer",
    "text": "text",
    "bytea": "bytes",
    "double precision": "real",
}
_COLUMNS = """
SELECT attname, format_type(atttypid, NULL), atttypid FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""
_BOOLEAN_OID = 16
_PARTITIONS = """
SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = to_regclass('reports') AND child.relname <> 'reports_0'
"""
_ALL_TABLES = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relkind IN ('r', 'p') AND NOT relispartition
  AND relname NOT IN ('holder', 'moves', 'schema_steps')
"""
_DELETING = "SELECT study FROM retention WHERE reports_deleted_unix_s IS NOT NULL AND rows_left"
_ENDED = """
UPDATE rounds SET ended = true FROM conclusions
WHERE conclusions.study = rounds.study AND conclusions.epoch IN (0, rounds.epoch)
"""
_POPULATION = """
UPDATE population SET devices = 1 + greatest(coalesce((SELECT max(ordinal) FROM devices), -1),
  coalesce((SELECT max(ordinal) FROM empty_places), -1))
"""
_CANCELLING = """
SELECT count(*) FROM studies WHERE cancelling
  AND NOT EXISTS (SELECT FROM conclusions WHERE study = number AND epoch = 0)
"""


class PostgresqlEnd:
    """A PostgreSQL database as one end of a move (see `MoveEnd`)."""

    derived: Mapping[tuple[str, str], str] = {
        ("requests", "part"): "coalesce(study, 0)",
        (
            "reports",
            "part",
        ): "(SELECT coalesce(study, 0) FROM requests WHERE number = reports.request)",
    }

    def __init__(self, connection: Connection, name: str) -> None:
        """Use `held_postgresql`."""
        self.name = name
        self._connection = connection

    def read(self, step: Callable[[Execute], T]) -> T:
        return step(executing(self._connection))

    def write(self, step: Callable[[Execute], T]) -> T:
        with self._connection.transaction():
            return step(executing(self._connection))

    def take_turn(self, execute: Execute, lock: int) -> None:
        """Do nothing: the database is held alone."""

    def tables(self) -> dict[str, Columns]:
        return {
            table: {
                column: _kind(table, column, kind) for column, kind, _ in self._columns_of(table)
            }
            for table in ordered_tables(self._connection)
        }

    def unready(self) -> str | None:
        (studies,) = one_row(self._connection, _CANCELLING)
        if not studies:
            return None
        return (
            f"expected no study that is being cancelled, found {studies} (serve from it until they"
            " have ended)"
        )

    def population(self) -> int:
        return int(one_row(self._connection, "SELECT devices FROM population")[0])

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Row]:
        oids = {column: oid for column, _, oid in self._columns_of(table)}
        statement = f"COPY (SELECT {', '.join(columns)} FROM {table}) TO STDOUT (FORMAT binary)"
        with self._connection.cursor().copy(statement.encode()) as copy:
            copy.set_types([oids[column] for column in columns])
            yield from copy.rows()

    @contextmanager
    def filling(self, mark: MoveMark) -> Iterator[None]:
        """Mark the database, and let it be filled in one transaction (see `MoveEnd.filling`)."""
        connection = self._connection
        self.write(lambda execute: write_mark(execute, mark))
        with connection.transaction():
            _clear(connection)
            yield
            connection.execute(_ENDED)
            connection.execute(_POPULATION)
            for (study,) in connection.execute(_DELETING).fetchall():
                refuse_reports(executing(connection), study)
            raise_identities(connection)

    def fill(self, table: str, columns: Sequence[str], rows: Iterator[Row]) -> None:
        connection = self._connection
        if table == "reports":
            for (study,) in connection.execute(PARTITIONED).fetchall():
                add_partition(executing(connection), study)
        oids = {column: oid for column, _, oid in self._columns_of(table)}
        types = [oids[column] for column in columns]
        flags = [place for place, oid in enumerate(types) if oid == _BOOLEAN_OID]
        statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT binary)"
        with connection.cursor().copy(statement.encode()) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(_with_flags(row, flags) if flags else row)

    def _columns_of(self, table: str) -> list[tuple[str, str, int]]:
        return self._connection.execute(_COLUMNS, (f"{schema.SCHEMA}.{table}",)).fetchall()


def _kind(table: str, column: str, kind: str) -> ValueKind:
    found = _KINDS.get(kind)
    if found is None:
        if (table, column) in OWN_COLUMNS:
            return "integer"  # it is not copied
        raise StoreError(f"{table}.{column}: expected a type of both databases, found {kind}")
    return found


def _with_flags(row: Row, flags: list[int]) -> Row:
    """Return a row with truth values where SQLite has numbers."""
    values = list(row)
    for place in flags:
        if values[place] is not None:
            values[place] = bool(values[place])
    return tuple(values)


def _clear(connection: Connection) -> None:
    """Remove what an earlier run has left: rows, and the tables of studies."""
    for (partition,) in connection.execute(_PARTITIONS).fetchall():
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(partition)))
    tables = [sql.Identifier(t) for (t,) in connection.execute(_ALL_TABLES, (schema.SCHEMA,))]
    for switch in ("DISABLE", "ENABLE"):  # the audit log refuses what would cut it
        for table in tables:
            connection.execute(
                sql.SQL("ALTER TABLE {} {} TRIGGER USER").format(table, sql.SQL(switch))
            )
        if switch == "DISABLE":
            connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables)))
    connection.execute("INSERT INTO population (devices) VALUES (0)")


@contextmanager
def held_postgresql(
    name: str, parameters: Callable[[], dict[str, str]], new: MoveMark | None
) -> Iterator[PostgresqlEnd]:
    """Hold a database's store alone, at this version; with `new`, make one where none is.

    It has that mark from its first moment on.
    """
    with PostgresqlDatabase.alone(name, parameters, "cannot be moved") as connection:
        if schema.version(connection) is not None:
            schema.migrate(connection, name)
        elif new is None:
            schema.check(connection, name)  # which says so
        else:
            with connection.transaction():
                schema.migrate(connection, name)
                write_mark(executing(connection), new)
        connection.execute("UPDATE holder SET token = token + 1")  # before anything is read
        connection.execute(UNLIMITED)
        yield PostgresqlEnd(connection, name)
