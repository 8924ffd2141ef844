"""A study's judge reads no record that the fleet has read, and finds the same truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import askance as ask
from askance_aggregator.learners import assessments
from askance_aggregator.learners.totals import AnswerTotals, queries_judged
from askance_aggregator.queries import EncodedColumns, real
from askance_client.queries import Query
from askance_simulation.populations import ObservedUsers

USERS = 150_000  # more than two chunks of 2^16
JUDGED = ("mean", "frequency", "ranges", "difference", "association")


def study_of(learner: str) -> tuple[ask.Study, ask.Population]:
    made = ask.named(learner, epsilon=8, users=USERS)
    people = made.people(ask.Seed.of(4))
    return made.study(people), people


def figures(totals: list[AnswerTotals]) -> list[Any]:
    return [(one.users, one.counted, one.total, one.cells.tolist()) for one in totals]


def counting(people: ask.Population, read: Counter[int]) -> ask.Population:
    """Return the same users, with a count of how often each record is read."""

    def columns(start: int, stop: int) -> EncodedColumns:
        read.update(range(start, stop, 1 << 12))
        return people.columns(start, stop)

    return replace(people, columns=columns)


@pytest.mark.parametrize(
    ("learner", "sampled"),
    [("mean", 16), ("frequency", 0)],  # a mean's guess is read from 16 stretches
)
def test_judging_shares_one_pass_with_the_study(
    learner: str, sampled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assessments, "_SAMPLED", 16)  # a record of each stretch
    study, people = study_of(learner)
    read: Counter[int] = Counter()
    trial = ask.run_trial(study, counting(people, read), fleet="columns", seed=ask.Seed.of(1))
    assert trial.assessment.error is not None
    passed = Counter(range(0, USERS, 1 << 12))
    assert passed <= read
    assert (read - passed).total() == sampled


@pytest.mark.parametrize("learner", JUDGED)
def test_the_totals_of_the_pass_are_those_of_all_records(learner: str) -> None:
    study, people = study_of(learner)
    queries = queries_judged(study.learner)
    assert queries
    users = ObservedUsers(people, queries)
    for start in (100_000, 0):  # out of order, in two parts
        users.read(start, people.columns(start, min(start + 100_000, USERS)))
    assert users._complete
    assert figures(users.totals(queries)) == figures(people.totals(queries))


@pytest.mark.parametrize(
    "stretches",
    [
        pytest.param([], id="none"),
        pytest.param([(0, 100_000)], id="some users are not read"),
        pytest.param([(0, 100_000), (90_000, USERS)], id="some are read twice"),
        pytest.param([(0, 100_000), (0, USERS)], id="a stretch grows"),
        pytest.param([(0, USERS), (0, USERS), (7, 9)], id="again and in part"),
    ],
)
def test_totals_are_right_however_records_were_read(stretches: list[tuple[int, int]]) -> None:
    study, people = study_of("frequency")
    queries = queries_judged(study.learner)
    users = ObservedUsers(people, queries)
    for start, stop in stretches:
        users.read(start, people.columns(start, stop))
    assert figures(users.totals(queries)) == figures(people.totals(queries))


def test_users_who_change_from_round_to_round_are_not_observed() -> None:
    made = ask.named("frequency", epsilon=8, users=USERS, settings={"turn": "3"})
    people = made.people(ask.Seed.of(4))
    study = made.study(people)
    users = ObservedUsers(people, queries_judged(study.learner))
    assert users.observation is None


def test_a_sum_past_64_bits_is_exact() -> None:
    schema = ask.Schema("far", 1, number=ask.Real(1 << 40, (1 << 40) + 1, 20))
    query: Query = real(schema.number)
    values = np.full(10_000, query.high, np.int64)
    assert query.high > 1 << 60
    assert AnswerTotals.of(query, values).total == 10_000 * query.high


def test_missing_values_are_not_looked_for_where_the_fleet_has_seen_that_none_is_missing() -> None:
    study, people = study_of("frequency")
    read: Counter[int] = Counter()
    counted = counting(people, read)
    result = ask.simulate(study, counted, fleet="columns")
    assert not any("no valid value" in note for note in result.notes)
    assert set(read.values()) == {1}


def test_missing_values_are_counted_where_some_are_missing() -> None:
    schema = ask.Schema("people", cell=ask.Category(("a", "b")))
    values = ["a", None, "b", "a"] * 5_000
    people = ask.Population.from_columns(schema, {"cell": values})
    study = ask.Study(ask.learners.frequency(schema["cell"]), schema, epsilon=2)
    result = ask.simulate(study, people, fleet="columns")
    assert result.trials[0].whole == frozenset()
    assert any("5,000 of 20,000 users have no valid value of cell" in n for n in result.notes)
