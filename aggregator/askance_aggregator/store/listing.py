"""Lists of studies: a part at a time, by state, analyst, digest, words and times, in an order.

A study is found by the words of its purpose, learner and columns. The words, and the text by which
titles are sorted, follow from its signed terms (see `titles`) and are kept as an index of them.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from askance_aggregator.store.dialect import Execute, Transactions, first_row, list_rows
from askance_aggregator.titles import index_of, stored_title, words_of
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from askance_client.printable import value_text

MAX_STUDIES = 500  # of one part: some 100 KB on the wire
MAX_SOUGHT = 200  # characters of the words that are sought
_DIGITS = 64  # of a public key, and of a digest
_MAX_TIME = (1 << 63) - 1  # the store's integers end there
_LAST = "\U0010ffff"  # no word goes on with it


class StudyState(IntEnum):
    """State of a study. The numbers are the wire's."""

    OPEN = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """A stored study without its transcript and its result; reason and message are of its end.

    `rounds_closed` are those of its latest epoch, all of them if it collects once. Times are in
    Unix seconds; 0: not known. `users` are those of its latest epoch; 0: it has not begun, or an
    older version began it.
    """

    digest: bytes
    signed: SignedStudy
    state: StudyState
    reason: str
    message: str
    rounds_closed: int
    submitted_unix_s: int = 0
    ended_unix_s: int = 0
    users: int = 0


class ListedState(StrEnum):
    """State by which studies are listed; a scheduled study is open."""

    OPEN = "open"  # and not paused
    PAUSED = "paused"
    AWAITING_APPROVAL = "awaiting-approval"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> StudyState | None:
        """State of a study that has ended; None of one that is open."""
        return None if self in _NOT_ENDED else StudyState[self.name]


_NOT_ENDED = (ListedState.OPEN, ListedState.PAUSED, ListedState.AWAITING_APPROVAL)


class ListOrder(StrEnum):
    """Order of a list of studies; studies that are equal in it stand with the newest first."""

    SUBMITTED = "submitted"  # the newest first
    ENDED = "ended"  # those that have ended alone, the last end first
    USERS = "users"  # the most first
    TITLE = "title"  # from a to z


@dataclass(frozen=True, slots=True)
class StudyQuery:
    """Part of a list of studies.

    Args:
      state: of the studies listed; None: any.
      analyst: hexadecimal digits that begin their analyst's public key; empty: any.
      study: hexadecimal digits that begin their digest; empty: any.
      cursor: digest of the study beside which the part begins; empty: at an end of the list.
      newer: whether the part is before the cursor in the order, and not after; without one,
        whether it is the last part.
      limit: studies at most, 1 to 500; None: all.
      words: each begins a word of the study's purpose, learner or columns, whatever its case;
        empty: any study.
      order: of the list.
      reversed: whether the end of the order comes first.
      since_unix_s: only studies that are open, or ended at this time or later; 0: any.
      until_unix_s: only studies that were submitted before this time; 0: any.
    """

    state: ListedState | None = None
    analyst: str = ""
    study: str = ""
    cursor: bytes = b""
    newer: bool = False
    limit: int | None = None
    words: str = ""
    order: ListOrder = ListOrder.SUBMITTED
    reversed: bool = False
    since_unix_s: int = 0
    until_unix_s: int = 0

    def __post_init__(self) -> None:
        if self.limit is not None and not 1 <= self.limit <= MAX_STUDIES:
            raise InvalidParameter(f"limit: expected 1 to {MAX_STUDIES} studies, got {self.limit}")
        for name, digits in (("analyst", self.analyst), ("study", self.study)):
            if len(digits) > _DIGITS or not set(digits) <= set(string.hexdigits):
                raise InvalidParameter(
                    f"{name}: expected at most {_DIGITS} hexadecimal digits,"
                    f" got {value_text(digits[:80])}"
                )
        if len(self.words) > MAX_SOUGHT or bool(self.words) > bool(words_of(self.words)):
            raise InvalidParameter(
                f"words: expected words of at most {MAX_SOUGHT} characters together,"
                f" got {value_text(self.words[:80])}"
            )
        for name, time_s in (("since", self.since_unix_s), ("until", self.until_unix_s)):
            if not 0 <= time_s <= _MAX_TIME:
                raise InvalidParameter(f"{name}: expected a time after 1970, got {time_s}")

    @property
    def is_whole(self) -> bool:
        """Return whether every study fits."""
        narrows = (self.state, self.analyst, self.study, self.words, self.since_unix_s)
        return not (any(narrows) or self.until_unix_s or self.order is ListOrder.ENDED)


