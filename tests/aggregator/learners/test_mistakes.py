"""Mistakes in learners and studies are reported where they are made."""

from collections.abc import Callable
from typing import Any

import pytest

from askance_aggregator.learners import (
    Batch,
    Question,
    adaptive,
    frequency,
    mean,
    non_adaptive,
)
from askance_aggregator.planning import plan
from askance_aggregator.studies.study import Study
from askance_client.errors import InvalidParameter, InvalidQuery
from askance_client.queries import Category, Integer, Schema

PEOPLE = Schema("people", 1, age=Integer(0, 100), kind=Category("ab"))
OTHERS = Schema("others", 1, age=Integer(0, 9))


def studied(**changed: Any) -> Study:
    given: dict[str, Any] = {"learner": mean(PEOPLE.age), "schema": PEOPLE, "epsilon": 1}
    return Study(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"learner": mean}, "call its function"),
        ({"learner": "mean"}, "expected a learner"),
        ({"schema": "people"}, "expected a schema"),
        ({"learner": mean(PEOPLE.age), "schema": mean(PEOPLE.age)}, "expected a schema"),
        ({"design": "best"}, "expected a design"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"beta": 2}, "beta"),
        ({"beta": "often"}, "beta"),
    ],
)
def test_a_study_of_something_else_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        studied(**changed)


def test_a_learner_that_knows_its_schema_is_not_asked_of_another() -> None:
    @adaptive("one-question")
    def one(schema: Schema) -> Any:
        yield Batch([Question(frequency(schema["kind"]).batch.questions[0].query, tau="0.1")])

    with pytest.raises(InvalidParameter, match="schema of its learner, 'people'"):
        studied(learner=one(PEOPLE), schema=OTHERS)


def test_an_adaptive_learner_is_a_generator() -> None:
    @adaptive("returns")
    def returns() -> Any:
        return 3

    with pytest.raises(InvalidParameter, match=r"generator function .* returns int"):
        returns()


@pytest.mark.parametrize("made", [Batch([Question(mean(PEOPLE.age).batch.questions[0].query)]), 3])
def test_a_non_adaptive_learner_is_a_batch_and_a_conclusion(made: object) -> None:
    wrong: Callable[[], Any] = lambda: made  # noqa: E731  # as short as the mistake
    with pytest.raises(InvalidParameter, match="expects a batch and what concludes"):
        non_adaptive("half")(wrong)()


def test_a_learner_yields_batches() -> None:
    @adaptive("bare")
    def bare() -> Any:
        yield mean(PEOPLE.age).batch.questions[0]

    with pytest.raises(InvalidQuery, match="bare expects to yield a Batch, found Question"):
        plan(bare(), 10**9, 0.1)


def test_a_design_returns_a_randomizer() -> None:
    nothing: Any = lambda levels, nano_nats: None  # noqa: E731  # as short as the mistake
    with pytest.raises(InvalidParameter, match="expects to return a randomizer, found NoneType"):
        studied(design=nothing).plan(100)
