"""Lists of studies: a part at a time, newest first, by state, analyst and digest."""

from __future__ import annotations

import string
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from askance_aggregator.store.dialect import Execute, Transactions, first_row, list_rows
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from askance_client.printable import value_text

MAX_STUDIES = 500  # of one part: some 100 KB on the wire
_DIGITS = 64  # of a public key, and of a digest


class StudyState(IntEnum):
    """State of a study. The numbers are the wire's."""

    OPEN = 1
    DONE = 2
    FAILED = 3
    CANCELLED = 4


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """A stored study without its transcript and its result; reason and message are of its end.

    `rounds_closed` are those of its latest epoch, all of them if it collects once.
    """

    digest: bytes
    signed: SignedStudy
    state: StudyState
    reason: str
    message: str
    rounds_closed: int


class ListedState(StrEnum):
    """State by which studies are listed; a scheduled study is open."""

    OPEN = "open"  # and not paused
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> StudyState | None:
        """State of a study that has ended; None of one that is open."""
        return None if self in (ListedState.OPEN, ListedState.PAUSED) else StudyState[self.name]


@dataclass(frozen=True, slots=True)
class StudyQuery:
    """Part of a list of studies.

    Args:
      state: of the studies listed; None: any.
      analyst: hexadecimal digits that begin their analyst's public key; empty: any.
      study: hexadecimal digits that begin their digest; empty: any.
      cursor: digest of the study beside which the part begins; empty: at an end of the list.
      newer: whether the part is newer than the cursor, and not older; without one, whether it is
        the oldest part.
      limit: studies at most, 1 to 500; None: all.

    Raises:
      InvalidParameter: a limit, or digits, of no list.
    """

    state: ListedState | None = None
    analyst: str = ""
    study: str = ""
    cursor: bytes = b""
    newer: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and not 1 <= self.limit <= MAX_STUDIES:
            raise InvalidParameter(f"limit: expected 1 to {MAX_STUDIES} studies, got {self.limit}")
        for name, digits in (("analyst", self.analyst), ("study", self.study)):
            if len(digits) > _DIGITS or not set(digits) <= set(string.hexdigits):
                raise InvalidParameter(
                    f"{name}: expected at most {_DIGITS} hexadecimal digits,"
                    f" got {value_text(digits[:80])}"
                )


class ListedStudy(Protocol):
    """Study in a list."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the study."""
        ...


T_co = TypeVar("T_co", bound=ListedStudy, covariant=True)


@dataclass(frozen=True, slots=True)
class StudyExtent:
    """List of which a query was answered with a part.

    Args:
      fitting: number of studies that fit the query, on all its parts.
      total: number of studies of the list, whatever the query says.
      more: whether there is another part in the query's direction.
    """

    fitting: int
    total: int
    more: bool


@dataclass(frozen=True, slots=True)
class StudyList(Generic[T_co]):
    """Part of a list of studies: of stored entries, of statuses, or of what a caller receives.

    `studies` has the newest first.
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
    "  (SELECT max(epoch) FROM rounds WHERE rounds.study = studies.number))"
)
_ENDS = " LEFT JOIN conclusions ON conclusions.study = studies.number AND conclusions.epoch = 0"
"""Join of studies with the ends of whole ones; those of epochs stand under their indices."""
_ALL = " FROM studies"
# The table that is read in its order leads: ended studies by their index, paused ones by their
# notes.
_ENDED = " FROM conclusions JOIN studies ON studies.number = conclusions.study"
_PAUSED = " FROM paused_studies JOIN studies ON studies.number = paused_studies.study"
_IS_PAUSED = "EXISTS (SELECT 1 FROM paused_studies WHERE paused_studies.study = studies.number)"


class Listing:
    """Lists of the studies of a store."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def page(self, query: StudyQuery, owner: bytes | None = None) -> StudyList[StudyEntry]:
        """Return a part of the list of an analyst's studies, given by public key, or of all.

        Raises:
          InvalidParameter: the cursor is no study of the list.
        """
        return self._transactions.read(lambda execute: _page(execute, query, owner))

    def entry(self, digest: bytes) -> StudyEntry | None:
        """Return one study; None if there is none of that digest."""
        row = first_row(self._transactions, f"{_ENTRY}{_ALL}{_ENDS} WHERE digest = ?", (digest,))
        return None if row is None else _entry(row)

    def open_studies(self) -> dict[bytes, SignedStudy]:
        """Return the studies that have not ended (see `Store.open_studies`)."""
        rows = list_rows(
            self._transactions,
            "SELECT digest, studies.study, public_key, signature"
            f"{_ALL}{_ENDS} WHERE state IS NULL ORDER BY number",
        )
        return {digest: SignedStudy(*columns) for digest, *columns in rows}

    def count(self) -> dict[StudyState, int]:
        """Return the number of studies of each state (see `Store.count_studies`)."""
        rows = list_rows(
            self._transactions, f"SELECT coalesce(state, 1), count(*){_ALL}{_ENDS} GROUP BY 1"
        )
        counts = {StudyState(state): int(number) for state, number in rows}
        return {state: counts.get(state, 0) for state in StudyState}


