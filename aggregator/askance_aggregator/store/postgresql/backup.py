"""Backup of a PostgreSQL store: one snapshot, a COPY per table, restored into an empty schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from psycopg import sql

from askance_aggregator.store import backups
from askance_aggregator.store.dialect import note_restoration
from askance_aggregator.store.moves import OWN_TABLES
from askance_aggregator.store.postgresql import schema
from askance_aggregator.store.postgresql.database import (
    Connection,
    PostgresqlDatabase,
    add_partition,
    executing,
    one_row,
)
from askance_client.errors import StoreError

POSTGRESQL = "postgresql"
_SUFFIX = ".copy"
# What belongs to processes and to this database, not to what a store remembers.
_LEFT_OUT = OWN_TABLES - {"population"}
_COLUMNS_LEFT_OUT = {("reports", "arrived")}  # numbers of this database's transactions
_LAST = "reports"  # into partitions that follow from the other tables
_TABLES = """
SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = %s AND relkind IN ('r', 'p') AND NOT relispartition
"""
_REFERENCES = """
SELECT child.relname, parent.relname FROM pg_constraint
JOIN pg_class AS child ON child.oid = conrelid JOIN pg_class AS parent ON parent.oid = confrelid
JOIN pg_namespace ON pg_namespace.oid = child.relnamespace
WHERE nspname = %s AND contype = 'f' AND child.relname <> parent.relname
"""
_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0
  AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
_IDENTITIES = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = %s AND is_identity = 'YES'
"""
PARTITIONED = """
SELECT number FROM studies LEFT JOIN retention ON retention.study = studies.number
WHERE reports_deleted_unix_s IS NULL OR rows_left ORDER BY number
"""
UNLIMITED = """
SELECT set_config('statement_timeout', '0', false),
  set_config('idle_in_transaction_session_timeout', '0', false)
"""


def back_up_postgresql(database: PostgresqlDatabase, path: Path, now_s: int) -> backups.Manifest:
    """Write a backup of a database, as one snapshot shows it; it may be written to meanwhile."""

    def step(connection: Connection) -> backups.Manifest:
        connection.execute(UNLIMITED)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

        def fill(writer: backups.BackupWriter) -> backups.Manifest:
            for table in ordered_tables(connection):
                columns = _columns(connection, table)
                writer.add(f"{table}{_SUFFIX}", _rows(connection, table, columns), columns)
            (devices,) = one_row(connection, "SELECT count(*) FROM devices")
            (studies,) = one_row(connection, "SELECT count(*) FROM studies")
            return writer.finish(
                POSTGRESQL, schema.VERSION, at_unix_s=now_s, devices=devices, studies=studies
            )

        return backups.write_backup(path, fill)

    return database.beside(step)


def restore_postgresql(
    name: str, parameters: Callable[[], dict[str, str]], backup: backups.BackupFile, now_s: int
) -> None:
    """Fill a database that has no store, or an empty one, and note that it was restored.

    The backup is read twice.
    """
    backup.check(POSTGRESQL, schema.VERSION)
    backup.verify()

    def fill(connection: Connection) -> None:
        connection.execute(UNLIMITED)
        _check_empty(connection, name)
        parts = _parts_by_table(connection, backup)
        for table in reversed(parts):  # what a migration has put there
            name_of = sql.Identifier(table)
            if connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(name_of)).fetchone():
                connection.execute(sql.SQL("DELETE FROM {}").format(name_of))
        for table, part in parts.items():
            if table == _LAST:
                for (study,) in connection.execute(PARTITIONED).fetchall():
                    add_partition(executing(connection), study)
            _fill_table(connection, backup, table, part)
        raise_identities(connection)
        note_restoration(executing(connection), now_s, backup.manifest.at_unix_s)

    PostgresqlDatabase.fill(name, parameters, backup.manifest.schema, fill)


def _check_empty(connection: Connection, name: str) -> None:
    connection.execute("LOCK TABLE devices, studies IN ACCESS EXCLUSIVE MODE")
    (devices,) = one_row(connection, "SELECT count(*) FROM devices")
    (studies,) = one_row(connection, "SELECT count(*) FROM studies")
    if devices or studies:
        raise StoreError(
            f"store {name}: expected an empty store, got one of {devices} devices and {studies}"
            " studies (give a new database)"
        )


def _parts_by_table(
    connection: Connection, backup: backups.BackupFile
) -> dict[str, backups.BackupPart]:
    """Return the parts by their tables, all of which are there, in the order to fill them."""
    parts = {part.name.removesuffix(_SUFFIX): part for part in backup.manifest.parts}
    tables = ordered_tables(connection)
    if set(parts) != set(tables):
        odd = ", ".join(sorted(set(parts) ^ set(tables)))
        raise StoreError(
            f"backup {backup.path}: expected a part per table, got one too many or too few: {odd}"
        )
    return {table: parts[table] for table in tables}


def _fill_table(
    connection: Connection, backup: backups.BackupFile, table: str, part: backups.BackupPart
) -> None:
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        sql.Identifier(table), _names(part.columns)
    )
    with connection.cursor().copy(statement) as copy:
        for chunk in backup.chunks(part):
            copy.write(chunk)


def raise_identities(connection: Connection) -> None:
    """Let new rows be numbered after those that were restored."""
    for table, column in connection.execute(_IDENTITIES, (schema.SCHEMA,)).fetchall():
        connection.execute(
            sql.SQL(
                "SELECT setval(pg_get_serial_sequence({place}, {name}), coalesce(max({column}), 1),"
                " max({column}) IS NOT NULL) FROM {table}"
            ).format(
                place=sql.Literal(f"{schema.SCHEMA}.{table}"),
                name=sql.Literal(column),
                column=sql.Identifier(column),
                table=sql.Identifier(table),
            )
        )


def ordered_tables(connection: Connection) -> list[str]:
    """Return the tables that a backup has, each after those that it refers to."""
    found = {table for (table,) in connection.execute(_TABLES, (schema.SCHEMA,)).fetchall()}
    after: dict[str, set[str]] = {table: set() for table in sorted(found - _LEFT_OUT)}
    for child, parent in connection.execute(_REFERENCES, (schema.SCHEMA,)).fetchall():
        if child in after:
            after[child].add(parent)
    after[_LAST] |= after.keys() - {_LAST}
    return list(TopologicalSorter(after).static_order())


def _columns(connection: Connection, table: str) -> tuple[str, ...]:
    rows = connection.execute(_COLUMNS, (f"{schema.SCHEMA}.{table}",)).fetchall()
    return tuple(column for (column,) in rows if (table, column) not in _COLUMNS_LEFT_OUT)


def _rows(connection: Connection, table: str, columns: tuple[str, ...]) -> Iterator[bytes]:
    """Yield a table's rows in PostgreSQL's binary form, about a megabyte at a time."""
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT binary)").format(
        _names(columns), sql.Identifier(table)
    )
    held, size = list[bytes | bytearray | memoryview](), 0
    with connection.cursor().copy(statement) as copy:
        for row in copy:
            held.append(row)
            size += len(row)
            if size >= backups.CHUNK_BYTES:
                yield b"".join(held)
                held, size = [], 0
    yield b"".join(held)


def _names(columns: tuple[str, ...]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
