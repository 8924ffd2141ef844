"""Decisions of an owner on studies, durable, and the studies that wait for one.

A decision is bound to the SHA-256 of a study's bytes together with the analyst's key. A study with
any other byte, or the same bytes signed by another key, is another study, which waits again.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from threading import Lock

from askance_client.device import ExaminedStudy
from askance_client.errors import InvalidParameter
from askance_client.ledger import SECONDS_PER_DAY
from askance_client.messages import Reason, Refusal
from askance_client.printable import value_text
from askance_client.sqlite_file import FileKind, SqliteFile

MAX_WAITING = 64
"""Undecided studies that are kept: an analyst could sign studies without end."""

MAX_QUESTIONS = 8  # requests that are kept per study, for the owner to read
MAX_QUESTION_BYTES = 64 << 10
CONSENT_WAIT_S = 600
"""Mean time until a decision is acted on: a stream per device and ten minutes is little work."""
MAX_DAYS = 3_660  # of an approval, ten years
MAX_WHY = 200  # characters of a reason
_LEAST_DIGITS = 8  # of a digest that names a study: 2^32 names

StudyKey = tuple[bytes, bytes]
"""Digest of a study's bytes, and the analyst's public key."""


class ConsentRule(Enum):
    """Rule for a study on which the owner has not decided."""

    PINNED = "pinned"
    ASK = "ask"


class Verdict(Enum):
    """Decision of an owner."""

    APPROVED = "approved"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class ConsentDecision:
    """Decision on one study.

    Args:
      at_s: when, Unix seconds.
      until_s: the first second at which an approval does not hold any more; of a denial 0, for it
        holds until another decision.
      why: the owner's own words, at most 200 characters; they stay on the device.
    """

    verdict: Verdict
    at_s: int
    until_s: int
    why: str

    def holds(self, at_s: int) -> bool:
        """Return whether the decision holds at a time in Unix seconds."""
        return self.verdict is Verdict.DENIED or at_s < self.until_s


@dataclass(frozen=True, slots=True)
class KnownStudy:
    """Study that a device was asked about.

    Args:
      digest: SHA-256 of its bytes.
      first_s: when it was first asked about, Unix seconds.
      expires_s: the study's own expiry, Unix seconds.
      questions: payloads of its first requests.
      decision: the owner's; None if there is none.
    """

    digest: bytes
    analyst: bytes
    study: bytes
    first_s: int
    expires_s: int
    questions: tuple[bytes, ...] = ()
    decision: ConsentDecision | None = None

    def waits(self, now_s: int) -> bool:
        """Return whether the owner can still decide, and has not."""
        decided = self.decision is not None and self.decision.holds(now_s)
        return now_s < self.expires_s and not decided


_FIRST = """
CREATE TABLE studies (
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  analyst BLOB NOT NULL CHECK (length(analyst) = 32),
  study BLOB NOT NULL,
  first_s INTEGER NOT NULL,
  expires_s INTEGER NOT NULL,
  PRIMARY KEY (digest, analyst)
) STRICT;
CREATE TABLE questions (
  place INTEGER PRIMARY KEY,
  study BLOB NOT NULL,
  analyst BLOB NOT NULL,
  payload BLOB NOT NULL,
  FOREIGN KEY (study, analyst) REFERENCES studies (digest, analyst) ON DELETE CASCADE
) STRICT;
CREATE TABLE decisions (
  place INTEGER PRIMARY KEY,
  study BLOB NOT NULL CHECK (length(study) = 32),
  analyst BLOB NOT NULL CHECK (length(analyst) = 32),
  verdict TEXT NOT NULL CHECK (verdict IN ('approved', 'denied')),
  at_s INTEGER NOT NULL,
  until_s INTEGER NOT NULL,
  why TEXT NOT NULL,
  FOREIGN KEY (study, analyst) REFERENCES studies (digest, analyst)
) STRICT;
"""

KIND = FileKind(
    name="consent file",
    application=0x61736B64,  # "askd"
    steps=(_FIRST,),
    undone="nothing was decided",
    make="`device run` makes one",
)


class Consents:
    """The decisions in a file; a `Consent` of a device's policy, shared between threads.

    Privacy: a decision is a function of the study's bytes and key, the clock and what the owner
      decided. Without a decision nothing leaves and nothing is evaluated or charged: an aggregator
      sees a device that is connected and silent. A denial leaves as a reason code and an approval
      as an answer, at times that do not follow the decision; both say what the owner decided, which
      no epsilon bounds. A stored report does not leave while its study is denied or waits.

    Args:
      rule: what holds for a study without a decision.
    """

    def __init__(self, file: SqliteFile, rule: ConsentRule) -> None:
        """Use `open`."""
        self._file = file
        self._rule = rule
        self._lock = Lock()
        self._studies: dict[StudyKey, KnownStudy] = {}
        with file.reading() as connection:
            self._load(connection)

    @classmethod
    def open(cls, path: Path, rule: ConsentRule) -> Consents:
        """Open the file at `path`, which is made if it is not there.

        Raises:
          StoreError: damaged, newer, or in use by another process.
        """
        found = path.is_file()
        return cls(SqliteFile.open(path, KIND) if found else SqliteFile.create(path, KIND), rule)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __call__(self, study: ExaminedStudy, payload: bytes, at_s: int) -> Refusal | None:
        """Return None if a study may be answered, else a refusal: denied, or waiting.

        Raises:
          StoreError: a study or a question could not be kept; nothing was answered.
        """
        key = (study.digest, study.public_key)
        self._keep(key, study, payload, at_s)
        known = self._studies.get(key)
        decision = None if known is None else known.decision
        name = study.digest.hex()[:16]
        if decision is not None and decision.holds(at_s):
            if decision.verdict is Verdict.APPROVED:
                return None
            return Refusal(Reason.NOT_APPROVED, f"study {name}: expected one that is not denied")
        if self._rule is ConsentRule.PINNED:
            return None
        if known is None:
            return Refusal(
                Reason.WAITING,
                f"study {name} is held and not listed: expected at most {MAX_WAITING} studies that"
                " wait for the owner (device approve, device deny)",
            )
        return Refusal(Reason.WAITING, f"study {name} waits for its owner (device approve {name})")

    def studies(self) -> tuple[KnownStudy, ...]:
        """Return all known studies, in the order in which they came."""
        return tuple(self._studies.values())

    def waiting(self, now_s: int) -> tuple[KnownStudy, ...]:
        """Return the studies that wait for a decision; none by the rule `PINNED`."""
        return tuple(known for known in self.studies() if self.state(known, now_s) == "waiting")

    def state(self, known: KnownStudy, now_s: int) -> str:
        """Return "approved", "denied", "expired", "waiting", or "pinned": answered undecided."""
        if known.decision is not None and known.decision.holds(now_s):
            return known.decision.verdict.value
        if not known.waits(now_s):
            return "expired"
        return "waiting" if self._rule is ConsentRule.ASK else "pinned"

    def named(self, name: str, analyst: bytes | None = None) -> KnownStudy:
        """Return the study of a digest, or of its first eight hexadecimal digits or more.

        `analyst` is needed where two analysts signed the same bytes.

        Raises:
          InvalidParameter: none has the name, or several have.
        """
        text = name.lower()
        fits = [
            known
            for known in self.studies()
            if known.digest.hex().startswith(text) and analyst in (None, known.analyst)
        ]
        if len(text) < _LEAST_DIGITS or not fits:
            raise InvalidParameter(
                f"study: expected the first {_LEAST_DIGITS} digits or more of a study that this"
                f" device was asked about (device status), got {value_text(name)}"
            )
        if len(fits) > 1:
            keys = ", ".join(known.analyst.hex()[:16] for known in fits)
            raise InvalidParameter(
                f"study: expected one study, got {value_text(name)} of {len(fits)}, by the analysts"
                f" {keys} (give more digits, or --analyst)"
            )
        return fits[0]

    def approve(self, known: KnownStudy, now_s: int, days: int | None, why: str = "") -> KnownStudy:
        """Approve a study, durably when this returns.

        Args:
          known: the study.
          now_s: the time, Unix seconds.
          days: the approval holds for so many, 1..3660, and never past the study's own expiry;
            None: until then.
          why: the owner's own words.

        Raises:
          InvalidParameter: the study has expired, or days or reason are out of range.
          StoreError: it was not made durable; nothing was decided.
        """
        if now_s >= known.expires_s:
            raise InvalidParameter("study: expected one that has not expired, got an expired one")
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise InvalidParameter(f"days: expected 1 to {MAX_DAYS}, got {days}")
        until_s = known.expires_s
        if days is not None:
            until_s = min(until_s, now_s + days * SECONDS_PER_DAY)
        return self._decide(known, ConsentDecision(Verdict.APPROVED, now_s, until_s, _reason(why)))

    def deny(self, known: KnownStudy, now_s: int, why: str = "") -> KnownStudy:
        """Deny a study, durably when this returns; what was answered before stays charged.

        Raises:
          InvalidParameter: the reason is too long.
          StoreError: it was not made durable; nothing was decided.
        """
        return self._decide(known, ConsentDecision(Verdict.DENIED, now_s, 0, _reason(why)))

    def _decide(self, known: KnownStudy, decision: ConsentDecision) -> KnownStudy:
        key = (known.digest, known.analyst)
        row = (*key, decision.verdict.value, decision.at_s, decision.until_s, decision.why)
        with self._lock:
            with self._file.transaction() as connection:
                connection.execute(
                    "INSERT INTO decisions (study, analyst, verdict, at_s, until_s, why)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    row,
                )
            decided = replace(self._studies.get(key, known), decision=decision)
            self._studies[key] = decided  # after the commit: what is in force is durable
        return decided

    def _keep(self, key: StudyKey, study: ExaminedStudy, payload: bytes, at_s: int) -> None:
        """Keep a study that was asked about, and its first questions, if there is room."""
        known = self._studies.get(key)
        if known is not None and not _is_new(known, payload):
            return
        with self._lock:
            known, out = self._studies.get(key), None
            added = known is None
            if known is None:
                known = KnownStudy(*key, study.study, at_s, study.terms.expires_unix_s)
                undecided = [other for other in self.studies() if other.decision is None]
                if len(undecided) >= MAX_WAITING:
                    out = self._replaceable(undecided, at_s)
                    if out is None:
                        return
            asked = (payload,) if _is_new(known, payload) else ()
            known = replace(known, questions=(*known.questions, *asked))
            with self._file.transaction() as connection:
                if out is not None:
                    _remove(connection, out)
                if added:
                    _add(connection, known)
                connection.executemany(
                    "INSERT INTO questions (study, analyst, payload) VALUES (?, ?, ?)",
                    [(*key, question) for question in asked],
                )
            if out is not None:  # after the commit: what is listed is durable
                del self._studies[out.digest, out.analyst]
            self._studies[key] = known

    def _replaceable(self, undecided: list[KnownStudy], at_s: int) -> KnownStudy | None:
        """The oldest study that no decision is waited for; None if all wait."""
        if self._rule is ConsentRule.PINNED:
            return undecided[0]
        return next((known for known in undecided if not known.waits(at_s)), None)

    def _load(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute("SELECT * FROM studies ORDER BY first_s, digest").fetchall()
        for digest, analyst, study, first_s, expires_s in rows:
            key = (digest, analyst)
            self._studies[key] = KnownStudy(digest, analyst, study, first_s, expires_s)
        asked = connection.execute("SELECT study, analyst, payload FROM questions ORDER BY place")
        for digest, analyst, payload in asked.fetchall():
            known = self._studies[digest, analyst]
            self._studies[digest, analyst] = replace(known, questions=(*known.questions, payload))
        decided = connection.execute(
            "SELECT study, analyst, verdict, at_s, until_s, why FROM decisions ORDER BY place"
        )
        for digest, analyst, verdict, at_s, until_s, why in decided.fetchall():
            decision = ConsentDecision(Verdict(verdict), at_s, until_s, why)
            known = self._studies[digest, analyst]
            self._studies[digest, analyst] = replace(known, decision=decision)


def _add(connection: sqlite3.Connection, known: KnownStudy) -> None:
    connection.execute(
        "INSERT INTO studies VALUES (?, ?, ?, ?, ?)",
        (known.digest, known.analyst, known.study, known.first_s, known.expires_s),
    )


def _remove(connection: sqlite3.Connection, known: KnownStudy) -> None:
    connection.execute(
        "DELETE FROM studies WHERE digest = ? AND analyst = ?", (known.digest, known.analyst)
    )


def _is_new(known: KnownStudy, payload: bytes) -> bool:
    """Return whether a payload is one that is to be kept and is not."""
    room = len(known.questions) < MAX_QUESTIONS and len(payload) <= MAX_QUESTION_BYTES
    return room and payload not in known.questions


def _reason(why: str) -> str:
    if len(why) > MAX_WHY or not why.isprintable():
        raise InvalidParameter(
            f"why: expected at most {MAX_WHY} printable characters, got {len(why)} characters"
        )
    return why