class ListedStudy(Protocol):
    """Study in a list."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the study."""
        ...


T_co = TypeVar("T_co", bound=ListedStudy, covariant=True)


@dataclass(frozen=True, slots=True)
class StudyExtent:
    """List of which a query was answered with a part."""

    fitting: int  # studies that fit the query, on all its parts
    total: int  # studies of the list, whatever the query says
    more: bool  # whether there is another part in the query's direction


@dataclass(frozen=True, slots=True)
class StudyList(Generic[T_co]):
    """Part of a list of studies: of stored entries, of statuses, or of what a caller receives.

    `studies` are in the query's order.
    """

    studies: tuple[T_co, ...]
    extent: StudyExtent


def unknown_cursor(cursor: bytes) -> InvalidParameter:
    """Return the refusal of a cursor that is no study of the list."""
    return InvalidParameter(
        f"cursor: expected the digest of a listed study, got {value_text(cursor.hex()[:64])}"
    )


def key_range(digits: str) -> tuple[bytes, bytes]:
    """Return the least and the greatest value of 32 bytes that begins with hexadecimal digits."""
    return bytes.fromhex(digits.ljust(_DIGITS, "0")), bytes.fromhex(digits.ljust(_DIGITS, "f"))


_ENTRY = (
    "SELECT digest, studies.study, public_key, signature, coalesce(state, 1), coalesce(reason, ''),"
    " coalesce(message, ''),"
    " (SELECT count(*) FROM rounds WHERE rounds.study = studies.number AND closed AND epoch ="
    "  (SELECT max(epoch) FROM rounds WHERE rounds.study = studies.number)),"
    " coalesce((SELECT at_unix_s FROM submissions WHERE submissions.study = studies.number), 0),"
    " coalesce((SELECT ended_unix_s FROM retention WHERE retention.study = studies.number), 0),"
    " coalesce((SELECT users FROM study_titles WHERE study_titles.study = studies.number), 0)"
)
_ENDS = " LEFT JOIN conclusions ON conclusions.study = studies.number AND conclusions.epoch = 0"
"""Join of studies with the ends of whole ones; those of epochs stand under their indices."""
_ALL = " FROM studies"
# The table that is read in its order leads: ended studies by their index, paused ones by their
# notes, others by the column that they are sorted by.
_ENDED = " FROM conclusions JOIN studies ON studies.number = conclusions.study"
_PAUSED = " FROM paused_studies JOIN studies ON studies.number = paused_studies.study"
_IS_PAUSED = "EXISTS (SELECT 1 FROM paused_studies WHERE paused_studies.study = studies.number)"
_SORTED = {
    ListOrder.ENDED: ("retention", "ended_unix_s"),
    ListOrder.USERS: ("study_titles", "users"),
    ListOrder.TITLE: ("study_titles", "sorted"),
}
_HAS_WORD = "studies.number IN (SELECT study FROM study_words WHERE word >= ? AND word < ?)"
_SINCE = (
    "NOT EXISTS (SELECT 1 FROM retention AS over"
    " WHERE over.study = studies.number AND over.ended_unix_s < ?)"
)
_UNTIL = (
    "NOT EXISTS (SELECT 1 FROM submissions"
    " WHERE submissions.study = studies.number AND at_unix_s >= ?)"
)

