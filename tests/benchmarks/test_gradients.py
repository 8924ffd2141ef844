"""Descents on numbers beside the learners' own; the data files are not needed."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import (
    huber_regression,
    linear_regression,
    linear_svm,
    logistic_regression,
    ridge_regression,
)
from askance_aggregator.oracles import ExactOracle, learn
from askance_aggregator.queries import encode_columns
from askance_client.queries import Bit, Category, Integer, Label, Schema

N = 600
SCHEMA = Schema(
    "people",
    1,
    age=Integer(0, 100),
    colour=Category(["red", "green", "blue"]),
    member=Bit(),
    y=Label(["no", "yes"]),
)
RNG = np.random.default_rng(9)
AGE, COLOUR = RNG.integers(0, 101, N), RNG.choice(["red", "green", "blue"], N)
ROWS = encode_columns(
    SCHEMA,
    {
        "age": AGE,
        "colour": COLOUR,
        "member": RNG.integers(0, 2, N),
        "y": np.where(RNG.random(N) < 0.2 + 0.005 * AGE * (COLOUR == "red"), "yes", "no"),
    },
)
SETTINGS: dict[str, Any] = {"rounds": 12, "rate": 1, "clip": "3/4", "decide": "model"}


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (logistic_regression, ["age", "colour", "member"]),
        (linear_svm, ["age", "colour", "member"]),
        (linear_regression, ["age", "member"]),
        (ridge_regression, ["age", "member"]),
        (huber_regression, ["age", "member"]),
    ],
)
def test_a_descent_on_numbers_takes_the_learner_s_steps(
    gradients: ModuleType, make: Any, fields: list[str]
) -> None:
    """Without noise, and with all records in every round."""
    more = {"penalty": "1/10"} if make is ridge_regression else {}
    learner = make(SCHEMA, "y", fields, **SETTINGS, **more)
    weights = np.asarray(learn(learner, ExactOracle(SCHEMA, ROWS)).weights)
    features, inputs = gradients.features_and_inputs(learner.name, SCHEMA, "y", fields, ROWS)
    descent = gradients.Descent(
        gradients.LOSSES[learner.name], 12, 1.0, 0.75, 0.1 if more else 0.0, 0.0
    )
    limit = gradients.limits(features, Fraction(3, 4), ROWS)
    everyone = np.tile(np.arange(N), 12)
    assert descent.weights(inputs, limit, everyone, RNG) == pytest.approx(weights, abs=3e-3)
    assert np.abs(weights).max() > 0.1


def test_the_noise_of_a_descent_is_that_of_its_rounds(gradients: ModuleType) -> None:
    """The weights of one round at rate 1 are the error, of variance v / users."""
    inputs = gradients.Inputs(np.zeros((N, 50)), np.zeros(N))
    descent = gradients.Descent(gradients.LOSSES["linear-regression"], 1, 1.0, 1.0, 0.0, 6.0)
    drawn = np.concatenate(
        [descent.weights(inputs, np.ones(N), np.arange(N), RNG) for _ in range(40)]
    )
    assert float(drawn.var()) * N == pytest.approx(6.0, rel=4.9 * np.sqrt(2 / 2_000))


def test_without_the_files_nothing_is_measured_and_nothing_fails(
    gradients: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gradients.main([str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": []}
