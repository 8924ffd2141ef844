"""Rows of studies and requests of a SQLite store."""

from __future__ import annotations

import sqlite3

from askance_aggregator.store.checks import unknown_study
from askance_aggregator.store.retention import reports_deleted
from askance_aggregator.store.sqlite_retention import keeps_reports


def note_request(
    connection: sqlite3.Connection, digest: bytes, study: int, epoch: int, number: int
) -> None:
    """Note the round that a request is of."""
    connection.execute(
        "INSERT INTO requests (digest, study, epoch, round) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (digest) DO UPDATE SET study = excluded.study, epoch = excluded.epoch,"
        " round = excluded.round",
        (digest, study, epoch, number),
    )


def study_number(connection: sqlite3.Connection, digest: bytes) -> int:
    """Return the number of a study; raises StoreError if there is none."""
    row = connection.execute("SELECT number FROM studies WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise unknown_study(digest)
    return int(row[0])


def request_number(connection: sqlite3.Connection, digest: bytes) -> int:
    """Return the number of a request, which is added if need be; raises if it was deleted."""
    row = connection.execute("SELECT number FROM requests WHERE digest = ?", (digest,)).fetchone()
    if row is not None:
        if not keeps_reports(connection, row[0]):
            raise reports_deleted(digest)
        return int(row[0])
    added = connection.execute("INSERT INTO requests (digest) VALUES (?)", (digest,))
    return int(added.lastrowid or 0)
