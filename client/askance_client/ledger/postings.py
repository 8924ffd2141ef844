"""The rows of a ledger file: their schema, and the hash chain over them.

Every (member, enrolment) has a chain of its own. A row's hash covers the hash before it in that
chain and all of the row's fields; a request's payload and a study's bytes are covered by their
digests. A work of 0 is left out: rows from before there was a work have the hash that they had.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from askance_client.ledger.contract import Charge
from askance_client.sqlite_file import FileKind

NO_HASH = bytes(32)  # stands before the first row of a chain

LOSS_STEP = 1 << 32
"""Sequence numbers that an accepted loss skips: more than an enrolment can ever have had."""
_CONTEXT = b"askance posting v1\0"
PAGE = 256  # rows read at a time: a concurrent commit waits for no more than these


class PostingKind(Enum):
    """The kind of a row."""

    ANSWER = "answer"
    LOSS = "loss"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Posting:
    """Row of a ledger file.

    Args:
        place: its number in the file, from 1, without a gap.
        member: the member's name; '' for a single device.
        enrolment: the device id under which the member answered.
        sequence: its number in the chain of this member and enrolment.
        kind: a charged answer, a loss that the owner accepted, or a repaired clock.
        charge: the charge. An event has its time and nano-nats only, and empty bytes elsewhere.
            `payload` and `study` are empty where they were not kept.
        report: the report that left; empty for an event.
    """

    place: int
    member: str
    enrolment: bytes
    sequence: int
    kind: PostingKind
    charge: Charge
    report: bytes
    chained: bytes

    def hash(self, before: bytes) -> bytes:
        """Compute the row's hash, after a row with the hash `before` in the same chain."""
        charge = self.charge
        digest = hashlib.sha256(_CONTEXT + before)
        for field in (
            str(self.place).encode(),
            self.member.encode(),
            self.enrolment,
            str(self.sequence).encode(),
            self.kind.value.encode(),
            str(charge.at_s).encode(),
            str(charge.nano_nats).encode(),
            charge.request_digest,
            charge.study_digest,
            charge.question,
            charge.symbol,
            self.report,
            *([str(charge.weight).encode()] if charge.weight else ()),
        ):
            digest.update(len(field).to_bytes(8, "big") + field)
        return digest.digest()


# Sums are taken over the rows and nothing else, so there is no second number to disagree with.
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

# A gateway keeps many members' ledgers in one file. Every index is led by the member, so that no
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

# Charged answers only: a reused answer had a row of 0 nano-nats, which is dropped. An old row's
# time is the last second of its day, so that no study which had expired by then revives. `facts`
# holds single values about the file. The hashes are filled in when the file is first opened: SQL
# computes none.
_CHAIN = """
CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE studies (
  digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
  study BLOB NOT NULL
) STRICT;
CREATE TABLE payloads (
  digest BLOB PRIMARY KEY CHECK (length(digest) = 32),
  study_digest BLOB NOT NULL CHECK (length(study_digest) = 32),
  size INTEGER NOT NULL CHECK (size = length(payload)),
  payload BLOB NOT NULL
) STRICT;
CREATE INDEX payloads_by_study ON payloads (study_digest, size);
CREATE TABLE postings (
  place INTEGER PRIMARY KEY,
  member TEXT NOT NULL,
  enrolment BLOB NOT NULL,
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  kind TEXT NOT NULL CHECK (kind IN ('answer', 'loss', 'clock')),
  at_s INTEGER NOT NULL CHECK (at_s >= 0),
  nano_nats INTEGER NOT NULL CHECK (nano_nats >= 0),
  request_digest BLOB CHECK (length(request_digest) = 32),
  study_digest BLOB CHECK (length(study_digest) = 32),
  question BLOB CHECK (length(question) = 32),
  symbol BLOB,
  report BLOB,
  hash BLOB CHECK (length(hash) = 32),
  CHECK (kind <> 'answer' OR (nano_nats >= 1 AND request_digest IS NOT NULL
    AND study_digest IS NOT NULL AND question IS NOT NULL AND symbol IS NOT NULL
    AND report IS NOT NULL)),
  UNIQUE (member, enrolment, sequence),
  UNIQUE (member, request_digest)
) STRICT;
INSERT INTO postings (member, enrolment, sequence, kind, at_s, nano_nats, request_digest,
  study_digest, question, symbol, report)
  SELECT member, x'', row_number() OVER (PARTITION BY member ORDER BY sequence), 'answer',
  day * 86400 + 86399, nano_nats, request_digest, study_digest, question, symbol, report
  FROM charges WHERE nano_nats >= 1 ORDER BY charges.sequence;
DROP TABLE charges;
CREATE INDEX postings_by_study ON postings (member, study_digest, nano_nats);
CREATE INDEX postings_by_time ON postings (member, at_s, nano_nats);
CREATE INDEX postings_by_question ON postings (member, question);
CREATE INDEX postings_of_clocks ON postings (member, place) WHERE kind = 'clock';
"""

