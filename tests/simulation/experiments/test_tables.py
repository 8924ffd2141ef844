"""Results as data frames: the estimates of every learner of the catalogue, or rows of its own."""

from __future__ import annotations

from functools import cache

import pytest

import askance as ask
from askance_aggregator.learners import find, learners, presentation_of
from askance_client.errors import InvalidParameter
from askance_simulation.experiments import Simulation, named
from askance_simulation.randomness import Seed

pytest.importorskip("pandas")

EPSILON = 8
WITHOUT = ("masked-parity",)  # two values, no table
NAMES = [entry.name for entry in learners()]
ESTIMATES = ["trial", "group", "name", "estimate", "low", "high", "shown", "truth"]
OWN = {
    "conjunctions": ["variable"],
    "decision-lists": ["variable", "value", "label"],
    "decision-tree": ["node", "field", "cells", "class"],
    "disjunctions": ["variable", "negated"],
    "gaussian-mixture": ["weight", "variance"],
    "heavy-hitters": ["value", "estimate", "low", "high"],
    "huber-regression": ["feature", "coefficient"],
    "k-means": ["share"],
    "linear-regression": ["feature", "coefficient"],
    "linear-svm": ["feature", "weight"],
    "literal-conjunctions": ["variable", "negated"],
    "logistic-regression": ["feature", "weight"],
    "naive-bayes": ["field", "cell", "class", "probability"],
    "pca": ["variance"],
    "perceptron": ["feature", "weight"],
    "quantiles": ["level", "value", "low", "high"],
    "random-features": ["number", "mean", "deviation", "weight"],
    "ridge-regression": ["feature", "coefficient"],
}


@cache
def simulated(learner: str, trials: int = 1) -> Simulation:
    """Return a run with as few users as its plan allows."""
    small = find(learner).small
    users = small.fleet_users or 1
    for _ in range(1 if small.fleet_users else 2):
        made = named(learner, epsilon=EPSILON, users=users, settings=small.on_fleets)
        population = made.people(Seed.of(0) / "population")
        study = made.study(population)
        users = users if small.fleet_users else study.plan().users_needed
    return ask.simulate(study, population, fleet="columns", trials=trials, workers=1)


def cases() -> list[object]:
    """Return the learners with a table; two that take long and have plain estimates are slow."""
    slow = {name: [pytest.mark.slow] for name in ("correlation", "difference")}
    return [pytest.param(name, marks=slow.get(name, [])) for name in NAMES if name not in WITHOUT]


@pytest.mark.parametrize("learner", cases())
def test_every_learner_has_a_frame(learner: str) -> None:
    result = simulated(learner)
    frame = result.to_pandas()
    rows = presentation_of(result.hypothesis).rows
    assert len(frame) == (len(rows) or len(result.hypothesis.to_rows()))
    columns = ESTIMATES if rows else ["trial", *OWN[learner]]
    assert list(frame.columns)[: len(columns)] == columns
    if rows:
        assert frame["estimate"].tolist() == [row.estimate for row in rows]
        assert (frame["low"] <= frame["shown"]).all()
        assert (frame["shown"] <= frame["high"]).all()


def test_the_truth_is_beside_the_estimates() -> None:
    result = simulated("frequency")
    assert result.to_pandas()["truth"].tolist() == list(result.trials[0].assessment.truth)


def test_coefficients_are_those_that_predict() -> None:
    result = simulated("linear-regression")
    frame = result.to_pandas().set_index("feature")["coefficient"]
    assert frame["(intercept)"] == result.hypothesis.intercept_
    assert frame.drop("(intercept)").tolist() == result.hypothesis.coef_.tolist()


def test_probabilities_of_a_field_are_one_law_per_class() -> None:
    frame = simulated("naive-bayes").to_pandas()
    sums = frame.groupby(["field", "class"])["probability"].sum()
    assert sums.tolist() == pytest.approx([1.0] * len(sums))


def test_several_trials_are_numbered() -> None:
    result = simulated("mean", trials=2)
    frame = result.to_pandas()
    assert frame["trial"].tolist() == [0, 1]
    assert frame["estimate"].tolist() == [t.outcome.hypothesis.estimate for t in result.trials]
    assert result.trials_to_pandas()["error"].tolist() == [
        trial.assessment.error for trial in result.trials
    ]


def test_a_hypothesis_without_a_table_is_refused_with_what_helps() -> None:
    result = simulated("masked-parity")
    with pytest.raises(InvalidParameter, match="got that of masked-parity; its JSON has all of it"):
        result.to_pandas()
    assert len(result.trials_to_pandas()) == 1


def test_error_and_baseline_are_those_of_the_json() -> None:
    for learner in ("frequency", "mean", "masked-parity"):
        result = simulated(learner, trials=2 if learner == "mean" else 1)
        told = result.to_json()
        assert result.error == told["error"]["mean"]
        assert result.baseline == told["baseline"]
        assert result.verdict == told["verdict"]
