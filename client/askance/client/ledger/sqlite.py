"""The ledgers of real devices: one SQLite file, every commit synced to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from askance.client.errors import InvalidParameter
from askance.client.ledger.binding import read_binding, write_binding
from askance.client.ledger.contract import (
    MAX_ANSWERS,
    Answer,
    Charge,
    Compose,
    Entry,
    Limits,
    Overrun,
    Totals,
    overrun,
)
from askance.client.ledger.group_commit import GroupCommit
from askance.client.sqlite_file import FileKind, SqliteFile

MAX_MEMBER_BYTES = 256
_CHUNK = 4096  # rows read at a time, so that whoever commits meanwhile waits for no more than these

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

# A gateway keeps many people's ledgers in one file. Every index is led by the member, so that no
# ledger's sums take longer because others stand beside it.
_MEMBERS = """
CREATE TABLE charges_of_members (
  sequence INTEGER PRIMARY KEY,
  member TEXT NOT NULL DEFAULT '',
  request_digest BLOB NOT NULL CHECK (length(request_digest) = 32),
  study_digest BLOB NOT NULL CHECK (length(study_digest) = 32),
  question BLOB NOT NULL CHECK (length(question) = 32),
  day INTEGER NOT NULL CHECK (day >= 0),
  nano_nats INTEGER NOT NULL CHECK (nano_nats >= 0),
  symbol BLOB NOT NULL,
  report BLOB NOT NULL,
  UNIQUE (member, request_digest)
) STRICT;
INSERT INTO charges_of_members SELECT sequence, '', request_digest, study_digest, question, day,
  nano_nats, symbol, report FROM charges ORDER BY sequence;
DROP TABLE charges;
ALTER TABLE charges_of_members RENAME TO charges;
CREATE INDEX charges_by_study ON charges (member, study_digest, nano_nats);
CREATE INDEX charges_by_day ON charges (member, day, nano_nats);
CREATE INDEX charges_by_question ON charges (member, question);
"""

_FACTS = """
CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
"""

KIND = FileKind(
    name="ledger",
    application=0x61736B6C,  # "askl"
    steps=(_FIRST, _MEMBERS, _FACTS),
    undone="nothing was spent",
    make="make one: init",
)


class LedgerFile:
    """The ledgers of one or many members in one file; safe to share between threads.

    The file is held exclusively while it is open: a second process that would spend the same
    budgets is refused. Members' commits that come together wait for the disk together.
    """

    def __init__(self, file: SqliteFile) -> None:
        """Use `create` or `open`."""
        self._file = file
        self._commits = GroupCommit(file)

    @classmethod
    def create(cls, path: Path) -> LedgerFile:
        """Makes a new file without any charge at `path`.

        Raises:
          StoreError: something is there already (a ledger is never overwritten), or the disk says
            no.
        """
        return cls(SqliteFile.create(path, KIND))

    @classmethod
    def open(cls, path: Path) -> LedgerFile:
        """Opens the ledgers at `path`, or refuses.

        Raises:
          StoreError: no file, no ledger, damaged, or in use by another process.
          UnsupportedStore: written by a newer version.
        """
        return cls(SqliteFile.open(path, KIND))

    def ledger(self, member: str = "") -> SqliteLedger:
        """One member's ledger, empty if the file has no charge of theirs; '' is a single device's.

        Raises:
          InvalidParameter: a name that cannot be kept.
        """
        try:
            size = len(member.encode("utf-8"))
        except UnicodeEncodeError:
            raise InvalidParameter("ledger: expected a member's name in valid Unicode") from None
        if size > MAX_MEMBER_BYTES or "\0" in member:
            raise InvalidParameter(
                f"ledger: expected a member's name of at most {MAX_MEMBER_BYTES} bytes and no zero"
                f" byte, found {size} bytes"
            )
        return SqliteLedger(self._file, self._commits, member)

    def binding(self) -> Mapping[str, str]:
        """Return the texts that the file is bound to, by name; empty if it is not bound."""
        with self._file.reading() as connection:
            return read_binding(connection)

    def bind(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Bind the file to texts, durably, unless it is bound already.

        Args:
          texts: one or more, by name.

        Returns:
          The texts that the file is bound to now, which may be others.

        Raises:
          StoreError: the file has charges and no binding; nothing was changed.
        """
        with self._file.transaction() as connection:
            charged = connection.execute("SELECT 1 FROM charges LIMIT 1").fetchone() is not None
            return write_binding(connection, texts, charged=charged)

    def members(self) -> tuple[str, ...]:
        """Who has ever been charged, in order of their names."""
        with self._file.reading() as connection:
            rows = connection.execute("SELECT DISTINCT member FROM charges ORDER BY member")
            return tuple(str(row[0]) for row in rows)

    def answers(self) -> Iterator[Answer]:
        """Every answer that any member gave, oldest first."""
        last = 0
        while True:
            with self._file.reading() as connection:
                rows = connection.execute(
                    "SELECT sequence, member, request_digest, study_digest, question, day,"
                    " nano_nats, symbol, report FROM charges WHERE sequence > ?"
                    " ORDER BY sequence LIMIT ?",
                    (last, _CHUNK),
                ).fetchall()
            if not rows:
                return
            for sequence, member, *charge, report in rows:
                yield Answer(member, Charge(*charge), report)
                last = sequence

    def close(self) -> None:
        """Lets the file go; every member's ledger is closed with it."""
        self._file.close()


