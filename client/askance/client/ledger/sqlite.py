"""The ledger of a real device: one SQLite file, every commit synced to the disk."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from askance.client.errors import StoreError, UnsupportedStore
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

_APPLICATION = 0x61736B6C  # "askl", in the file's header
_VERSION = 1

# Sums are taken over `charges` and nothing else, so there is no second number to disagree with.
_SCHEMA = """
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


class SqliteLedger:
    """The ledger's contract on one SQLite file (see `Ledger`); safe to share between threads.

    The file is held exclusively while it is open: a second process that would spend the same
    budget is refused.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Use `create` or `open`."""
        self._connection = connection
        self._path = path
        self._lock = threading.Lock()

    @classmethod
    def create(cls, path: Path) -> SqliteLedger:
        """Makes a new, empty ledger at `path`.

        Raises:
          StoreError: something is there already (a ledger is never overwritten), or the disk says
            no.
        """
        try:
            path.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            raise StoreError(f"ledger {path}: expected no file there yet, found one") from None
        except OSError as error:
            raise StoreError(f"ledger {path}: cannot be made: {error.strerror}") from None
        connection = None
        try:
            connection = _connect(path)
            _set_durable(connection)
            connection.executescript(
                f"BEGIN; PRAGMA application_id={_APPLICATION}; PRAGMA user_version={_VERSION};"
                f"{_SCHEMA} COMMIT;"
            )
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            path.unlink(missing_ok=True)
            raise StoreError(f"ledger {path}: cannot be made: {error}") from None
        return cls(connection, path)

    @classmethod
    def open(cls, path: Path) -> SqliteLedger:
        """Opens the ledger at `path`, or refuses.

        Raises:
          StoreError: no file, no ledger, damaged, or in use by another process.
          UnsupportedStore: written by a newer version.
        """
        if not path.is_file():
            raise StoreError(f"ledger {path}: expected a ledger, found no file (make one: init)")
        try:
            connection = _connect(path)
        except sqlite3.Error as error:
            raise StoreError(f"ledger {path}: expected a sound ledger, found: {error}") from None
        try:
            _check(connection, path)
        except sqlite3.Error as error:
            connection.close()
            raise StoreError(f"ledger {path}: expected a sound ledger, found: {error}") from None
        except StoreError:
            connection.close()
            raise
        return cls(connection, path)

    def stored(self, request_digest: bytes) -> bytes | None:
        with self._transaction() as connection:
            return _stored(connection, request_digest)

    def totals(self, study_digest: bytes, day: int) -> Totals:
        with self._transaction() as connection:
            return _totals(connection, study_digest, day)

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        with self._transaction() as connection:
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
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT request_digest, study_digest, day, nano_nats FROM charges ORDER BY sequence"
            ).fetchall()
        return (Entry(*row) for row in rows)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One atomic, durable step; a failure of the disk leaves the ledger as it was."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.commit()
            except sqlite3.Error as error:
                self._roll_back()
                raise StoreError(f"ledger {self._path}: nothing was spent: {error}") from None
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:  # SQLite rolls back by itself on some errors
                self._connection.rollback()
        except sqlite3.Error:
            # A disk that cannot even do that: the open transaction makes every later BEGIN fail,
            # so that nothing leaves until the ledger is opened again.
            return


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    return connection


def _set_durable(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuses what is no ledger before anything in it is changed, then takes hold of it."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION:
        raise StoreError(f"ledger {path}: expected a ledger, found another kind of database")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        raise UnsupportedStore(
            f"ledger {path}: expected version {_VERSION} at most, found {version}"
        )
    problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise StoreError(f"ledger {path}: expected a sound ledger, found: {problem}")
    _set_durable(connection)
    connection.execute("BEGIN IMMEDIATE")  # takes the exclusive lock now, not at the first charge
    connection.execute("COMMIT")


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
