"""Halfspaces and logistic models: the questions' expectations, the steps, the predictions."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    Answer,
    Batch,
    Halfspace,
    LogisticModel,
    find,
    hypothesis_from_json,
    logistic_regression,
    perceptron,
    perceptron_rounds,
)
from askance_aggregator.learners.linear_classifiers import coordinates_of, on_weight_grid, score
from askance_aggregator.learners.perceptron import Residual, gradient, residual_questions
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.planning import rehearse
from askance_aggregator.queries import encode_columns, evaluate_columns, real, sigmoid, where
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Bit,
    Category,
    Integer,
    Label,
    Schema,
)

SCHEMA = Schema(
    "people",
    1,
    age=Integer(0, 100),
    member=Bit(),
    colour=Category(["red", "green", "blue"]),
    y=Label(["no", "yes"]),
)
FEATURES = Schema("people", 1, **{name: SCHEMA.fields[name] for name in list(SCHEMA.fields)[:3]})
NAMES = ["age", "member", "colour=red", "colour=green", "colour=blue"]
RNG = np.random.default_rng(8)
N = 4_000
COLUMNS: dict[str, Any] = {
    "age": RNG.integers(0, 101, N),
    "member": RNG.integers(0, 2, N),
    "colour": RNG.choice(["red", "green", "blue"], N),
}
TRUE = 1.5 * (COLUMNS["age"] - 50) / 50 + COLUMNS["member"] - 2 * (COLUMNS["colour"] == "red")
COLUMNS["y"] = np.where(RNG.random(N) < 1 / (1 + np.exp(-2 * TRUE)), "yes", "no")
MODEL = LogisticModel(FEATURES, "y", ("no", "yes"), (0.5, 1.25, -0.5, 0.25, 0.0, -1.0))


def test_the_score_in_a_question_is_the_score_of_a_prediction() -> None:
    columns = encode_columns(SCHEMA, COLUMNS)
    query = real(score(coordinates_of(FEATURES), np.array(MODEL.weights)))
    asked = np.ldexp(evaluate_columns(query, columns).astype(float), -query.frac)
    assert MODEL.decision_function(columns) == pytest.approx(asked, abs=1e-12)
    assert MODEL.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("levels", [1, 2, 4, 8])
def test_the_answers_make_up_the_mean_of_residual_times_coordinate(levels: int) -> None:
    coordinates = coordinates_of(FEATURES)
    columns = encode_columns(SCHEMA, COLUMNS)
    likely = sigmoid(score(coordinates, np.array(MODEL.weights)))
    positive = SCHEMA["y"] == "yes"
    steps = [Fraction(2 * place + 1, 2 * levels) for place in range(levels)]
    wrong = tuple(where(positive, likely < 1 - step, likely > step) for step in steps)
    batch = Batch(residual_questions(Residual(positive, wrong), coordinates, None))
    found = gradient(ExactOracle(SCHEMA, columns).answer(batch), coordinates, levels, None)

    chance = np.ldexp(evaluate_columns(real(likely), columns).astype(float), -16)
    yes = COLUMNS["y"] == "yes"
    missed = np.where(yes, 1 - chance, chance)
    rounded = np.ceil(missed * levels - 0.5) / levels  # to the nearest level, halves down
    signed_rounded = np.where(yes, rounded, -rounded)
    x = np.column_stack([np.ones(N), *(item.values(columns) for item in coordinates)])
    assert found.values == pytest.approx((x * signed_rounded[:, None]).mean(axis=0), abs=1e-9)
    assert len(batch.questions) == 1 + 1 + 1 + levels  # constant, age, member, and the colours


def test_predictions_and_their_probabilities() -> None:
    rows = {"age": [100, 0, None], "member": [0, 1, 0], "colour": ["green", "blue", "red"]}
    assert MODEL.decision_function(rows).tolist() == [1.75, -2.25, 0.75]
    assert MODEL.predict(rows).tolist() == ["yes", "no", "yes"]
    second = MODEL.predict_proba(rows)[:, 1]
    assert np.log(second / (1 - second)) == pytest.approx([1.75, -2.25, 0.75])
    assert MODEL.coef_.shape == (1, 5)
    assert MODEL.intercept_.tolist() == [0.5]


def test_weights_lie_on_a_grid_and_are_bounded() -> None:
    assert on_weight_grid(np.array([1 / 3, 1e9, -1e9])).tolist() == [1365 / 4096, 4096, -4096]


@pytest.mark.parametrize("kind", [LogisticModel, Halfspace])
def test_a_classifier_is_read_as_it_was_written(kind: type[Any]) -> None:
    name = "perceptron" if kind is Halfspace else "logistic-regression"
    model = kind(FEATURES, "y", ("no", "yes"), MODEL.weights)
    written = json.loads(json.dumps(model.to_json(), allow_nan=False))
    assert hypothesis_from_json(name, written) == model
    assert str(model) == (
        "yes if 0.5 +1.25 [age] -1 [colour=blue] -0.5 [member] +0.25 [colour=red]"
        " +0 [colour=green] > 0"
    )
    del written["weights"]["member"]
    with pytest.raises(InvalidParameter, match="expected member, got none"):
        hypothesis_from_json(name, written)


def test_a_perceptron_separates_what_can_be_separated() -> None:
    yes = COLUMNS["age"] + 30 * COLUMNS["member"] > 60
    separable = {**COLUMNS, "y": np.where(yes, "yes", "no")}
    learner = perceptron(SCHEMA, accuracy="1/50", rounds=200)
    found = learn(learner, ExactOracle(SCHEMA, separable))
    assert (found.predict(separable) != separable["y"]).mean() < 0.02


def test_a_perceptron_keeps_the_weights_that_erred_least() -> None:
    run = perceptron(SCHEMA, rounds=3).run()
    batch = next(run)
    shares = iter([0.5, 0.2, 0.4])

    def answers(asked: Batch) -> tuple[Answer, ...]:
        share = next(shares)
        return tuple(
            Answer((share,) * q.values, (0.0,) * q.values, (1.0,) * q.values)
            for q in asked.questions
        )

    second = run.send(answers(batch))
    third = run.send(answers(second))
    with pytest.raises(StopIteration) as end:
        run.send(answers(third))
    assert set(end.value.value.weights) == {1.0}  # 0.5/0.5 added once; then came the least share


def test_a_margin_of_the_whole_length_takes_few_rounds_and_a_small_one_many() -> None:
    assert perceptron_rounds(1) == 50
    assert 3000 < perceptron_rounds("1/10") < 4000
    with pytest.raises(InvalidParameter, match="margin expects"):
        perceptron_rounds(0)


def test_rehearsals_go_through_all_rounds() -> None:
    assert len(rehearse(logistic_regression(SCHEMA, rounds=5))) == 5
    assert len(rehearse(perceptron(SCHEMA, rounds=6, margin="1/10"))) == 6


@pytest.mark.parametrize(
    ("learner", "parameters", "message"),
    [
        ("logistic-regression", {"rounds": "0"}, "rounds: expected"),
        ("logistic-regression", {"rate": "0"}, "rate expects"),
        ("logistic-regression", {"clip": "0"}, "clip expects"),
        ("logistic-regression", {"decide": "maybe"}, "decide: "),
        (
            "logistic-regression",
            {"label": "colour"},
            r"a label of two classes, found 3: red, green, blue$",
        ),
        ("perceptron", {"accuracy": "1"}, "accuracy expects"),
        ("perceptron", {"margin": "2"}, "margin expects"),
    ],
)
def test_a_wrong_parameter_is_named(learner: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        find(learner).build(SCHEMA, parameters)