class SqliteLedger:
    """The ledger's contract for one member of a file (see `Ledger`), shareable between threads.

    `create` and `open` are for a file with one device's ledger and no other's.
    """

    __slots__ = ("_commits", "_file", "_member")

    def __init__(self, file: SqliteFile, commits: GroupCommit, member: str) -> None:
        """Use `create`, `open` or `LedgerFile.ledger`."""
        self._file = file
        self._commits = commits
        self._member = member

    @classmethod
    def create(cls, path: Path) -> SqliteLedger:
        """Makes a new, empty ledger at `path` (see `LedgerFile.create`)."""
        return LedgerFile.create(path).ledger()

    @classmethod
    def open(cls, path: Path) -> SqliteLedger:
        """Opens the ledger at `path`, or refuses (see `LedgerFile.open`)."""
        return LedgerFile.open(path).ledger()

    def stored(self, request_digest: bytes) -> bytes | None:
        with self._file.reading() as connection:
            return self._stored(connection, request_digest)

    def totals(self, study_digest: bytes, day: int) -> Totals:
        with self._file.reading() as connection:
            return self._totals(connection, study_digest, day)

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> bytes | Overrun:
        # The caller may send what comes back: it has been committed.
        return self._commits.run(
            lambda connection: self._charge(connection, charge, limits, compose)
        )

    def history(self) -> Iterator[Entry]:
        with self._file.reading() as connection:
            rows = connection.execute(
                "SELECT request_digest, study_digest, day, nano_nats FROM charges"
                " WHERE member = ? ORDER BY sequence",
                (self._member,),
            ).fetchall()
        return (Entry(*row) for row in rows)

    def close(self) -> None:
        """Lets the file go, for all its members."""
        self._file.close()

    def _charge(
        self, connection: sqlite3.Connection, charge: Charge, limits: Limits, compose: Compose
    ) -> bytes | Overrun:
        stored = self._stored(connection, charge.request_digest)
        if stored is not None:
            return stored
        if self._answers(connection) >= MAX_ANSWERS:
            return Overrun.ANSWERS
        totals = self._totals(connection, charge.study_digest, charge.day)
        frozen = connection.execute(
            "SELECT symbol FROM charges WHERE member = ? AND question = ? LIMIT 1",
            (self._member, charge.question),
        ).fetchone()
        symbol, cost = (charge.symbol, charge.nano_nats) if frozen is None else (frozen[0], 0)
        past = overrun(totals, cost, limits)
        if past is not None:
            return past
        report = compose(symbol, cost, totals.study + cost)
        connection.execute(
            "INSERT INTO charges (member, request_digest, study_digest, question, day, nano_nats,"
            " symbol, report) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._member,
                charge.request_digest,
                charge.study_digest,
                charge.question,
                charge.day,
                cost,
                symbol,
                report,
            ),
        )
        return report

    def _stored(self, connection: sqlite3.Connection, request_digest: bytes) -> bytes | None:
        row = connection.execute(
            "SELECT report FROM charges WHERE member = ? AND request_digest = ?",
            (self._member, request_digest),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def _answers(self, connection: sqlite3.Connection) -> int:
        row = connection.execute(
            "SELECT count(*) FROM charges WHERE member = ?", (self._member,)
        ).fetchone()
        return int(row[0])

    def _totals(self, connection: sqlite3.Connection, study_digest: bytes, day: int) -> Totals:
        row = connection.execute(
            "SELECT coalesce((SELECT sum(nano_nats) FROM charges"
            "   WHERE member = :member AND study_digest = :study), 0),"
            " coalesce((SELECT sum(nano_nats) FROM charges"
            "   WHERE member = :member AND day = :day), 0),"
            " coalesce((SELECT sum(nano_nats) FROM charges WHERE member = :member), 0),"
            " coalesce((SELECT max(day) FROM charges WHERE member = :member), 0)",
            {"member": self._member, "study": study_digest, "day": day},
        ).fetchone()
        return Totals(*row)
