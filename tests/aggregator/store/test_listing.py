"""Lists of studies, a part at a time, on every store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from askance_aggregator.encoding import encode_study
from askance_aggregator.learners.frequency import frequency
from askance_aggregator.store import (
    MAX_STUDIES,
    Conclusion,
    ListedState,
    ListOrder,
    SqliteStore,
    Store,
    StudyExtent,
    StudyQuery,
    StudyState,
)
from askance_aggregator.store.listing import Listing
from askance_aggregator.store.management import Approval
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter
from askance_client.messages import SignedStudy
from askance_client.queries import Category, Schema
from tests.aggregator.store.test_contract import store

__all__ = ["store"]
KEYS = (bytes.fromhex("a0") * 32, bytes.fromhex("a1") * 32)
# State of each study, the oldest first; studies alternate between the two analysts.
STATES = [
    *(ListedState.DONE, ListedState.OPEN, ListedState.PAUSED, ListedState.FAILED),
    *(ListedState.OPEN, ListedState.CANCELLED, ListedState.PAUSED, ListedState.DONE),
    *(ListedState.DONE, ListedState.OPEN, ListedState.DONE),
]
AWAITING = ListedState.AWAITING_APPROVAL
WAITING = {1, 2, 6, 9}  # open, paused or not, and not approved as number 4 is


def digest(number: int) -> bytes:
    return bytes([0xF0 - 16 * (number % 3), number]) + bytes(30)  # not in the order of numbers


def filled(store: Store) -> Store:
    for number, state in enumerate(STATES):
        store.add_study(digest(number), SignedStudy(b"%d" % number, KEYS[number % 2], b"s"))
        if state is ListedState.PAUSED:
            store.management.pause(digest(number))
        if number == 4:
            store.management.approve(digest(4), Approval("bob", KEYS[0], b"s", 1))
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
        if query.state in (None, STATES[number], AWAITING if number in WAITING else None)
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
        part = store.listing.page(replace(query, cursor=cursor, newer=newer, limit=2), owner)
        numbers = [one.digest[1] for one in part.studies]
        assert len(numbers) <= 2
        found = numbers + found if newer else found + numbers
        more = part.extent.more
        cursor = digest(found[0 if newer else -1]) if found else b""
    return found


# Purpose, users, time of submission and of the end (0: open or not noted) of each study.
NOTED = [
    ("Smokers by age", 40, 100, 900),
    ("", 7, 200, 0),  # its title is "Frequency of colour"
    ("Sleep, and smoking", 40, 300, 400),
    ("apples", 0, 0, 300),
    ("Übungen", 12, 500, 400),
]


def noted(store: Store) -> Store:
    """Add studies with titles and times, as an aggregator does."""
    for number, (purpose, users, submitted, ended) in enumerate(NOTED):
        store.add_study(digest(number), SignedStudy(study_of(purpose), KEYS[number % 2], b"s"))
        if submitted:
            store.management.note_submission(digest(number), submitted)
        if users:
            store.listing.note_users(digest(number), users)
        if ended:
            end = Conclusion(StudyState.FAILED if number else StudyState.DONE, "end", "", "{}")
            store.conclude(digest(number), end, ended_unix_s=ended)
            store.conclude(digest(number), end, ended_unix_s=ended + 7)  # the first note stays
    return store


def study_of(purpose: str) -> bytes:
    schema = Schema("people", 1, colour=Category(("red", "blue")))
    study = Study(frequency(schema.colour), schema, epsilon=1, purpose=purpose)
    return encode_study(study.terms(nonce=bytes(16), expires_unix_s=1))


ENDED = ListOrder.ENDED


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (StudyQuery(), [4, 3, 2, 1, 0]),
        (StudyQuery(reversed=True), [0, 1, 2, 3, 4]),
        (StudyQuery(order=ENDED), [0, 4, 2, 3]),
        (StudyQuery(order=ENDED, reversed=True), [3, 2, 4, 0]),
        (StudyQuery(ListedState.FAILED, order=ENDED), [4, 2, 3]),
        (StudyQuery(ListedState.OPEN, order=ENDED), []),
        (StudyQuery(order=ListOrder.USERS), [2, 0, 4, 1, 3]),
        (StudyQuery(ListedState.OPEN, order=ListOrder.USERS), [1]),
        (StudyQuery(order=ListOrder.TITLE), [3, 1, 2, 0, 4]),
        (StudyQuery(order=ListOrder.TITLE, reversed=True), [4, 0, 2, 1, 3]),
        (StudyQuery(words="smok"), [2, 0]),
        (StudyQuery(words="SMOKERS, age"), [0]),
        (StudyQuery(words="moke"), []),
        (StudyQuery(words="frequency"), [4, 3, 2, 1, 0]),
        (StudyQuery(words="freq colour", study=digest(1).hex()), [1]),
        (StudyQuery(words="übung"), [4]),
        (StudyQuery(words="smok", order=ENDED), [0, 2]),
        (StudyQuery(words="smok", analyst=KEYS[1].hex()), []),
        (StudyQuery(since_unix_s=400), [4, 2, 1, 0]),
        (StudyQuery(since_unix_s=401), [1, 0]),
        (StudyQuery(until_unix_s=300), [3, 1, 0]),
        (StudyQuery(until_unix_s=301, since_unix_s=401), [1, 0]),
        (StudyQuery(ListedState.FAILED, since_unix_s=301, until_unix_s=500), [2]),
    ],
)
def test_studies_are_found_and_sorted_by_titles_times_and_users(
    store: Store, query: StudyQuery, numbers: list[int]
) -> None:
    found = noted(store).listing.page(query)
    assert [one.digest[1] for one in found.studies] == numbers
    assert found.extent == StudyExtent(len(numbers), len(NOTED), more=False)
    assert read(store, query, None, newer=False) == numbers
    assert read(store, query, None, newer=True) == numbers


def test_an_entry_has_the_times_and_the_users_that_are_known(store: Store) -> None:
    entries = reversed(noted(store).listing.page(StudyQuery()).studies)
    known = [(one.users, one.submitted_unix_s, one.ended_unix_s) for one in entries]
    assert known == [row[1:] for row in NOTED]
    store.listing.note_users(digest(1), 8)  # of its next epoch
    entry = store.listing.entry(digest(1))
    assert entry is not None
    assert entry.users == 8
    assert store.listing.untitled() == []


def test_a_cursor_of_no_list_is_refused(store: Store) -> None:
    filled(store)
    page = store.listing.page
    with pytest.raises(InvalidParameter, match="cursor: expected the digest of a listed study"):
        page(StudyQuery(cursor=bytes(32)))
    with pytest.raises(InvalidParameter, match="cursor: expected"):
        page(StudyQuery(cursor=digest(1)), KEYS[0])  # another analyst's
    with pytest.raises(InvalidParameter, match="cursor: expected"):
        page(StudyQuery(cursor=digest(1), order=ListOrder.ENDED))  # it has not ended
    assert page(StudyQuery(ListedState.DONE, cursor=digest(1), newer=True)).extent.fitting == 4


@pytest.mark.parametrize(
    "wrong",
    [
        *({"limit": 0}, {"limit": MAX_STUDIES + 1}, {"analyst": "g"}, {"study": "0" * 65}),
        *({"words": "..."}, {"words": "a" * 201}, {"since_unix_s": -1}, {"until_unix_s": 1 << 63}),
    ],
)
def test_a_query_of_no_list_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=f"^{next(iter(wrong)).partition('_')[0]}: expected"):
        StudyQuery(**wrong)  # type: ignore[arg-type]  # what a caller may send


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (StudyQuery(ListedState.DONE, cursor=digest(3), limit=2), "ended_studies"),
        (StudyQuery(ListedState.PAUSED, limit=2), "paused_studies"),
        (StudyQuery(cursor=digest(3), limit=2), "INTEGER PRIMARY KEY"),
        (StudyQuery(study="f0", limit=2), "sqlite_autoindex_studies_1"),
        (StudyQuery(analyst=KEYS[0].hex(), limit=2), "studies_by_key"),
        (StudyQuery(words="smok", limit=2), "study_words USING PRIMARY KEY (word>? AND word<?)"),
        (StudyQuery(order=ListOrder.TITLE, limit=2), "study_titles_sorted"),
        (StudyQuery(order=ListOrder.USERS, limit=2), "study_titles_by_users"),
        (StudyQuery(order=ListOrder.ENDED, limit=2), "retention_by_end"),
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
    steps = " ".join(row[3] for row in plan)
    assert index in steps
    assert query.order is ListOrder.SUBMITTED or "TEMP B-TREE" not in steps
