"""Lists of studies, a part at a time, on every store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from askance_aggregator.store import (
    MAX_STUDIES,
    Conclusion,
    ListedState,
    SqliteStore,
    Store,
    StudyExtent,
    StudyQuery,
    StudyState,
)
from askance_aggregator.store.listing import Listing
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from tests.aggregator.store.test_contract import store

__all__ = ["store"]
KEYS = (bytes.fromhex("a0") * 32, bytes.fromhex("a1") * 32)
# State of each study, the oldest first; studies alternate between the two analysts.
STATES = [
    *(ListedState.DONE, ListedState.OPEN, ListedState.PAUSED, ListedState.FAILED),
    *(ListedState.OPEN, ListedState.CANCELLED, ListedState.PAUSED, ListedState.DONE),
    *(ListedState.DONE, ListedState.OPEN, ListedState.DONE),
]


def digest(number: int) -> bytes:
    return bytes([0xF0 - 16 * (number % 3), number]) + bytes(30)  # not in the order of numbers


def filled(store: Store) -> Store:
    for number, state in enumerate(STATES):
        store.add_study(digest(number), SignedStudy(b"%d" % number, KEYS[number % 2], b"s"))
        if state is ListedState.PAUSED:
            store.management.pause(digest(number))
        if state.ended is not None:
            store.management.pause(digest(number))  # a study may be paused when it ends
            store.conclude(digest(number), Conclusion(state.ended, "reason", "", "{}"))
        store.conclude(digest(number), Conclusion(StudyState.FAILED, "missed", "", "{}"), epoch=1)
    return store


def expected(query: StudyQuery, owner: bytes | None) -> list[int]:
    """Return the numbers of the studies that fit, newest first."""
    return [
        number
        for number in reversed(range(len(STATES)))
        if query.state in (None, STATES[number])
        and KEYS[number % 2].hex().startswith(query.analyst)
        and digest(number).hex().startswith(query.study)
        and owner in (None, KEYS[number % 2])
    ]


def test_every_filter_is_read_in_parts_in_both_directions(store: Store) -> None:
    filled(store)
    filters = product((None, *ListedState), ("", "a", "a0", KEYS[1].hex()), (None, *KEYS))
    for state, analyst, owner in filters:
        for study in ("", "f", digest(4).hex()):
            query = StudyQuery(state, analyst, study)
            wanted = expected(query, owner)
            total = len(expected(StudyQuery(), owner))
            whole = store.listing.page(query, owner)
            assert [one.digest for one in whole.studies] == [digest(n) for n in wanted]
            assert whole.extent == StudyExtent(len(wanted), total, more=False)
            assert read(store, query, owner, newer=False) == wanted
            assert read(store, query, owner, newer=True) == wanted


def read(store: Store, query: StudyQuery, owner: bytes | None, *, newer: bool) -> list[int]:
    """Read a list in parts of two from one end to the other; return it newest first."""
    found: list[int] = []
    cursor, more = b"", True
    while more:
        part = store.listing.page(
            StudyQuery(query.state, query.analyst, query.study, cursor, newer, 2), owner
        )
        numbers = [one.digest[1] for one in part.studies]
        assert len(numbers) <= 2
        found = numbers + found if newer else found + numbers
        more = part.extent.more
        cursor = digest(found[0 if newer else -1]) if found else b""
    return found


def test_a_cursor_of_no_list_is_refused(store: Store) -> None:
    filled(store)
    page = store.listing.page
    with pytest.raises(InvalidParameter, match="cursor: expected the digest of a listed study"):
        page(StudyQuery(cursor=bytes(32)))
    with pytest.raises(InvalidParameter, match="cursor: expected"):
        page(StudyQuery(cursor=digest(1)), KEYS[0])  # another analyst's
    assert page(StudyQuery(ListedState.DONE, cursor=digest(1), newer=True)).extent.fitting == 4


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": MAX_STUDIES + 1}, {"analyst": "g"}, {"study": "0" * 65}]
)
def test_a_query_of_no_list_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=f"^{next(iter(wrong))}: expected"):
        StudyQuery(**wrong)  # type: ignore[arg-type]  # what a caller may send


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (StudyQuery(ListedState.DONE, cursor=digest(3), limit=2), "ended_studies"),
        (StudyQuery(ListedState.PAUSED, limit=2), "paused_studies"),
        (StudyQuery(cursor=digest(3), limit=2), "INTEGER PRIMARY KEY"),
        (StudyQuery(study="f0", limit=2), "sqlite_autoindex_studies_1"),
        (StudyQuery(analyst=KEYS[0].hex(), limit=2), "studies_by_key"),
    ],
)
def test_a_part_is_read_by_an_index(query: StudyQuery, index: str, tmp_path: Path) -> None:
    made = filled(SqliteStore.create(tmp_path / "store"))
    made.close()
    statements: list[tuple[str, tuple[object, ...]]] = []
    with closing(sqlite3.connect(tmp_path / "store")) as opened:

        def execute(statement: str, parameters: Sequence[object]) -> sqlite3.Cursor:
            statements.append((statement, tuple(parameters)))
            return opened.execute(statement, parameters)

        class Reading:
            read = write = staticmethod(lambda step: step(execute))

        Listing(Reading()).page(query)
        statement, parameters = statements[-1]
        plan = opened.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    assert index in " ".join(row[3] for row in plan)
