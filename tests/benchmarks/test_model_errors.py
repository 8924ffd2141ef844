"""Errors of models on drawn answers: what the benchmark measures, and that no error rises."""

from __future__ import annotations

import json
from statistics import mean
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from askance_aggregator.learners import find, learners
from askance_aggregator.learners.assessments import assess
from askance_simulation.populations import Population
from tests.kinds import BY_KIND

PROMISED = {"conjunctions", "decision-lists", "disjunctions", "literal-conjunctions"}
"""Learners that state a tolerance: more users change no answer, and fewer are refused."""
OWN_SIZE = {"heavy-hitters"}
"""Learners that ask more of more users: a smaller threshold, whose errors are of rarer values."""
MODELS = {"pca", *(entry.name for entry in learners() if entry.held_out)}
LIMIT = 4.0  # standard errors


def row(model_errors: ModuleType, epsilon: int, users: int, *errors: float) -> Any:
    return model_errors.Row("iris", "pca", epsilon, users, 0.0, 0.0, 0.5, errors)


def test_every_learner_that_makes_a_model_is_measured(model_errors: ModuleType) -> None:
    asked = {learner for of_set in model_errors.SETS.values() for learner in of_set}
    assert asked == MODELS - {"perceptron"}  # of halfspaces, with a tolerance of its own


def test_neighbours_along_epsilon_and_users_are_compared(model_errors: ModuleType) -> None:
    rows = [row(model_errors, epsilon, users, 0.5) for epsilon in (1, 2, 4) for users in (10, 20)]
    rows.append(row(model_errors, 8, 20))  # refused
    found = [
        ((one.less.epsilon, one.less.users), (one.more.epsilon, one.more.users))
        for one in model_errors.comparisons(rows)
    ]
    assert sorted(found) == [
        ((1, 10), (1, 20)),
        ((1, 10), (2, 10)),
        ((1, 20), (2, 20)),
        ((2, 10), (2, 20)),
        ((2, 10), (4, 10)),
        ((2, 20), (4, 20)),
        ((4, 10), (4, 20)),
    ]


@pytest.mark.parametrize(
    ("less", "more", "fails"),
    [
        ((0.10, 0.12, 0.11, 0.13), (0.20, 0.22, 0.21, 0.24), True),
        ((0.10, 0.12, 0.11, 0.13), (0.20, 0.22, 0.21, 0.23), True),  # all alike
        ((0.10, 0.12, 0.11, 0.13), (0.104, 0.124, 0.1141, 0.134), False),  # below 5 %
        ((0.10, 0.30, 0.10, 0.30), (0.35, 0.05, 0.35, 0.30), False),  # by chance
        ((0.20, 0.22, 0.21, 0.24), (0.10, 0.12, 0.11, 0.13), False),
    ],
)
def test_a_rise_fails_that_is_large_and_not_by_chance(
    model_errors: ModuleType, less: tuple[float, ...], more: tuple[float, ...], fails: bool
) -> None:
    rise = model_errors.Rise(row(model_errors, 1, 10, *less), row(model_errors, 2, 10, *more))
    assert rise.fails(LIMIT) is fails


def test_it_runs(model_errors: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--sets", "iris", "--learners", "pca", "linear-svm", "--users", "2000"]
    chosen += ["--epsilons", "2", "8", "--trials", "2"]
    assert model_errors.main([*chosen, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(one["learner"], one["epsilon"], one["users"]) for one in rows] == [
        (learner, epsilon, 2000) for learner in ("pca", "linear-svm") for epsilon in (2, 8)
    ]
    for one in rows:
        assert len(one["errors"]) == 2
        assert 0 < mean(one["errors"]) < one["constant"]
    assert model_errors.main(chosen) == 0
    text = capsys.readouterr().out
    assert "| iris | linear-svm | 2,000 |" in text
    assert "no error rises" in text


def test_reports_have_the_error_of_drawn_answers(model_errors: ModuleType) -> None:
    """Principal components of iris: 12 trials of 2,000 users at epsilon 4, one report each."""
    task = model_errors.Task("iris", "pca")
    drawn, reported = (
        np.array(model_errors.measured(task, 4, 2_000, 12, reports=reports).errors)
        for reports in (False, True)
    )
    spread = np.sqrt(drawn.var(ddof=1) / 12 + reported.var(ddof=1) / 12)
    assert abs(drawn.mean() - reported.mean()) < 5 * spread
    assert spread < drawn.mean() / 3


def test_principal_components_gain_by_epsilon_and_by_users(model_errors: ModuleType) -> None:
    """Before, the clip grew with epsilon: .018 at 10^4 users and epsilon 4, .015 at 10^5."""
    task, trials = model_errors.Task("iris", "pca"), 6
    rows = [
        model_errors.measured(task, epsilon, users, trials)
        for users in (10**4, 10**5)
        for epsilon in (1, 2, 4, 8)
    ]
    assert not [str(one) for one in model_errors.comparisons(rows) if one.fails(LIMIT)]
    errors = {(one.users, one.epsilon): mean(one.errors) for one in rows}
    assert errors[10**4, 4] < 0.004
    assert errors[10**5, 2] < 0.003
    assert errors[10**5, 4] < 0.001
    assert errors[10**5, 8] < 0.0006


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in BY_KIND else pytest.mark.nightly)
        for name in (entry.name for entry in learners())
    ],
)
def test_no_error_rises_with_epsilon_or_users(
    name: str, model_errors: ModuleType, drawn_answers: ModuleType
) -> None:
    """All learners, on 2,000 rows of their populations; of estimates the squared error."""
    entry, trials, power = find(name), 6, 1 if name in MODELS else 2
    people = Population.generated(entry.population or "traits", 2_000, seed=1)
    learner, rows = entry.build(people.schema, {}), people.columns(0, people.size)

    def measured(epsilon: int, users: int) -> Any:
        found = (
            drawn_answers.learned(
                learner, people.schema, rows, epsilon=epsilon, users=users, seed=(trial,)
            )
            for trial in range(trials)
        )
        errors = [assess(hypothesis, learner, people).error or 0.0 for hypothesis in found]
        return row(model_errors, epsilon, users, *(error**power for error in errors))

    if name in PROMISED:
        with pytest.raises(drawn_answers.PlanRefused):
            measured(1, 10**4)
        return
    compared = model_errors.comparisons(
        [measured(epsilon, users) for epsilon in (1, 4) for users in (10**4, 4 * 10**4)]
    )
    rises = [str(one) for one in compared if one.fails(LIMIT)]
    assert not rises or name in {*model_errors.GREEDY, *OWN_SIZE}
