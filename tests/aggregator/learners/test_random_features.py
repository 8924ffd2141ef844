"""Random features: public units, the expressions that devices compute, and curved boundaries."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    RandomFeatures,
    hypothesis_from_json,
    hypothesis_json,
    logistic_regression,
    random_features,
)
from askance_aggregator.learners.random_features import Standard, _Task, units_of
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import encode_columns, evaluate_columns, real
from askance_client.errors import InvalidParameter
from askance_client.queries import Bit, Category, Label, Real, Schema

SCHEMA = Schema("rings", 1, x=Real(-4, 4), y=Real(-4, 4), label=Label(["out", "in"]))
POINTS = np.random.default_rng(4).normal(0, 0.7, (2, 3_000)).clip(-4, 4).round(2)
ROWS = encode_columns(
    SCHEMA,
    {
        "x": POINTS[0],
        "y": POINTS[1],
        "label": np.where((POINTS**2).sum(axis=0) < 0.7, "in", "out"),
    },
)


def learned(**settings: Any) -> RandomFeatures:
    found: RandomFeatures = learn(random_features(SCHEMA, **settings), ExactOracle(SCHEMA, ROWS))
    return found


def wrong(model: Any) -> float:
    return float((model.predict(ROWS) != np.array(["out", "in"])[ROWS.values["label"]]).mean())


def test_units_are_the_same_for_ever() -> None:
    """A saved model has its weights alone: the units are drawn anew when it is read."""
    *own, one, other = units_of(6, 2)
    assert [unit.places for unit in own] == [(0,), (1,), (2,), (3,), (4,), (5,)]
    assert {unit.gains for unit in own} == {(0.5,)}
    assert (one.places, other.places) == ((2, 3, 4, 5), (2, 4, 0, 3))
    assert [round(one.offset, 6), round(other.offset, 6)] == [-0.680326, 0.680024]
    assert {abs(gain) for gain in (*one.gains, *other.gains)} == {0.6}
    units = units_of(30, 256)[30:]
    assert {len(unit.places) for unit in units} == {4}
    assert {place for unit in units for place in unit.places} == set(range(30))
    assert np.mean([unit.offset for unit in units]) == pytest.approx(0, abs=0.1)
    assert np.mean([unit.gains[0] > 0 for unit in units]) == pytest.approx(0.5, abs=0.1)


def test_a_device_computes_what_the_model_predicts_by() -> None:
    model = learned(units=5, rounds=3)
    task = _Task.of({"schema": SCHEMA, "label": None, "columns": None})
    expressions = task.expressions(Standard(model.means, model.scales), 5)
    assert len(expressions) == 2 + 5
    total = np.full(ROWS.rows, model.weights[0])
    for expression, weight in zip(expressions, model.weights[1:], strict=True):
        query = real(expression, default=0)
        values = np.ldexp(np.asarray(evaluate_columns(query, ROWS), float), -query.frac)
        assert np.abs(values).max() <= 1
        total += weight * values
    assert model.decision_function(ROWS) == pytest.approx(total, abs=0.02)


def test_a_curved_boundary_is_learned_where_a_line_is_no_better_than_a_constant() -> None:
    line = learn(logistic_regression(SCHEMA), ExactOracle(SCHEMA, ROWS))
    assert wrong(line) > 0.2
    assert wrong(learned(units=64)) < 0.12


def test_a_model_is_read_again_and_predicts_the_same() -> None:
    model = learned(units=3, rounds=2)
    text = json.dumps(hypothesis_json(model))
    read = hypothesis_from_json("random-features", json.loads(text))
    assert read == model
    assert (read.predict_proba(ROWS) == model.predict_proba(ROWS)).all()
    with pytest.raises(InvalidParameter, match="expects 2 classes, a mean and a scale for each"):
        hypothesis_from_json("random-features", {**json.loads(text), "means": [0.5]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": 257}, r"units: expected a whole number in 0\.\.256, got 257"),
        ({"units": True}, "units: expected"),
        ({"rounds": 0}, "rounds: expected"),
        ({"decide": "maybe"}, "decide: "),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        random_features(SCHEMA, **settings)


def test_too_many_numbers_are_refused() -> None:
    wide = Schema.of("wide", 1, {**{f"b{j}": Bit() for j in range(129)}, "y": Category("ab")})
    with pytest.raises(InvalidParameter, match="at most 128 numbers, got 129"):
        random_features(wide, "y").run()
