"""Deletion in the SQLite store, in steps between which reports of open studies are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from askance_aggregator.store.retention import KeptStudy, not_ended

_KEPT = (
    "SELECT digest, ended_unix_s, reports_deleted_unix_s, results_deleted_unix_s, rows_left"
    " FROM retention JOIN studies ON studies.number = retention.study"
)
_NOTE = (
    "INSERT INTO retention (study, ended_unix_s) SELECT study, ? FROM conclusions WHERE epoch = 0"
)
_ROWS = "(SELECT number FROM requests WHERE study = ?)"
_BYTES_AT_ONCE = 1 << 19
"""Size of the reports that one transaction removes: long ones have pages of their own, of which
each takes as long as ten short reports."""

Transaction = Callable[[], AbstractContextManager[sqlite3.Connection]]


class SqliteRetention:
    """See `Retention`.

    Args:
      writing: opens a transaction.
      reading: opens a reading.
    """

    def __init__(self, writing: Transaction, reading: Transaction) -> None:
        self._writing = writing
        self._reading = reading

    def note_ends(self, now_s: int) -> int:
        with self._writing() as connection:
            return connection.execute(f"{_NOTE} ON CONFLICT DO NOTHING", (now_s,)).rowcount

    def kept(self) -> list[KeptStudy]:
        with self._reading() as connection:
            rows = connection.execute(f"{_KEPT} ORDER BY ended_unix_s, studies.number").fetchall()
        return [_kept(row) for row in rows]

    def of(self, digest: bytes) -> KeptStudy | None:
        with self._reading() as connection:
            row = connection.execute(f"{_KEPT} WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else _kept(row)

    def delete_reports(self, digest: bytes, now_s: int) -> None:
        with self._writing() as connection:
            _mark(connection, digest, now_s)

    def remove_rows(self, digest: bytes, most: int) -> int:
        with self._writing() as connection:
            row = connection.execute(
                "SELECT retention.study FROM retention JOIN studies"
                " ON studies.number = retention.study WHERE digest = ? AND rows_left",
                (digest,),
            ).fetchone()
            if row is None:
                return 0
            # Evidence refers to its report, and is little: it goes first, whole.
            connection.execute(f"DELETE FROM evidence WHERE request IN {_ROWS}", row)
            some = f"FROM reports WHERE request IN {_ROWS} LIMIT ?"
            # Reports to a request are all as long, and a step is mostly of one request.
            first = connection.execute(f"SELECT length(data) {some}", (*row, 1)).fetchone()
            size = 0 if first is None else first[0]
            removed = connection.execute(
                f"DELETE FROM reports WHERE (request, ordinal) IN (SELECT request, ordinal {some})",
                (*row, min(most, 1 + _BYTES_AT_ONCE // (size + 1))),
            ).rowcount
            if not removed:
                connection.execute("UPDATE retention SET rows_left = 0 WHERE study = ?", row)
            return removed

    def delete_results(self, digest: bytes, now_s: int) -> None:
        with self._writing() as connection:
            study = _mark(connection, digest, now_s)
            connection.execute("DELETE FROM transcript_lines WHERE study = ?", (study,))
            connection.execute("UPDATE conclusions SET result_json = '' WHERE study = ?", (study,))
            connection.execute("DELETE FROM tagged_populations WHERE study = ?", (digest,))
            connection.execute(
                "UPDATE retention SET results_deleted_unix_s ="
                " coalesce(results_deleted_unix_s, ?) WHERE study = ?",
                (now_s, study),
            )


def keeps_reports(connection: sqlite3.Connection, request: int) -> bool:
    """Return whether reports to a request, by its number, may still be stored."""
    found = connection.execute(
        "SELECT 1 FROM requests JOIN retention ON retention.study = requests.study"
        " WHERE requests.number = ? AND reports_deleted_unix_s IS NOT NULL",
        (request,),
    )
    return found.fetchone() is None


def _mark(connection: sqlite3.Connection, digest: bytes, now_s: int) -> int:
    """Note that a study's reports are deleted, and return its number."""
    row = connection.execute(
        "SELECT number FROM studies JOIN conclusions ON conclusions.study = studies.number"
        " WHERE digest = ? AND epoch = 0",
        (digest,),
    ).fetchone()
    if row is None:
        raise not_ended(digest)
    connection.execute(f"{_NOTE} AND study = ? ON CONFLICT DO NOTHING", (now_s, *row))
    connection.execute(
        "UPDATE retention SET reports_deleted_unix_s = ?, rows_left = 1"
        " WHERE study = ? AND reports_deleted_unix_s IS NULL",
        (now_s, *row),
    )
    connection.execute("DELETE FROM study_users WHERE study = ?", (digest,))
    return int(row[0])


def _kept(row: tuple[Any, ...]) -> KeptStudy:
    digest, ended, reports_deleted, results_deleted, rows_left = row
    return KeptStudy(digest, ended, reports_deleted, results_deleted, bool(rows_left))
