"""The audit log's rows in a PostgreSQL database, appended by any of the processes that write."""

from __future__ import annotations

from askance_aggregator.store.audit import (
    MAX_PAGE,
    AuditEntry,
    AuditEvent,
    NonceKnown,
    next_entry,
)
from askance_aggregator.store.postgresql.database import Connection, PostgresqlDatabase

_APPENDING = 0x61736B75  # "asku": the advisory lock of a transaction that appends
_COLUMNS = "SELECT number, line, digest FROM audit"
_LAST = f"{_COLUMNS} ORDER BY number DESC LIMIT 1"


class PostgresqlAuditLog:
    """The audit log of a database (see `AuditLog`)."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self._database = database

    def append(self, event: AuditEvent, nonce: bytes = b"") -> AuditEntry:
        def step(connection: Connection) -> AuditEntry:
            # Until the commit: the next process then reads this entry before it appends.
            connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (_APPENDING,))
            if nonce:
                known = connection.execute("SELECT 1 FROM audit WHERE nonce = %s", (nonce,))
                if known.fetchone() is not None:
                    raise NonceKnown
            row = connection.execute(_LAST.encode(), binary=True).fetchone()
            entry = next_entry(None if row is None else AuditEntry(*row), event, nonce)
            connection.execute(
                "INSERT INTO audit (number, line, digest, nonce) VALUES (%s, %s, %s, %s)",
                (entry.number, entry.line, entry.digest, nonce or None),
            )
            return entry

        return self._database.write(step)

    def entries(self, after: int = 0, limit: int = MAX_PAGE) -> list[AuditEntry]:
        rows = self._database.rows(
            f"{_COLUMNS} WHERE number > %s ORDER BY number LIMIT %s", (after, limit)
        )
        return [AuditEntry(*row) for row in rows]

    def head(self) -> AuditEntry | None:
        row = self._database.row(_LAST)
        return None if row is None else AuditEntry(*row)
