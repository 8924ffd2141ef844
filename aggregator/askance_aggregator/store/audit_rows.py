"""The audit log's rows in a SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager

from askance_aggregator.store.audit import (
    MAX_PAGE,
    AuditEntry,
    AuditEvent,
    NonceKnown,
    next_entry,
)

_COLUMNS = "SELECT number, line, digest FROM audit"
Transaction = Callable[[], AbstractContextManager[sqlite3.Connection]]


class SqliteAuditLog:
    """The audit log of a SQLite store (see `AuditLog`).

    Args:
      writing: begins a transaction that writes.
      reading: begins one that reads.
    """

    def __init__(self, writing: Transaction, reading: Transaction) -> None:
        self._writing = writing
        self._reading = reading

    def append(self, event: AuditEvent, nonce: bytes = b"") -> AuditEntry:
        with self._writing() as connection:
            if nonce:
                known = connection.execute("SELECT 1 FROM audit WHERE nonce = ?", (nonce,))
                if known.fetchone() is not None:
                    raise NonceKnown
            entry = next_entry(_last(connection), event, nonce)
            connection.execute(
                "INSERT INTO audit VALUES (?, ?, ?, ?)",
                (entry.number, entry.line, entry.digest, nonce or None),
            )
        return entry

    def entries(self, after: int = 0, limit: int = MAX_PAGE) -> list[AuditEntry]:
        with self._reading() as connection:
            rows = connection.execute(
                f"{_COLUMNS} WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
            ).fetchall()
        return [AuditEntry(*row) for row in rows]

    def head(self) -> AuditEntry | None:
        with self._reading() as connection:
            return _last(connection)


def _last(connection: sqlite3.Connection) -> AuditEntry | None:
    row = connection.execute(f"{_COLUMNS} ORDER BY number DESC LIMIT 1").fetchone()
    return None if row is None else AuditEntry(*row)
