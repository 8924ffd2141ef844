"""Naive Bayes: what it asks, what it makes of the answers, and real people."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    NaiveBayes,
    hypothesis_from_json,
    naive_bayes,
    traits_schema,
)
from askance_aggregator.learners.encodings import cells, columns_of
from askance_aggregator.learners.rows import features_of
from askance_aggregator.learners.shares import nearest_distribution
from askance_aggregator.oracles import ExactOracle, learn
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Label, Schema
from askance_simulation.populations import people_of, read_file, traits
from askance_simulation.randomness import Seed

SCHEMA = Schema("s", 1, sky=Category(["clear", "grey"]), dry=Bit(), rain=Label(["no", "yes"]))
DAYS: dict[str, Any] = {
    "sky": ["clear", "clear", "grey", "grey", "grey", "grey", "clear", "grey"],
    "dry": [1, 1, 1, 0, 0, 0, 1, 1],
    "rain": ["no", "no", "no", "yes", "yes", "yes", "no", "no"],
}
PRIOR = Answer((0.6, 0.4, 0.0), (0.6, 0.4, 0.0), (0.6, 0.4, 0.0))
ADULT = Path(__file__).parents[4] / "shared" / "data" / "adult.csv"


def learned(days: dict[str, Any] = DAYS, **settings: Any) -> NaiveBayes:
    return learn(naive_bayes(SCHEMA, **settings), ExactOracle(SCHEMA, days))


def test_one_question_for_the_class_and_a_joint_one_a_column_of_cells() -> None:
    learner = naive_bayes(traits_schema(), bins=4, tau="1/20")
    questions = next(learner.run()).questions
    assert [question.query.cells for question in questions] == [3, 9, 9, 7, 5, 5, 5, 5]
    assert {question.tau for question in questions} == {Fraction(1, 20)}
    assert questions[0].query.fields_used == {"y"}
    assert questions[1].query.fields_used == {"age", "y"}
    assert len(next(naive_bayes(SCHEMA, columns=["dry"]).run()).questions) == 2


def test_exact_answers_make_the_tables_of_add_alpha_smoothing() -> None:
    """8 days, alpha = 1: s = 1/8. Of 3 days with rain 3 were grey: (3 + 1)/(3 + 2)."""
    found = learned(smoothing="1/8")
    assert np.array(found.tables[0]) == pytest.approx(np.array([[4 / 7, 3 / 7], [1 / 5, 4 / 5]]))
    assert np.array(found.tables[1]) == pytest.approx(np.array([[1 / 7, 6 / 7], [4 / 5, 1 / 5]]))
    assert found.priors == pytest.approx(((5 / 8 + 1 / 8) / (10 / 8), (3 / 8 + 1 / 8) / (10 / 8)))


def test_smoothing_that_is_not_set_is_as_great_as_the_answers_are_unsure() -> None:
    """An eighth of how far intervals reach, 0.4 here, though they are clipped to what can be."""
    assert learned().smoothing == 1e-3
    run = naive_bayes(SCHEMA).run()
    next(run)
    values = (0.5, 0.3, 0.2, -0.1, 0.1)
    ends = [(max(value - 0.4, 0.0), min(value + 0.4, 1.0)) for value in values]
    unsure = Answer(values, tuple(low for low, _ in ends), tuple(high for _, high in ends))
    with pytest.raises(StopIteration) as stop:
        run.send((PRIOR, unsure, unsure))
    reach = (3 * 0 + 10 * 0.4) / 13  # the prior's three answers are sure
    assert stop.value.value.smoothing == pytest.approx(reach / 8)


def test_it_predicts_by_bayes_rule() -> None:
    found = learned(smoothing="1/8")
    wet = found.predict_proba({"sky": ["grey"], "dry": [0]})[0]
    no, yes = 0.6 * 3 / 7 * 1 / 7, 0.4 * 4 / 5 * 4 / 5
    assert wet == pytest.approx([no / (no + yes), yes / (no + yes)])
    assert found.predict(DAYS).tolist() == DAYS["rain"]
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.feature_names_in_.tolist() == ["sky", "dry"]


def test_a_feature_that_is_missing_says_nothing() -> None:
    found = learned(smoothing="1/8")
    assert found.predict_proba({"sky": [None], "dry": [None]})[0] == pytest.approx(found.priors)
    only = learned(smoothing="1/8", columns=["sky"])
    assert found.predict_proba({"sky": ["grey"]}) == pytest.approx(
        only.predict_proba({"sky": ["grey"]})
    )


def test_records_without_a_value_are_in_no_cell() -> None:
    """Such records are counted apart, and do not look like the first label and the first cell."""
    missing = {name: [*column, None, None] for name, column in DAYS.items()}
    found = learned(missing, smoothing="1/1000000").tables[0]
    assert np.array(found) == pytest.approx(np.array([[3 / 5, 2 / 5], [0, 1]]), abs=1e-4)


def test_answers_below_zero_still_make_probabilities() -> None:
    run = naive_bayes(SCHEMA).run()
    next(run)
    noisy = Answer((0.9, -0.3, 0.2, 0.5, -0.1), (0.0,) * 5, (1.0,) * 5)
    with pytest.raises(StopIteration) as stop:
        run.send((PRIOR, noisy, noisy))
    found = stop.value.value
    assert min(p for table in found.tables for row in table for p in row) > 0
    assert found.predict_proba(DAYS).sum(axis=1) == pytest.approx(np.ones(8))


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_distribution_is_one_and_is_nearest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.normal(0.2, 0.4, 6)
    found = nearest_distribution(raw)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    others = rng.dirichlet(np.ones(6), 500)
    assert ((others - raw) ** 2).sum(axis=1).min() >= ((found - raw) ** 2).sum()
    assert nearest_distribution(found) == pytest.approx(found)


def test_it_finds_what_tells_the_groups_of_its_population_apart() -> None:
    people = traits(20_000, Seed.of(1))
    oracle = ExactOracle(people.schema, people.columns(0, people.size))
    found = learn(naive_bayes(people.schema), oracle)
    assert "height" in str(found)
    assert "answers[0]" not in str(found)  # that answer says nothing
    assert found.priors[1] == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"priors": [0.5]}, "a prior per class"),
        ({"priors": [1.0, 0.0]}, "positive probabilities"),
        ({"bins": 1.5}, "whole numbers as bins"),
        ({"tables": {}}, "expected sky, got none"),
        ({"tables": {"sky": [[0.5, 0.5]], "dry": [[0.5, 0.5]]}}, "a row per class"),
        ({"schema": {"name": "s", "fields": 3}}, "a list as fields"),
    ],
)
def test_a_file_that_does_not_fit_together_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        hypothesis_from_json("naive-bayes", {**learned().to_json(), **change})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "dry"}, "label expects a category"),
        ({"label": "snow"}, "expected one of the fields sky, dry, rain"),
        ({"columns": ["rain"]}, "expected columns besides rain"),
        ({"columns": []}, "expected columns besides rain"),
        ({"smoothing": "0"}, "smoothing expects a share"),
        ({"tau": "0"}, "tau expects a positive number"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        naive_bayes(SCHEMA, **settings)
    with pytest.raises(InvalidParameter, match="label: expected one of the categories"):
        naive_bayes(Schema("s", 1, a=Bit(), b=Bit()))


@pytest.mark.slow
@pytest.mark.skipif(not ADULT.exists(), reason="the Adult data are not here")
def test_real_people_are_told_apart_as_by_scikit_learn() -> None:
    """The same cells through exact answers: accuracy within a point, and above the majority's.

    Reading 32,561 rows takes most of its time.
    """
    from sklearn.naive_bayes import CategoricalNB

    people = people_of(read_file(ADULT), Seed.of(0), label="income", held_out=Fraction(1, 5))
    assert people.unseen is not None
    rows, unseen = people.columns(0, people.size), people.unseen(1 << 16)
    learner = naive_bayes(people.schema, smoothing=Fraction(1, people.size))
    found = learn(learner, ExactOracle(people.schema, rows))
    columns = columns_of(features_of(people.schema, "income"))
    (income,) = cells(people.schema, "income")
    other = CategoricalNB(alpha=1, min_categories=[len(part) for part in columns])
    other.fit(np.stack([part.of(rows) for part in columns], axis=1), income.of(rows))
    theirs = other.predict_proba(np.stack([part.of(unseen) for part in columns], axis=1))
    ours, truth = found.predict_proba(unseen), income.of(unseen)
    accuracies = [float((table.argmax(axis=1) == truth).mean()) for table in (ours, theirs)]
    assert abs(accuracies[0] - accuracies[1]) < 0.01
    assert min(accuracies) > np.bincount(truth).max() / len(truth)
    assert np.abs(ours - theirs).mean() < 1e-3
