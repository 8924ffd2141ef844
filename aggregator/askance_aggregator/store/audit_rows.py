"""The audit log's rows, appended by any of the processes that write."""

from __future__ import annotations

from askance_aggregator.store.audit import (
    MAX_PAGE,
    AuditEntry,
    AuditEvent,
    NonceKnown,
    next_entry,
)
from askance_aggregator.store.dialect import Dialect, Execute, first_row, list_rows

_APPENDING = 0x61736B75  # "asku": the lock of a transaction that appends
_COLUMNS = "SELECT number, line, digest FROM audit"
_LAST = f"{_COLUMNS} ORDER BY number DESC LIMIT 1"


class AuditRows:
    """The audit log in a database (see `AuditLog`)."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def append(self, event: AuditEvent, nonce: bytes = b"") -> AuditEntry:
        def step(execute: Execute) -> AuditEntry:
            # Until the commit: the next process then reads this entry before it appends.
            self._dialect.take_turn(execute, _APPENDING)
            if nonce and execute("SELECT 1 FROM audit WHERE nonce = ?", (nonce,)).fetchall():
                raise NonceKnown
            rows = execute(_LAST, ()).fetchall()
            entry = next_entry(AuditEntry(*rows[0]) if rows else None, event, nonce)
            execute(
                "INSERT INTO audit (number, line, digest, nonce) VALUES (?, ?, ?, ?)",
                (entry.number, entry.line, entry.digest, nonce or None),
            )
            return entry

        return self._dialect.write(step)

    def entries(self, after: int = 0, limit: int = MAX_PAGE) -> list[AuditEntry]:
        rows = list_rows(
            self._dialect, f"{_COLUMNS} WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        )
        return [AuditEntry(*row) for row in rows]

    def head(self) -> AuditEntry | None:
        row = first_row(self._dialect, _LAST)
        return None if row is None else AuditEntry(*row)
