"""The learners of one question: frequency, mean, conjunctions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Conjunction,
    FrequencyEstimate,
    Learner,
    conjunctions,
    conjunctions_schema,
    frequency,
    mean,
)
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Category, Integer, Label, Schema
from askance_simulation.experiments import simulate
from askance_simulation.populations import Population

SCHEMA = Schema("s", 1, c=Category(["p", "q"]), age=Integer(17, 90))


def conclusion(learner: Learner[object], *answers: Answer) -> object:
    run = learner.run()
    next(run)
    with pytest.raises(StopIteration) as stop:
        run.send(answers)
    return stop.value.value


def test_a_frequency_is_by_cell_name() -> None:
    estimate = conclusion(frequency(SCHEMA["c"]), Answer((0.25, 0.75), (0.2, 0.7), (0.3, 0.8)))
    assert estimate.to_json() == {  # type: ignore[attr-defined]  # an object to the helper
        "p": {"estimate": 0.25, "low": 0.2, "high": 0.3, "projected": 0.25},
        "q": {"estimate": 0.75, "low": 0.7, "high": 0.8, "projected": 0.75},
    }


@pytest.mark.parametrize(
    ("raw", "nearest"),
    [
        ((0.25, 0.75), (0.25, 0.75)),
        ((0.5, 0.9), (0.3, 0.7)),  # what is too much is taken from all alike
        ((-0.2, 0.6, 0.8), (0.0, 0.4, 0.6)),
        ((-0.1, -0.2), (0.55, 0.45)),
    ],
)
def test_a_projected_frequency_is_the_nearest_distribution(
    raw: tuple[float, ...], nearest: tuple[float, ...]
) -> None:
    estimate = FrequencyEstimate(tuple(map(str, range(len(raw)))), Answer(raw, raw, raw))
    assert estimate.projected() == pytest.approx(nearest)
    assert estimate.answer.values == raw


def test_of_many_cells_and_few_users_the_projected_shares_are_much_nearer() -> None:
    """With 256 cells and 5,000 users an eighth of the squared error (.09 to .18 over seeds)."""
    people = Population.generated("categories", 5_000, seed=3, cells=256)
    study = Study(frequency(people.schema["category"]), people.schema, epsilon=1)
    found = simulate(study, people, fleet="columns", seed=3).hypothesis
    truth = np.bincount(people.columns(0, 5_000).values["category"], minlength=256) / 5_000
    raw, projected = (
        np.square(np.array(shares) - truth).sum()
        for shares in (found.answer.values, found.projected())
    )
    assert projected < raw / 4


def test_a_mean_is_in_real_units() -> None:
    estimate = conclusion(mean(SCHEMA["age"]), Answer((40.0,), (39.0,), (41.5,)))
    expected = {
        "estimate": 40.0,
        "low": 39.0,
        "high": 41.5,
        "of": "population",
        "missing": None,
    }
    assert estimate.to_json() == expected  # type: ignore[attr-defined]  # an object to the helper


def test_a_mean_of_a_predicate_is_a_share() -> None:
    low, high = mean(SCHEMA["age"] > 40, tau="1/10").batch.questions[0].bounds
    assert low == 0
    assert high == 1


def test_what_is_no_category_has_no_frequency_and_what_is_one_no_mean() -> None:
    with pytest.raises(InvalidQuery, match="frequency expects a category"):
        frequency(SCHEMA["age"])
    with pytest.raises(InvalidQuery, match="mean expects a number"):
        mean(SCHEMA["c"])


def test_conjunctions_ask_theorem_five() -> None:
    batch = conjunctions(conjunctions_schema(3), accuracy=0.3).batch
    assert {question.tau for question in batch.questions} == {Fraction(1, 20)}
    schema = conjunctions_schema(3)
    records = [("110", 1, [0, 0, 1]), ("000", 1, [1, 1, 1]), ("000", 0, [0, 0, 0])]
    for x, y, expected in records:
        encoded = schema.encode({"x": x, "y": y})
        assert [question.query.evaluate(encoded) for question in batch.questions] == expected


def test_a_variable_is_kept_iff_its_answer_is_at_most_the_tolerance() -> None:
    tau = 1 / 20
    at, above = Answer((tau,), (tau,), (tau,)), Answer((tau + 1e-9,), (0.0,), (1.0,))
    learner = conjunctions(conjunctions_schema(3), accuracy=0.3)
    assert conclusion(learner, at, above, at) == Conjunction(3, (0, 2))


def test_a_conjunction_predicts_one_where_all_its_variables_are() -> None:
    x = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1]])
    assert Conjunction(3, (0, 2)).predict({"x": x}).tolist() == [1, 1, 0]
    assert Conjunction(3, ()).predict({"x": x}).tolist() == [1, 1, 1]
    assert Conjunction(3, (0, 2)).to_json() == {"variables": [0, 2], "d": 3}


@pytest.mark.parametrize("variables", [(2, 0), (0, 0), (3,), (-1,)])
def test_variables_are_ascending_indices(variables: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameter, match="ascending variables"):
        Conjunction(3, variables)


def test_conjunctions_need_their_schema() -> None:
    with pytest.raises(InvalidParameter, match="conjunctions expects the fields"):
        conjunctions(Schema("s", 1, x=Integer(0, 1), y=Label([0, 1])))
