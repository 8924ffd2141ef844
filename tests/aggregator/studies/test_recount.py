"""Counts in a transcript are those of the stored reports; a store that was altered is found out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from askance_aggregator.store import SqliteLocation, SqliteStore
from askance_aggregator.studies.recount import CountsDiffer, Recount, recount
from askance_client.codec import decode_report, digest_of, encode_report
from askance_client.errors import StoreError
from askance_client.messages import Report
from tests.aggregator.server.callers.answered_service import BASE, CLOSED, OPEN, USERS, answered
from tests.frozen.old_stores import DIGESTS, load_sqlite

DIGEST = digest_of(CLOSED.study)


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    """The store of a service with a study that is done and one with an open round."""
    with answered(BASE) as (_, store, _):
        yield store


def symbols(store: SqliteStore, changes: dict[int, int]) -> None:
    """Overwrite the answers of users to the closed study in the database itself."""

    def step(execute: object) -> None:
        for ordinal, symbol in changes.items():
            ((data, request),) = execute(  # type: ignore[operator]  # a dialect's
                "SELECT data, request FROM reports WHERE ordinal = ? ORDER BY request LIMIT 1",
                (ordinal,),
            ).fetchall()
            report = decode_report(data)
            other = encode_report(Report(report.request_digest, bytes([symbol]), *report[2:]))
            execute(  # type: ignore[operator]  # as above
                "UPDATE reports SET data = ? WHERE ordinal = ? AND request = ?",
                (other, ordinal, request),
            )

    store._dialect.write(step)


def test_the_counts_of_closed_rounds_are_those_of_the_reports(store: SqliteStore) -> None:
    assert recount(store, DIGEST) == Recount(rounds=1, answers=USERS, salted=1, unsalted=0)
    assert recount(store, digest_of(OPEN.study)) == Recount(0, 0, 0, 0)


def test_one_other_answer_is_found(store: SqliteStore) -> None:
    symbols(store, {3: 1 - BASE.closed[3]})
    with pytest.raises(CountsDiffer, match="round 1: group 0: expected the counts"):
        recount(store, DIGEST)


def test_answers_that_users_exchanged_are_found_by_the_root(store: SqliteStore) -> None:
    assert BASE.closed[0] != BASE.closed[1]
    symbols(store, {0: BASE.closed[1], 1: BASE.closed[0]})
    with pytest.raises(CountsDiffer):
        recount(store, DIGEST)


def test_another_leaf_key_is_found(store: SqliteStore) -> None:
    store._dialect.write(
        lambda execute: execute("UPDATE leaf_keys SET secret = ?", (bytes([1]) * 32,))
    )
    with pytest.raises(CountsDiffer):
        recount(store, DIGEST)


def test_deleted_reports_and_unknown_studies_are_not_counted(store: SqliteStore) -> None:
    store.retention.delete_reports(DIGEST, 1)
    assert store.leaf_key(DIGEST) is None
    with pytest.raises(StoreError, match="expected its reports, got deleted ones"):
        recount(store, DIGEST)
    with pytest.raises(StoreError, match="expected a stored one, got none"):
        recount(store, bytes(32))


@pytest.mark.parametrize(("name", "rounds"), [("frequency", 1), ("mean", 1), ("repeated", 2)])
def test_a_study_of_an_earlier_version_is_counted_without_its_roots(
    tmp_path: Path, name: str, rounds: int
) -> None:
    load_sqlite(tmp_path / "store")
    with closing(SqliteLocation(tmp_path / "store").open()) as store:
        found = recount(store, DIGESTS[name])
    assert (found.rounds, found.salted) == (rounds, 0)
    assert found.unsalted >= rounds
