"""State of a PostgreSQL database, its role's rights and its clock, for an operator's checks."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from askance_aggregator.store.inspection import StoreFacts
from askance_aggregator.store.postgresql import schema
from askance_aggregator.store.postgresql.database import NEEDED
from askance_client.errors import StoreFailed

_LEAST_VERSION = 160_000  # as `server_version_num`: docs/deployment.md
_TIMEOUT_S = 5

_SCHEMA_RIGHTS = """
SELECT has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE')
FROM pg_namespace AS n WHERE n.nspname = %s
"""
# A partition is made by an owner of its parent; rights to rows alone do not suffice.
_TABLES = """
SELECT c.relname, pg_has_role(c.relowner, 'USAGE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname
"""
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = %s AND pid <> pg_backend_pid()
"""
_SERVING = "askance"  # the application's name of the connections of an aggregator


def inspect_database(
    name: str, parameters: Callable[[], dict[str, str]], now_s: Callable[[], float]
) -> StoreFacts:
    """Inspect a database by one connection that only reads; `now_s` is this machine's clock."""
    try:
        given = {"connect_timeout": str(_TIMEOUT_S), **parameters()}
        given["application_name"] = "askance-doctor"
        with psycopg.connect(make_conninfo(**given), autocommit=True) as connection:
            return _facts(connection, now_s)
    except psycopg.Error as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise StoreFailed(f"store {name}: cannot be inspected: {lines[0]}") from None


def _facts(connection: psycopg.Connection, now_s: Callable[[], float]) -> StoreFacts:
    missing = _missing_rights(connection)
    return StoreFacts(
        engine=f"PostgreSQL {connection.info.parameter_status('server_version')}",
        schema=None if missing else _schema_version(connection),
        needed_schema=schema.VERSION,
        updates_itself=False,
        in_use=bool(_value(connection, _OTHERS, _SERVING)),
        unfit=_unfit(connection),
        missing_rights=missing,
        clock_ahead_s=_clock_ahead(connection, now_s),
    )


def _unfit(connection: psycopg.Connection) -> tuple[str, ...]:
    """Settings and a version with which the store would refuse to open."""
    found = []
    version = connection.info.server_version
    if version < _LEAST_VERSION:
        least = _LEAST_VERSION // 10_000
        found.append(f"expected PostgreSQL {least} or later, got {version // 10_000}")
    for setting, needed in NEEDED.items():
        value = _value(connection, "SELECT current_setting(%s)", setting)
        if value != needed:
            found.append(f"expected {setting} = {needed}, got {value}")
    return tuple(found)


def _missing_rights(connection: psycopg.Connection) -> tuple[str, ...]:
    rights = connection.execute(_SCHEMA_RIGHTS, (schema.SCHEMA,)).fetchone()
    if rights is None:
        create = "SELECT has_database_privilege(current_database(), 'CREATE')"
        return () if _value(connection, create) else ("CREATE on the database",)
    missing = [
        f"{right} on the schema {schema.SCHEMA}"
        for right, granted in zip(("USAGE", "CREATE"), rights, strict=True)
        if not granted
    ]
    tables = connection.execute(_TABLES, (schema.SCHEMA,)).fetchall()
    foreign = [str(table) for table, owned in tables if not owned]
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        missing.append(f"ownership of {', '.join(foreign[:3])}{more}")
    return tuple(missing)


def _schema_version(connection: psycopg.Connection) -> int | None:
    tables = connection.execute(_TABLES, (schema.SCHEMA,)).fetchall()
    if ("schema_steps", True) not in tables:
        return None
    steps = sql.SQL("SELECT coalesce(max(number), 0) FROM {}").format(
        sql.Identifier(schema.SCHEMA, "schema_steps")
    )
    row = connection.execute(steps).fetchone()
    return None if row is None else int(row[0])


def _clock_ahead(connection: psycopg.Connection, now_s: Callable[[], float]) -> float:
    """The database's clock minus this machine's in the middle of the round trip, seconds."""
    before = now_s()
    there = float(str(_value(connection, "SELECT extract(epoch FROM clock_timestamp())")))
    return there - (before + now_s()) / 2


def _value(connection: psycopg.Connection, statement: str, *parameters: str) -> object:
    row = connection.execute(statement.encode(), parameters).fetchone()
    return None if row is None else row[0]
