"""Statements about reused answers: by all tallies of them, or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from askance_aggregator.amplification.outer import delta_for
from askance_aggregator.encoding import encode_randomizer
from askance_aggregator.families import best_for
from askance_aggregator.server.studies.outer_statements import earlier_answers
from askance_aggregator.store import OuterRelease, SqliteStore
from askance_aggregator.studies.outer import EarlierAnswers
from tests.aggregator.store.test_contract import FIRST, STUDY

ENCODED = encode_randomizer(best_for(2, 10**9)).SerializeToString(deterministic=True)
HUNDRED = range(100)


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    made = SqliteStore.in_memory()
    made.enrol((f"d{n}".encode(), bytes(32)) for n in range(200))
    made.add_study(FIRST, STUDY)
    yield made
    made.close()


def release(
    store: SqliteStore,
    request: int,
    users: Iterable[int],
    again: Iterable[int] = (),
    question: int = 9,
) -> None:
    digests = bytes([request]) * 32, bytes([question]) * 32
    ordinals = np.array(list(users), np.int64), np.array(list(again), np.int64)
    store.outer.record(FIRST, [OuterRelease(*digests, ENCODED, *ordinals)], delta_for)


def known(store: SqliteStore, request: int, answers: int) -> EarlierAnswers | None:
    return earlier_answers(store, bytes([request]) * 32, answers)


def test_answers_released_again_whole_hide_as_they_did(store: SqliteStore) -> None:
    release(store, 1, HUNDRED)
    release(store, 2, HUNDRED, HUNDRED)
    assert known(store, 2, 100) == EarlierAnswers(100, 1, 1)
    release(store, 3, range(150), HUNDRED)  # beside fifty new ones
    assert known(store, 3, 150) == EarlierAnswers(50, 1, 2)


def test_other_questions_are_not_counted(store: SqliteStore) -> None:
    release(store, 1, HUNDRED)
    release(store, 2, range(50), question=8)
    release(store, 3, HUNDRED, HUNDRED)
    assert known(store, 3, 100) == EarlierAnswers(100, 1, 1)


def test_a_division_counts_the_values_of_the_tally_before(store: SqliteStore) -> None:
    """A tally of 100 bits has 101 values; forty of the users were left out."""
    release(store, 1, HUNDRED)
    release(store, 2, range(60), range(60))
    assert known(store, 2, 60) == EarlierAnswers(40, 101, 1)


def test_the_atom_with_the_most_choices_decides(store: SqliteStore) -> None:
    """Fifty users are new beside sixty of a divided atom, which follow a tally of 101 values."""
    release(store, 1, HUNDRED)
    release(store, 2, range(60), range(60))
    release(store, 3, [*range(60), *range(100, 150)], range(60))
    assert known(store, 3, 110) == EarlierAnswers(40, 101, 2)


def test_who_is_in_the_other_tally_alone_counts_too(store: SqliteStore) -> None:
    """A reader of both takes one from the other, and has the answer of user 99."""
    release(store, 1, HUNDRED)
    release(store, 2, range(99), range(99))
    found = known(store, 2, 99)
    assert found is not None
    assert found.hidden == 1


def test_what_the_account_cannot_know_has_no_statement(store: SqliteStore) -> None:
    release(store, 1, HUNDRED, [7])  # user 7 had answered to another aggregator, or before
    assert known(store, 1, 100) is None
    assert known(store, 2, 100) is None  # no such release
    release(store, 3, HUNDRED, question=8)
    assert known(store, 3, 99) is None  # the tally counts other answers than the release


def test_a_second_answer_has_no_statement(store: SqliteStore) -> None:
    """User 7 lost its ledger: which of its two answers the third tally has is not known."""
    release(store, 1, HUNDRED)
    release(store, 2, HUNDRED, [n for n in HUNDRED if n != 7])
    release(store, 3, HUNDRED, HUNDRED)
    assert known(store, 3, 100) is None
