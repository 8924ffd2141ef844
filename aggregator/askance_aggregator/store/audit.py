r"""Audit log: entries that are only appended, each bound to the one before by its hash.

The digest of an entry is SHA-256 over `b"askance audit v1\0"`, the digest of the entry before (32
zero bytes before the first) and the line, which is one JSON object. A program that changes,
removes, inserts or moves an entry has to compute every later digest anew; a digest that was kept
elsewhere then no longer stands in the log. An entry holds no user's value, no token and no secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from askance_aggregator.store.dialect import Execute, OrderedTransactions, first_row, list_rows
from askance_client.errors import AskanceError, StoreError
from askance_client.printable import value_text

GENESIS = bytes(32)  # stands before the first entry
NONCE_BYTES = 16
MAX_PAGE = 1_000  # entries read at a time
_DOMAIN = b"askance audit v1\0"
_LATER = ("changed", "began")  # fields that entries of earlier versions lack
BEGUN = "begun"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """A call or a command that is recorded.

    Args:
      at_unix_s: when, in Unix seconds, by the clock of the process that records it.
      who: the caller's name; empty: not proven.
      role: the caller's role; "local" for a command on the aggregator's machine; empty: not proven.
      action: its words, those of the command ("device revoke"), whether a call or a command did it.
      subject: what it was about: a study's digest, or how devices were selected; no device's name.
      origin: the caller's network address; "local"; empty: it has none.
      outcome: "begun", "done", "failed: WORD" or "refused: WORD".
      count: calls that the entry stands for; more than 1 for refusals that were listed together.
      changed: devices and gateways that it changed; None: it changes none, or has not yet.
      began: number of the entry with which the action began; 0: none, or it is not known.
    """

    at_unix_s: int
    who: str
    role: str
    action: str
    subject: str
    origin: str
    outcome: str
    count: int = 1
    changed: int | None = None
    began: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the fields of one JSON object, without those that say nothing."""
        left_out = {"changed": None, "began": 0}
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in left_out or value != left_out[name]
        }


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the log as it is kept.

    Args:
      number: its place, from 1.
      line: one JSON object: the event, the number and the nonce.
      digest: 32 bytes, which bind the entry and all before it.
    """

    number: int
    line: str
    digest: bytes

    def to_json(self) -> dict[str, Any]:
        """Return the entry as one JSON object; `event` is the line itself."""
        return {"number": self.number, "line": self.line, "digest": self.digest.hex()}

    @property
    def event(self) -> AuditEvent:
        """The event in the line; raises AuditBroken if it holds none."""
        try:
            content = json.loads(self.line)
            later = {name: content[name] for name in _LATER if name in content}
            fields = {name: content[name] for name in AuditEvent.__slots__ if name not in _LATER}
        except (ValueError, LookupError, TypeError):
            raise AuditBroken(self.number, "expected an event, found another text") from None
        return AuditEvent(**fields, **later)


class AuditBroken(AskanceError):
    """A log that is not as it was written; `number` is of the first entry that does not fit."""

    def __init__(self, number: int, found: str) -> None:
        super().__init__(f"audit entry {number}: {found}")
        self.number = number


class NonceKnown(StoreError):
    """A call whose nonce has been recorded before; nothing was recorded."""

    def __init__(self) -> None:
        super().__init__("audit: expected a new nonce, got one of an earlier call")


def next_entry(before: AuditEntry | None, event: AuditEvent, nonce: bytes) -> AuditEntry:
    """Return the entry that follows `before`; None: the log is empty, and it is the first."""
    number = 1 if before is None else before.number + 1
    content = {"number": number, **event.to_json(), "nonce": nonce.hex()}
    line = json.dumps(content, separators=(",", ":"))
    return AuditEntry(number, line, _digest(GENESIS if before is None else before.digest, line))


def fold_actions(entries: Iterable[AuditEntry]) -> list[AuditEntry]:
    """Return the last entry of each action, in the order of the log.

    An entry "begun" is left out where a later one ends its action: the one that names it, or, of an
    earlier version, the next one by the same caller about the same.
    """
    last: dict[int, AuditEntry] = {}
    open_ones: dict[tuple[str, ...], list[int]] = {}
    for entry in entries:
        event = entry.event
        same = (event.who, event.role, event.action, event.subject, event.origin)
        waiting = open_ones.setdefault(same, [])
        if event.outcome == BEGUN:
            waiting.append(entry.number)
        elif event.began in last:
            del last[event.began]
            if event.began in waiting:
                waiting.remove(event.began)
        elif waiting and not event.began:
            del last[waiting.pop(0)]
        last[entry.number] = entry
    return list(last.values())


def every_entry(log: AuditLog) -> Iterator[AuditEntry]:
    """Yield all entries of a log, oldest first, a page at a time."""
    after = 0
    while page := log.entries(after):
        yield from page
        after = page[-1].number


def entry_of_json(text: str, place: int) -> AuditEntry:
    """Parse an entry, a line of an exported file, whose number should be `place`."""
    try:
        content = json.loads(text)
        digest = bytes.fromhex(content["digest"])
        number, line = content["number"], content["line"]
    except (ValueError, LookupError, TypeError):
        number = line = digest = None
    if not isinstance(number, int) or not isinstance(line, str) or digest is None:
        raise AuditBroken(place, f"expected an entry of an export, found {value_text(text)}")
    return AuditEntry(number, line, digest)


def verify_entries(entries: Iterable[AuditEntry], expected: bytes | None = None) -> AuditEntry:
    """Check a whole log, from its first entry.

    Args:
      entries: all entries, in the order in which they were found.
      expected: a digest that was noted earlier; the log must hold it still. None: the end of the
        log cannot be checked.

    Returns:
      The last entry.

    Raises:
      AuditBroken: an entry was changed, removed, inserted or moved; the log is empty; or it lacks
        the expected digest, so that it was cut off or written anew.
    """
    last: AuditEntry | None = None
    seen = False
    for place, entry in enumerate(entries, 1):
        if entry.number != place:
            raise AuditBroken(place, f"expected number {place}, found {entry.number}: one is gone")
        if entry.digest != _digest(GENESIS if last is None else last.digest, entry.line):
            raise AuditBroken(place, "expected the digest of its line and of the entry before")
        if json.loads(entry.line).get("number") != place:
            raise AuditBroken(place, "expected its number in its line, found another")
        last, seen = entry, seen or entry.digest == expected
    if last is None:
        raise AuditBroken(1, "expected an entry, found an empty log")
    if expected is not None and not seen:
        raise AuditBroken(
            last.number,
            f"expected the digest {expected.hex()} in the log, found none: its end was cut off, or"
            " it was written anew",
        )
    return last


def _digest(before: bytes, line: str) -> bytes:
    return hashlib.sha256(_DOMAIN + before + line.encode()).digest()


_APPENDING = 0x61736B75  # "asku": the lock of a transaction that appends
_COLUMNS = "SELECT number, line, digest FROM audit"
_LAST = f"{_COLUMNS} ORDER BY number DESC LIMIT 1"


class AuditLog:
    """The audit log of a store; one chain, whatever process appends."""

    def __init__(self, transactions: OrderedTransactions) -> None:
        self._transactions = transactions

    def append(self, event: AuditEvent, nonce: bytes = b"") -> AuditEntry:
        """Append an entry for a call with a nonce of 16 bytes, or none; durable when this returns.

        Raises:
          NonceKnown: an earlier entry has the nonce. StoreError: nothing was recorded.
        """

        def step(execute: Execute) -> AuditEntry:
            # Until the commit: the next process then reads this entry before it appends.
            self._transactions.take_turn(execute, _APPENDING)
            if nonce and execute("SELECT 1 FROM audit WHERE nonce = ?", (nonce,)).fetchall():
                raise NonceKnown
            rows = execute(_LAST, ()).fetchall()
            entry = next_entry(AuditEntry(*rows[0]) if rows else None, event, nonce)
            execute(
                "INSERT INTO audit (number, line, digest, nonce) VALUES (?, ?, ?, ?)",
                (entry.number, entry.line, entry.digest, nonce or None),
            )
            return entry

        return self._transactions.write(step)

    def entries(self, after: int = 0, limit: int = MAX_PAGE) -> list[AuditEntry]:
        """Return at most `limit` entries whose numbers are above `after`, oldest first."""
        rows = list_rows(
            self._transactions,
            f"{_COLUMNS} WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        )
        return [AuditEntry(*row) for row in rows]

    def head(self) -> AuditEntry | None:
        """Return the last entry; None if there is none."""
        row = first_row(self._transactions, _LAST)
        return None if row is None else AuditEntry(*row)