IS_AWAITING = (
    "NOT EXISTS (SELECT 1 FROM approvals WHERE approvals.study = studies.number)"
    " AND NOT EXISTS (SELECT 1 FROM rounds WHERE rounds.study = studies.number)"
)
"""Condition of the open studies that wait for an approver where studies need one."""
_OPEN = {
    ListedState.OPEN: f"NOT {_IS_PAUSED}",
    ListedState.PAUSED: _IS_PAUSED,
    ListedState.AWAITING_APPROVAL: IS_AWAITING,
}


class Listing:
    """Lists of the studies of a store."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def page(self, query: StudyQuery, owner: bytes | None = None) -> StudyList[StudyEntry]:
        """Return a part of the list of an analyst's studies, given by public key, or of all."""
        return self._transactions.read(lambda execute: _page(execute, query, owner))

    def entry(self, digest: bytes) -> StudyEntry | None:
        """Return one study; None if there is none of that digest."""
        row = first_row(self._transactions, f"{_ENTRY}{_ALL}{_ENDS} WHERE digest = ?", (digest,))
        return None if row is None else _entry(row)

    def open_studies(self) -> dict[bytes, SignedStudy]:
        """Return the studies that have not ended, by digest, oldest first."""
        rows = list_rows(
            self._transactions,
            "SELECT digest, studies.study, public_key, signature"
            f"{_ALL}{_ENDS} WHERE state IS NULL ORDER BY number",
        )
        return {digest: SignedStudy(*columns) for digest, *columns in rows}

    def count(self) -> dict[StudyState, int]:
        """Return the number of studies of each state."""
        rows = list_rows(
            self._transactions, f"SELECT coalesce(state, 1), count(*){_ALL}{_ENDS} GROUP BY 1"
        )
        counts = {StudyState(state): int(number) for state, number in rows}
        return {state: counts.get(state, 0) for state in StudyState}

    def note_users(self, digest: bytes, users: int) -> None:
        """Note with how many users a study, or its latest epoch, has begun."""
        self._transactions.write(
            lambda execute: execute(
                "UPDATE study_titles SET users = ?"
                " WHERE study = (SELECT number FROM studies WHERE digest = ?)",
                (users, digest),
            )
        )

    def untitled(self) -> list[bytes]:
        """Return the digests of the studies that an older version stored, by no title."""
        rows = list_rows(
            self._transactions,
            "SELECT digest FROM studies LEFT JOIN study_titles ON study_titles.study = number"
            " WHERE study_titles.study IS NULL ORDER BY number",
        )
        return [bytes(digest) for (digest,) in rows]

    def add_title(self, digest: bytes, users: int) -> None:
        """Let a study of an older version be found by its title; again changes nothing."""

        def step(execute: Execute) -> None:
            ((number, study),) = execute(
                "SELECT number, study FROM studies WHERE digest = ?", (digest,)
            ).fetchall()
            note_title(execute, int(number), bytes(study), users)

        self._transactions.write(step)


