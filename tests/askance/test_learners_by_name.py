"""Learners by columns' names, given to whatever has the schema: a simulation, a budget, a plan."""

from collections.abc import Callable
from typing import Any

import pytest

import askance as ask

SCHEMA = ask.Schema("people", age=ask.Integer(0, 120), sex=ask.Category(["female", "male"]))
PEOPLE = ask.Population.from_columns(
    SCHEMA, {"age": [20, 60] * 2_000, "sex": ["female", "male"] * 2_000}
)
SIMULATE: Any = ask.simulate


@pytest.mark.parametrize(
    ("later", "now"),
    [
        (ask.learners.mean("age"), ask.learners.mean(SCHEMA.age)),
        (ask.learners.difference("age", by="sex"), ask.learners.difference(SCHEMA, "age", "sex")),
    ],
)
def test_a_simulation_binds_a_learner(later: ask.Learner[Any], now: ask.Learner[Any]) -> None:
    """Both styles ask the same users the same questions, with the same coins."""
    study = ask.Study(now, SCHEMA, epsilon=2)
    wanted = ask.simulate(study, PEOPLE, fleet="columns").hypothesis
    assert ask.simulate(later, PEOPLE, epsilon=2, fleet="columns").hypothesis == wanted
    assert ask.budget(PEOPLE, epsilon=2).ask(later, epsilon=2).study.learner.parameters == (
        study.learner.parameters
    )
    assert ask.plan(later, epsilon=2, schema=SCHEMA, users=4_000).feasible


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ask.simulate(ask.learners.mean("age"), PEOPLE),
         "epsilon: expected each user's budget with the learner mean, got none"),
        (lambda: ask.simulate(ask.Study(ask.learners.mean("age"), SCHEMA, epsilon=1), PEOPLE,
                              epsilon=2),
         "epsilon: expected none, as the study has its own, got 2"),
        (lambda: SIMULATE(PEOPLE, ask.learners.mean("age"), epsilon=1),
         "study: expected a study or a learner, got Population"),
        (lambda: SIMULATE(ask.learners.mean("age"), SCHEMA, epsilon=1),
         "people: expected a population, as askance.read makes it, got Schema"),
        (lambda: SIMULATE("mean", PEOPLE, epsilon=1),
         "study: expected a study or a learner, got str"),
        (lambda: ask.plan(ask.learners.mean("age"), epsilon=1),
         "study: expected a schema, got none for mean"),
        (lambda: ask.plan(ask.learners.mean("age"), epsilon=1, schema=SCHEMA, label="sex"),
         "plan: label: expected none with a learner itself, got 'sex'"),
        (lambda: ask.plan("mean", epsilon=1, schema=SCHEMA),
         "plan: schema: expected a file with the name of a learner, got Schema('people', 1"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_a_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ask.InvalidParameter) as found:
        call()
    assert str(found.value).startswith(message)
    assert "\n" not in str(found.value)