# The study's sums of an epoch, of a day's work and of its answers are read from the index alone.
_WORK = """
ALTER TABLE postings ADD COLUMN weight INTEGER NOT NULL DEFAULT 0 CHECK (weight >= 0);
DROP INDEX postings_by_study;
CREATE INDEX postings_by_study ON postings (member, study_digest, at_s, nano_nats, weight);
"""

KIND = FileKind(
    name="ledger",
    application=0x61736B6C,  # "askl"
    steps=(_FIRST, _MEMBERS, _CHAIN, _WORK),
    undone="nothing was spent",
    make="make one with `device init`",
)

# Of a `Posting`, those of its charge last.
_READ = (
    "SELECT place, member, enrolment, sequence, kind, coalesce(report, x''), coalesce(hash, x''),"
    " coalesce(request_digest, x''), coalesce(postings.study_digest, x''),"
    " coalesce(question, x''), at_s, nano_nats, coalesce(symbol, x''), coalesce(payload, x''),"
    " coalesce(study, x''), weight FROM postings"
    " LEFT JOIN payloads ON payloads.digest = postings.request_digest"
    " AND payloads.study_digest = postings.study_digest"
    " LEFT JOIN studies ON studies.digest = postings.study_digest"
    " WHERE place > ? ORDER BY place LIMIT ?"
)


def read_page(connection: sqlite3.Connection, after: int, rows: int) -> list[Posting]:
    """Read at most `rows` rows, in order of place, from behind the place `after`."""
    return [_posting(*row) for row in connection.execute(_READ, (after, rows))]


def last_of_chain(
    connection: sqlite3.Connection, member: str, enrolment: bytes
) -> tuple[int, bytes]:
    """Return the sequence number and hash of a chain's last row; (0, zeros) for an empty chain."""
    row = connection.execute(
        "SELECT sequence, hash FROM postings WHERE member = ? AND enrolment = ?"
        " ORDER BY sequence DESC LIMIT 1",
        (member, enrolment),
    ).fetchone()
    return (0, NO_HASH) if row is None else (int(row[0]), bytes(row[1] or NO_HASH))


def append(
    connection: sqlite3.Connection,
    member: str,
    enrolment: bytes,
    sequence: int,
    before: bytes,
    kind: PostingKind,
    charge: Charge,
    report: bytes,
    after: int = 0,
) -> None:
    """Append a row at the file's next place.

    `connection` is inside the caller's transaction. `before` is the hash of the chain's row before
    this one, `report` empty if there is none, and the row's place will be above `after`.
    """
    (place,) = connection.execute(
        "SELECT max(coalesce(max(place), 0), ?) + 1 FROM postings", (after,)
    ).fetchone()
    posting = Posting(place, member, enrolment, sequence, kind, charge, report, b"")
    named = (charge.request_digest, charge.study_digest, charge.question, charge.symbol, report)
    connection.execute(
        "INSERT INTO postings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            place,
            member,
            enrolment,
            sequence,
            kind.value,
            charge.at_s,
            charge.nano_nats,
            *(named if kind is PostingKind.ANSWER else (None,) * len(named)),
            posting.hash(before),
            charge.weight,
        ),
    )


def fill_hashes(connection: sqlite3.Connection) -> None:
    """Compute the hashes of a file whose rows have none yet."""
    chains: dict[tuple[str, bytes], bytes] = {}
    for posting in _all(connection):
        chain = (posting.member, posting.enrolment)
        chains[chain] = posting.hash(chains.get(chain, NO_HASH))
        connection.execute(
            "UPDATE postings SET hash = ? WHERE place = ?", (chains[chain], posting.place)
        )


def _all(connection: sqlite3.Connection) -> Iterator[Posting]:
    last = 0
    while page := read_page(connection, last, PAGE):
        yield from page
        last = page[-1].place


def _posting(
    place: int,
    member: str,
    enrolment: bytes,
    sequence: int,
    kind: str,
    report: bytes,
    chained: bytes,
    *charge: Any,
) -> Posting:
    of_kind, charged = PostingKind(kind), Charge(*charge)
    return Posting(place, member, enrolment, sequence, of_kind, charged, report, chained)