def note_title(execute: Execute, number: int, study: bytes, users: int = 0) -> None:
    """Note the words of a study in the transaction that stores it."""
    text, words = index_of(study)
    execute(
        "INSERT INTO study_titles (study, sorted, users, title) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (number, text, users, stored_title(study)),
    )
    for word in words:
        execute(
            "INSERT INTO study_words (word, study) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (word, number),
        )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Tables, order and conditions of a query.

    `tables` are those of a row, `counted` those of its conditions; `columns` are what a row is
    sorted by, the study's number last.
    """

    tables: str
    counted: str
    columns: tuple[str, ...]
    wheres: list[str]
    parameters: list[object]


def _page(execute: Execute, query: StudyQuery, owner: bytes | None) -> StudyList[StudyEntry]:
    chosen = _choose(query)
    wheres, parameters = [*chosen.wheres], [*chosen.parameters]
    owned: tuple[object, ...] = ()
    if owner is not None:
        owned = (owner,)
        wheres.append("public_key = ?")
        parameters.append(owner)
    ((total,),) = execute(
        f"SELECT count(*) FROM studies{' WHERE public_key = ?' if owned else ''}", owned
    ).fetchall()
    fitting = total
    if not query.is_whole:
        counted = f"SELECT count(*){chosen.counted}{_where(wheres)}"
        ((fitting,),) = execute(counted, parameters).fetchall()
    # The first column falls but for titles; equal ones fall by number. `newer` reads backwards.
    falls = (query.order is not ListOrder.TITLE) != query.reversed
    downwards = falls != query.newer
    if query.cursor:
        values = _place(execute, query, chosen, owner)
        left = ", ".join(chosen.columns)
        wheres.append(f"({left}) {'<' if downwards else '>'} ({', '.join('?' * len(values))})")
        parameters += values
    direction = "DESC" if downwards else "ASC"
    order = " ORDER BY " + ", ".join(f"{column} {direction}" for column in chosen.columns)
    if query.limit is not None:
        order += " LIMIT ?"
        parameters.append(query.limit + 1)  # one more, to know if there is another part
    rows = execute(f"{_ENTRY}{chosen.tables}{_where(wheres)}{order}", parameters).fetchall()
    found = [_entry(row) for row in rows[: query.limit]]
    if query.newer:
        found.reverse()
    return StudyList(tuple(found), StudyExtent(fitting, total, more=len(rows) > len(found)))


def _choose(query: StudyQuery) -> _Chosen:
    wheres: list[str] = []
    parameters: list[object] = []
    tables, counted = f"{_ALL}{_ENDS}", _ALL
    columns: tuple[str, ...] = ("studies.number",)
    if query.order is not ListOrder.SUBMITTED:
        table, column = _SORTED[query.order]
        leading = f" FROM {table} JOIN studies ON studies.number = {table}.study"
        tables = counted = f"{leading}{_ENDS}"
        columns = (f"{table}.{column}", f"{table}.study")
    elif query.state is ListedState.PAUSED:
        tables, columns = f"{_PAUSED}{_ENDS}", ("paused_studies.study",)
        counted = tables
    elif query.state is not None and query.state.ended is not None:
        tables, columns = _ENDED, ("conclusions.study",)
        counted = tables
    elif query.state is not None:
        counted = tables
    if query.state is not None and query.state.ended is not None:
        wheres += ["conclusions.epoch = 0", "state = ?"]
        parameters.append(int(query.state.ended))
    elif query.state is not None:
        wheres += ["state IS NULL", _OPEN[query.state]]
    for column, digits in (("public_key", query.analyst), ("digest", query.study)):
        if digits:
            wheres.append(f"{column} BETWEEN ? AND ?")
            parameters += key_range(digits)
    for word in words_of(query.words):
        wheres.append(_HAS_WORD)
        parameters += (word, word + _LAST)
    for condition, time_s in ((_SINCE, query.since_unix_s), (_UNTIL, query.until_unix_s)):
        if time_s:
            wheres.append(condition)
            parameters.append(time_s)
    return _Chosen(tables, counted, columns, wheres, parameters)


def _place(
    execute: Execute, query: StudyQuery, chosen: _Chosen, owner: bytes | None
) -> list[object]:
    """Return the values of a cursor's study in the columns of the order."""
    table = "" if query.order is ListOrder.SUBMITTED else chosen.columns[0].partition(".")[0]
    joined = f" JOIN {table} ON {table}.study = studies.number" if table else ""
    column = f", {chosen.columns[0]}" if table else ""
    rows = execute(
        f"SELECT public_key, studies.number{column}{_ALL}{joined} WHERE digest = ?", (query.cursor,)
    ).fetchall()
    if not rows or owner not in (None, bytes(rows[0][0])):
        raise unknown_cursor(query.cursor)
    _, number, *value = rows[0]
    return [*value, int(number)]


def _where(wheres: list[str]) -> str:
    return f" WHERE {' AND '.join(wheres)}" if wheres else ""


def _entry(row: Any) -> StudyEntry:
    digest, study, public_key, signature, state, *rest = row
    return StudyEntry(digest, SignedStudy(study, public_key, signature), StudyState(state), *rest)
