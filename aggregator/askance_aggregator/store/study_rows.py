"""Lists of studies as rows."""

from __future__ import annotations

from typing import Any

from askance_aggregator.store.dialect import Execute, Transactions, first_row, list_rows
from askance_aggregator.store.listing import (
    ListedState,
    StudyEntry,
    StudyExtent,
    StudyList,
    StudyQuery,
    StudyState,
    key_range,
    unknown_cursor,
)
from askance_client.messages import SignedStudy

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


class StudyRows:
    """Lists of studies in a database (see `Listing`)."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def page(self, query: StudyQuery, owner: bytes | None = None) -> StudyList[StudyEntry]:
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
    """Return what a query chooses from.

    Returns:
      Tables of the studies, and of their number; the column that orders them; conditions, and their
      parameters.
    """
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
