"""The ledger of a real device: one SQLite file, every commit synced to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from askance.client.ledger.contract import (
    MAX_ANSWERS,
    Charge,
    Compose,
    Entry,
    Limits,
    Overrun,
    Totals,
    overrun,
)
from askance.client.sqlite_file import FileKind, SqliteFile

# Sums are taken over `charges` and nothing else, so there is no second number to disagree with.
_FIRST = """
CREATE TABLE charges (
  sequence INTEGER PRIMARY KEY,
  request_digest BLOB NOT NULL UNIQUE CHECK (length(request_digest) = 32),
  study_digest BLOB NOT NULL CHECK (length(study_digest) = 32),
  question BLOB NOT NULL CHECK (length(question) = 32),
  day INTEGER NOT NULL CHECK (day >= 0),
  nano_nats INTEGER NOT NULL CHECK (nano_nats >= 0),
  symbol BLOB NOT NULL,
  report BLOB NOT NULL
) STRICT;
CREATE INDEX charges_by_study ON charges (study_digest, nano_nats);
CREATE INDEX charges_by_day ON charges (day, nano_nats);
CREATE INDEX charges_by_question ON charges (question);
"""


KIND = FileKind(
    name="ledger",
    application=0x61736B6C,  # "askl"
    steps=(_FIRST,),
    undone="nothing was spent",
    make="make one: init",
)


class SqliteLedger:
    """The ledger's contract on one SQLite file (see `Ledger`); safe to share between threads.

    The file is held exclusively while it is open: a second process that would spend the same
    budget is refused.
    """

    def __init__(self, file: SqliteFile) -> None:
        """Use `create` or `open`."""
        self._file = file

    @classmethod
    def create(cls, path: Path) -> SqliteLedger:
        """Makes a new, empty ledger at `path`.

        Raises:
          StoreError: something is there already (a ledger is never overwritten), or the disk says
            no.
        """
        return cls(SqliteFile.create(path, KIND))

    @classmethod
    def open(cls, path: Path) -> SqliteLedger:
        """Opens the ledger at `path`, or refuses.

        Raises:
          StoreError: no file, no ledger, damaged, or in use by another process.
          UnsupportedStore: written by a newer version.
        """
        return cls(SqliteFile.open(path, KIND))

    def stored(self, request_digest: bytes) -> bytes | None:
        with self._file.reading() as connection:
            return _stored(connection, request_digest)

    def totals(self, study_digest: bytes, day: int) -> Totals:
        with self._file.reading() as connection:
            return _totals(connection, study_digest, day)

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        with self._file.transaction() as connection:
            stored = _stored(connection, charge.request_digest)
            if stored is not None:
                return stored
            if _answers(connection) >= MAX_ANSWERS:
                return Overrun.ANSWERS
            totals = _totals(connection, charge.study_digest, charge.day)
            frozen = connection.execute(
                "SELECT symbol FROM charges WHERE question = ? LIMIT 1", (charge.question,)
            ).fetchone()
            symbol, cost = (charge.symbol, charge.nano_nats) if frozen is None else (frozen[0], 0)
            past = overrun(totals, cost, limits)
            if past is not None:
                return past
            report = compose(symbol, cost, totals.study + cost)
            connection.execute(
                "INSERT INTO charges (request_digest, study_digest, question, day, nano_nats,"
                " symbol, report) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    charge.request_digest,
                    charge.study_digest,
                    charge.question,
                    charge.day,
                    cost,
                    symbol,
                    report,
                ),
            )
        return report  # after the commit: the caller may send it

    def history(self) -> Iterator[Entry]:
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT request_digest, study_digest, day, nano_nats FROM charges ORDER BY sequence"
            ).fetchall()
        return (Entry(*row) for row in rows)

    def close(self) -> None:
        self._file.close()


def _stored(connection: sqlite3.Connection, request_digest: bytes) -> bytes | None:
    row = connection.execute(
        "SELECT report FROM charges WHERE request_digest = ?", (request_digest,)
    ).fetchone()
    return None if row is None else bytes(row[0])


def _answers(connection: sqlite3.Connection) -> int:
    # Rows are never deleted: the last one's number is how many there are.
    last: int | None = connection.execute("SELECT max(sequence) FROM charges").fetchone()[0]
    return last or 0


def _totals(connection: sqlite3.Connection, study_digest: bytes, day: int) -> Totals:
    row = connection.execute(
        "SELECT coalesce((SELECT sum(nano_nats) FROM charges WHERE study_digest = ?), 0),"
        " coalesce((SELECT sum(nano_nats) FROM charges WHERE day = ?), 0),"
        " coalesce((SELECT sum(nano_nats) FROM charges), 0),"
        " coalesce((SELECT max(day) FROM charges), 0)",
        (study_digest, day),
    ).fetchone()
    return Totals(*row)
