"""Learners that ask round by round, by name and text: as the command line and a study have them."""

from __future__ import annotations

import pytest

from askance_aggregator.learners import (
    decision_tree,
    find,
    gaussian_mixture,
    k_means,
    logistic_regression,
    perceptron,
    traits_schema,
)
from askance_aggregator.learners.learner import Learner
from askance_aggregator.planning import plan, rehearse
from askance_aggregator.studies.study import Study
from askance_client.queries import Schema
from askance_simulation.experiments import named, simulate

SCHEMA = traits_schema()
NANO_NATS = 10**9
LEARNERS = [
    decision_tree(SCHEMA, columns=("age", "colour"), depth=2, bins=5, tau=0.05),
    logistic_regression(SCHEMA, label="y", columns=["height"], rounds=3, rate=0.5, clip=2),
    perceptron(SCHEMA, accuracy=0.2, margin="1/4", rounds=5),
    k_means(SCHEMA, k=4, columns=("age", "height"), rounds=3),
    gaussian_mixture(SCHEMA, k=3, rounds=2, tau="1/10"),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: str(learner.name))
def test_a_learner_is_built_again_from_its_text(learner: Learner[object]) -> None:
    text = find(learner.name).spell(learner, SCHEMA)
    again = find(learner.name).build(SCHEMA, text)
    assert again.parameters == learner.parameters
    asked, before = rehearse(again), rehearse(learner)
    assert [batch.questions for batch in asked] == [batch.questions for batch in before]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: str(learner.name))
def test_a_plan_has_a_round_for_each_that_may_come(learner: Learner[object]) -> None:
    made = plan(learner, NANO_NATS, 0.01)
    rounds = {
        "decision-tree": 2,
        "logistic-regression": 3,
        "perceptron": 5,
        "k-means": 3 + 2,
        "gaussian-mixture": 2 + 1,
    }
    assert len(made.rounds) == rounds[learner.name]
    assert made.users_needed == sum(part.users for part in made.rounds) > 0


def test_the_users_of_open_tolerances_are_divided_evenly_over_all_questions() -> None:
    schema = Schema("s", 1, **{key: SCHEMA.fields[key] for key in ("age", "y")})
    learner = decision_tree(schema, decide="model")
    made = Study(learner, epsilon=1).plan(4_003)
    assert [part.users for part in made.rounds] == [445, 3_558]  # one question, and eight


@pytest.mark.parametrize(
    ("learner", "settings", "most"),
    [
        ("decision-tree", {"columns": "height,member,age", "depth": "2"}, 0.2),
        ("k-means", {}, 0.1),
        pytest.param("logistic-regression", {"rounds": "24"}, 0.13, marks=pytest.mark.slow),
        pytest.param("gaussian-mixture", {"k": "3"}, 0.1, marks=pytest.mark.slow),
    ],
)
def test_people_of_its_own_are_learned_in_the_local_model(
    learner: str, settings: dict[str, str], most: float
) -> None:
    """Bounds far above what was seen: a guess, or the mean of all, has 0.3, 0.5 or 1."""
    made = named(learner, epsilon=4, users=100_000, settings=settings)
    result = simulate(made.study, made.people, fleet="columns", seed=4)
    (trial,) = result.trials
    assert trial.assessment.error is not None
    assert trial.assessment.error < most
    assert result.epsilon_spent.max <= 4


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_perceptron_that_stops_early_has_its_accuracy_in_the_local_model(seed: int) -> None:
    """Without a margin, an early stop is the promise: the error is below `accuracy`.

    It stops at an estimate of at most 3/4 accuracy, so it holds where the share's tolerance is at
    most accuracy/4. At epsilon 4 and beta 0.01, for 41 answers, that takes 12,500 (0.0384/0.025)^2
    = 29,500 users for five of them; 246,000 users give 6,000 to each answer. A lower bound than
    accuracy does not follow: the weights of seed 4 err on 0.063 of the users.
    """
    accuracy = 0.1
    settings = {"accuracy": str(accuracy), "rounds": "8"}
    made = named("perceptron", epsilon=4, users=246_000, settings=settings)
    (trial,) = simulate(made.study, made.people, fleet="columns", seed=seed).trials
    assert all(taken.tau <= accuracy / 4 for taken in trial.rounds)
    assert len(trial.rounds) < 8
    assert trial.assessment.error is not None
    assert trial.assessment.error < accuracy
