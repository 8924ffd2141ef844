"""Deletion of what ended studies left: one suite, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from askance_aggregator.store import (
    Conclusion,
    KeptStudy,
    SqliteStore,
    Store,
    StoredReport,
    StudyNotEnded,
    StudyState,
    store_location,
)
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, SignedStudy
from tests.aggregator.store.test_contract import STORES, devices
from tests.postgresql import PostgresqlServer

FIRST, SECOND = bytes([1]) * 32, bytes([2]) * 32
ASKED, ASKED_LATER, OTHERS = (bytes([number]) * 32 for number in (11, 12, 13))
STUDY = SignedStudy(b"a study", b"a key", b"a signature")
OTHER = SignedStudy(b"another", b"a key", b"a signature")
END = Conclusion(StudyState.DONE, "done", "", '{"answers": 3}', 7)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with closing(STORES[request.param](request, tmp_path)) as made:
        made.enrol(devices(0, 1, 2))
        made.add_study(FIRST, STUDY)
        made.add_study(SECOND, OTHER)
        made.log(FIRST).append("a line")
        made.keep_leaf_key(FIRST, bytes([1]) * 32)
        made.keep_leaf_key(SECOND, bytes([2]) * 32)
        made.open_round(FIRST, 0, [ASKED], None)
        made.open_round(FIRST, 1, [ASKED_LATER], None)
        made.open_round(SECOND, 0, [OTHERS], None)
        made.accept(
            [
                *(StoredReport(ASKED, ordinal, b"a report", 1) for ordinal in range(3)),
                StoredReport(ASKED, 0, b"another", 1),
                StoredReport(ASKED_LATER, 1, b"a report", 2),
                StoredReport(OTHERS, 2, b"a report", 2),
            ]
        )
        yield made


def removed(store: Store, most: int = 100) -> None:
    while store.retention.remove_rows(FIRST, most):
        pass


def test_an_open_study_is_not_touched(store: Store) -> None:
    assert store.retention.note_ends(100) == 0
    for delete in (store.retention.delete_reports, store.retention.delete_results):
        for digest in (FIRST, bytes(32)):
            with pytest.raises(StudyNotEnded, match="expected one that has ended"):
                delete(digest, 100)
    store.conclude(FIRST, END, epoch=1)  # the end of an epoch is not the study's
    assert store.retention.note_ends(100) == 0
    with pytest.raises(StudyNotEnded):
        store.retention.delete_reports(FIRST, 100)
    assert store.retention.remove_rows(FIRST, 10) == 0
    assert store.retention.kept() == []
    assert len(list(store.reports(ASKED))) == 3


def test_an_end_is_noted_once(store: Store) -> None:
    store.conclude(FIRST, END)
    assert store.retention.note_ends(100) == 1
    assert store.retention.note_ends(200) == 0
    store.conclude(SECOND, END)
    assert store.retention.note_ends(300) == 1
    assert store.retention.kept() == [KeptStudy(FIRST, 100), KeptStudy(SECOND, 300)]
    assert store.retention.of(FIRST) == KeptStudy(FIRST, 100)
    assert store.retention.of(bytes(32)) is None


def test_deleted_reports_are_gone_and_nothing_else_is(store: Store) -> None:
    store.conclude(FIRST, END)
    store.retention.note_ends(100)
    store.retention.delete_reports(FIRST, 150)
    assert store.retention.of(FIRST) == KeptStudy(FIRST, 100, 150, None, rows_left=True)
    removed(store)
    store.retention.delete_reports(FIRST, 170)  # again
    assert store.retention.of(FIRST) == KeptStudy(FIRST, 100, 150, None, rows_left=False)
    for request in (ASKED, ASKED_LATER):
        assert list(store.reports(request)) == []
        assert list(store.evidence(request)) == []
        assert store.report(request, 1) is None
        asked = store.asked(request)
        assert asked is not None
        assert (asked.study_digest, asked.over) == (FIRST, True)
    assert list(store.reports(OTHERS)) == [(2, b"a report")]
    assert store.conclusion(FIRST) == END
    assert list(store.log(FIRST).lines()) == ["a line"]
    assert (store.leaf_key(FIRST), store.leaf_key(SECOND)) == (None, bytes([2]) * 32)
    with pytest.raises(StoreError, match="whose reports were deleted"):
        store.keep_leaf_key(FIRST, bytes([3]) * 32)
    assert [store.acknowledged_sequence(ordinal) for ordinal in range(3)] == [1, 2, 2]
    assert store.accept([StoredReport(OTHERS, 1, b"a report", 3)]) == [AckStatus.ACCEPTED]


@pytest.mark.parametrize("begun", [False, True])
def test_a_report_to_a_study_without_reports_is_not_stored(store: Store, begun: bool) -> None:
    store.conclude(FIRST, END)
    store.retention.delete_reports(FIRST, 150)
    if begun:
        removed(store)
    before = [list(store.reports(request)) for request in (ASKED, ASKED_LATER)]
    for ordinal, request in ((0, ASKED), (2, ASKED_LATER)):
        with suppress(StoreError):  # of a store whose one process asks before
            late = store.accept([StoredReport(request, ordinal, b"a late report", 9)])
            assert late == [AckStatus.LATE]
    assert [list(store.reports(request)) for request in (ASKED, ASKED_LATER)] == before
    removed(store)
    assert list(store.reports(ASKED)) == list(store.reports(ASKED_LATER)) == []
    assert store.acknowledged_sequence(0) == 1


def test_rows_go_in_steps_and_go_on_after_an_interruption(store: Store) -> None:
    store.conclude(FIRST, END)
    store.retention.delete_reports(FIRST, 150)
    store.retention.remove_rows(FIRST, 1)
    removed(store, 1)
    kept = store.retention.of(FIRST)
    assert kept is not None
    assert not kept.rows_left
    assert list(store.reports(ASKED)) == list(store.reports(ASKED_LATER)) == []


def test_long_reports_of_sqlite_go_in_smaller_steps(tmp_path: Path) -> None:
    """Once, 5,000 of them were one transaction, for which reports of open studies waited 200 ms."""
    with closing(SqliteStore.create(tmp_path / "store.db")) as store:
        store.enrol(devices(*range(100)))
        store.add_study(FIRST, STUDY)
        store.open_round(FIRST, 0, [ASKED, ASKED_LATER], None)
        store.accept([StoredReport(ASKED, place, bytes(1 << 13), 1) for place in range(100)])
        store.accept([StoredReport(ASKED_LATER, place, b"short", 1) for place in range(100)])
        store.conclude(FIRST, END)
        store.retention.delete_reports(FIRST, 150)
        steps = [store.retention.remove_rows(FIRST, 5_000) for _ in range(4)]
    assert steps == [64, 64, 72, 0]


def test_deleted_results_leave_an_end_and_its_cost(store: Store) -> None:
    store.conclude(FIRST, END, epoch=1)
    store.log(FIRST, 1).append("a line of an epoch")
    store.conclude(FIRST, END)
    store.retention.delete_results(FIRST, 200)
    store.retention.delete_results(FIRST, 300)
    assert store.retention.of(FIRST) == KeptStudy(FIRST, 200, 200, 200, rows_left=True)
    removed(store)
    for epoch in (0, 1):
        ended = store.conclusion(FIRST, epoch)
        assert ended is not None
        assert (ended.state, ended.result_json) == (StudyState.DONE, "")
        assert list(store.log(FIRST, epoch).lines()) == []
    assert store.nano_nats_asked() == 7
    assert store.study(FIRST) == STUDY
    with pytest.raises(StoreError):
        store.add_study(FIRST, OTHER)


def test_a_partition_whose_detaching_broke_off_is_dropped(postgresql: PostgresqlServer) -> None:
    """A study's number is never given again, and its table is gone whatever came between."""
    url = postgresql.new_database()
    database = url.partition("@/")[2].partition("?")[0]
    location = store_location(url)
    location.migrate()
    with closing(location.open()) as store:
        for place, digest in enumerate((FIRST, SECOND)):
            store.add_study(digest, (STUDY, OTHER)[place])
            store.conclude(digest, END)
            store.retention.delete_reports(digest, 10)
        postgresql.execute(
            "ALTER TABLE askance.reports DETACH PARTITION askance.reports_1", database
        )
        postgresql.execute("DROP TABLE askance.reports_2", database)
        for digest in (FIRST, SECOND):
            assert store.retention.remove_rows(digest, 1) == 0
            kept = store.retention.of(digest)
            assert kept is not None
            assert not kept.rows_left
    tables = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'reports%' ORDER BY 1"
    assert postgresql.execute(tables, database) == [("reports",), ("reports_0",)]
