"""Paused studies and times of submission, on every store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from askance_aggregator.store import (
    Conclusion,
    ListedState,
    SqliteLocation,
    SqliteStore,
    Store,
    StudyQuery,
    StudyState,
    SubmissionNote,
)
from askance_aggregator.store.management import Approval
from askance_client.errors import StoreError
from askance_client.messages import SignedStudy
from tests.aggregator.store.test_contract import FIRST, SECOND, STUDY, THIRD, store

__all__ = ["store"]
OTHER = SignedStudy(b"another study", b"a key", b"a signature")
STRANGE = SignedStudy(b"a third study", b"another key", b"a signature")


def filled(store: Store) -> Store:
    for digest, signed in ((FIRST, STUDY), (SECOND, OTHER), (THIRD, STRANGE)):
        store.add_study(digest, signed)
    return store


def test_a_pause_is_noted_once_and_taken_back(store: Store) -> None:
    management = filled(store).management
    assert management.paused() == frozenset()
    for _ in range(2):
        management.pause(FIRST)
    management.pause(THIRD)
    assert management.paused() == {FIRST, THIRD}
    for _ in range(2):
        management.unpause(FIRST)
    assert management.paused() == {THIRD}


def test_the_first_time_of_a_submission_stays(store: Store) -> None:
    management = filled(store).management
    management.note_submission(SECOND, 200)
    management.note_submission(FIRST, 300)
    management.note_submission(THIRD, 100)
    management.note_submission(SECOND, 900)
    assert management.submissions(b"a key") == [
        SubmissionNote(SECOND, 200),
        SubmissionNote(FIRST, 300),
    ]
    assert management.submissions(b"no key") == []


BOB = Approval("bob", b"b" * 32, b"s" * 64, 100)


def test_the_first_decisions_about_an_approval_stand(store: Store) -> None:
    management = filled(store).management
    assert management.awaiting() == {FIRST, SECOND, THIRD}
    assert management.approve(FIRST, BOB) == BOB
    assert management.approve(FIRST, Approval("eve", b"e" * 32, b"t" * 64, 200)) == BOB
    withdrawn = replace(BOB, refused_by="eve", reason="too much", refused_unix_s=300)
    assert management.refuse(FIRST, "eve", "too much", 300) == withdrawn
    assert management.refuse(FIRST, "bob", "again", 400) == withdrawn
    refused = Approval("", b"", b"", 0, "bob", "no", 500)
    assert management.refuse(SECOND, "bob", "no", 500) == refused
    assert management.approve(SECOND, BOB) == refused
    found = [management.approval(digest) for digest in (FIRST, SECOND, THIRD)]
    assert found == [withdrawn, refused, None]
    assert management.awaiting() == {THIRD}


def test_an_approval_that_counts_no_more_is_forgotten_and_a_refusal_is_not(store: Store) -> None:
    management, refused = filled(store).management, Approval("", b"", b"", 0, "bob", "no", 500)
    management.approve(FIRST, BOB)
    management.refuse(SECOND, "bob", "no", 500)
    management.void(FIRST, Approval("eve", b"e" * 32, b"t" * 64, 200))
    assert management.approval(FIRST) == BOB
    management.void(FIRST, BOB)
    management.void(SECOND, refused)
    assert [management.approval(one) for one in (FIRST, SECOND)] == [None, refused]
    assert management.awaiting() == {FIRST, THIRD}


def test_a_study_that_has_asked_or_ended_awaits_no_approval(store: Store) -> None:
    filled(store).open_round(FIRST, 0, [b"r" * 32], None)
    store.conclude(SECOND, Conclusion(StudyState.CANCELLED, "cancelled", "", "{}"))
    waiting = store.listing.page(StudyQuery(ListedState.AWAITING_APPROVAL))
    assert store.management.awaiting() == {one.digest for one in waiting.studies} == {THIRD}


def test_an_unknown_study_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="expected a stored one, got none"):
        store.management.pause(FIRST)
    with pytest.raises(StoreError, match="expected a stored one, got none"):
        store.management.note_submission(FIRST, 1)
    with pytest.raises(StoreError, match="expected a stored one, got none"):
        store.management.approve(FIRST, BOB)
    with pytest.raises(StoreError, match="expected a stored one, got none"):
        store.management.refuse(FIRST, "bob", "no", 1)
    assert store.management.approval(FIRST) is None
    store.management.unpause(FIRST)
    assert store.management.paused() == frozenset()


def test_notes_outlive_the_process(tmp_path: Path) -> None:
    made = filled(SqliteStore.create(tmp_path / "store"))
    made.management.pause(SECOND)
    made.management.note_submission(SECOND, 7)
    made.close()
    again = SqliteLocation(tmp_path / "store").open()
    assert again.management.paused() == {SECOND}
    assert again.management.submissions(b"a key") == [SubmissionNote(SECOND, 7)]
    again.close()