def _page(execute: Execute, query: StudyQuery, owner: bytes | None) -> StudyList[StudyEntry]:
    tables, counted, number, wheres, parameters = _chosen(query)
    owned: tuple[object, ...] = ()
    if owner is not None:
        owned = (owner,)
        wheres.append("public_key = ?")
        parameters.append(owner)
    ((total,),) = execute(
        f"SELECT count(*) FROM studies{' WHERE public_key = ?' if owned else ''}", owned
    ).fetchall()
    fitting = total
    if query.state is not None or query.analyst or query.study:
        ((fitting,),) = execute(f"SELECT count(*){counted}{_where(wheres)}", parameters).fetchall()
    if query.cursor:
        wheres.append(f"{number} {'>' if query.newer else '<'} ?")
        parameters.append(_number(execute, query.cursor, owner))
    order = f" ORDER BY {number} {'ASC' if query.newer else 'DESC'}"
    if query.limit is not None:
        order += " LIMIT ?"
        parameters.append(query.limit + 1)  # one more, to know if there is another part
    rows = execute(f"{_ENTRY}{tables}{_where(wheres)}{order}", parameters).fetchall()
    found = [_entry(row) for row in rows[: query.limit]]
    if query.newer:
        found.reverse()
    return StudyList(tuple(found), StudyExtent(fitting, total, more=len(rows) > len(found)))


def _chosen(query: StudyQuery) -> tuple[str, str, str, list[str], list[object]]:
    """Return the tables, the ordering column, the conditions and their parameters of a query."""
    wheres: list[str] = []
    parameters: list[object] = []
    tables, counted, number = f"{_ALL}{_ENDS}", _ALL, "studies.number"
    if query.state is ListedState.OPEN:
        counted = tables
        wheres += ["state IS NULL", f"NOT {_IS_PAUSED}"]
    elif query.state is ListedState.PAUSED:
        tables, number = f"{_PAUSED}{_ENDS}", "paused_studies.study"
        counted = tables
        wheres.append("state IS NULL")
    elif query.state is not None:
        assert query.state.ended is not None
        tables, number = _ENDED, "conclusions.study"
        counted = tables
        wheres += ["conclusions.epoch = 0", "state = ?"]
        parameters.append(int(query.state.ended))
    for column, digits in (("public_key", query.analyst), ("digest", query.study)):
        if digits:
            wheres.append(f"{column} BETWEEN ? AND ?")
            parameters += key_range(digits)
    return tables, counted, number, wheres, parameters


def _number(execute: Execute, cursor: bytes, owner: bytes | None) -> int:
    """Return the number of the study at a cursor; raise InvalidParameter of one of no list."""
    rows = execute("SELECT number, public_key FROM studies WHERE digest = ?", (cursor,)).fetchall()
    if not rows or owner not in (None, bytes(rows[0][1])):
        raise unknown_cursor(cursor)
    return int(rows[0][0])


def _where(wheres: list[str]) -> str:
    return f" WHERE {' AND '.join(wheres)}" if wheres else ""


def _entry(row: Any) -> StudyEntry:
    digest, study, public_key, signature, state, reason, message, closed = row
    signed = SignedStudy(study, public_key, signature)
    return StudyEntry(digest, signed, StudyState(state), reason, message, closed)
