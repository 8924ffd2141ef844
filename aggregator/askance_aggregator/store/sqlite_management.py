"""Paused studies and times of submission in the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager

from askance_aggregator.store.checks import (
    unknown_study,
)
from askance_aggregator.store.management import SubmissionNote

_Transaction = Callable[[], AbstractContextManager[sqlite3.Connection]]


class SqliteManagement:
    """See `Management`.

    Args:
      writing: opens a transaction.
      reading: opens a reading.
    """

    def __init__(self, writing: _Transaction, reading: _Transaction) -> None:
        self._writing = writing
        self._reading = reading

    def pause(self, digest: bytes) -> None:
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO paused_studies VALUES (?) ON CONFLICT DO NOTHING",
                (_number(connection, digest),),
            )

    def unpause(self, digest: bytes) -> None:
        with self._writing() as connection:
            connection.execute(
                "DELETE FROM paused_studies WHERE study ="
                " (SELECT number FROM studies WHERE digest = ?)",
                (digest,),
            )

    def paused(self) -> frozenset[bytes]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT digest FROM paused_studies JOIN studies"
                " ON studies.number = paused_studies.study"
            ).fetchall()
        return frozenset(bytes(digest) for (digest,) in rows)

    def note_submission(self, digest: bytes, at_unix_s: int) -> None:
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO submissions VALUES (?, ?) ON CONFLICT DO NOTHING",
                (_number(connection, digest), at_unix_s),
            )

    def submissions(self, public_key: bytes) -> list[SubmissionNote]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT digest, at_unix_s FROM submissions JOIN studies"
                " ON studies.number = submissions.study WHERE public_key = ?"
                " ORDER BY at_unix_s, number",
                (public_key,),
            ).fetchall()
        return [SubmissionNote(bytes(digest), at_unix_s) for digest, at_unix_s in rows]


def _number(connection: sqlite3.Connection, digest: bytes) -> int:
    row = connection.execute("SELECT number FROM studies WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise unknown_study(digest)
    return int(row[0])
