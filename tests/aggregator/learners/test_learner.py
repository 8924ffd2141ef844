"""Learners as values: kinds by type, parameters as text, runs that can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest

from askance_aggregator.learners import (
    Adaptive,
    Answer,
    Answers,
    Batch,
    Learning,
    NonAdaptive,
    Question,
    adaptive,
    canonical_text,
    conjunctions,
    conjunctions_schema,
    frequency,
    masked_parity,
    masked_parity_schema,
    mean,
    non_adaptive,
    rational,
)
from askance_aggregator.queries import predicate
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Integer, Schema

SCHEMA = Schema("s", 1, n=Integer(0, 9), c=Category(["p", "q"]))
ANSWERS = (Answer((0.5,), (0.0,), (1.0,)),)


@adaptive("climb", version=3)
def climb(schema: Schema, steps: int = 2) -> Learning[int]:
    """Ask one question a step, for as long as answers are above a half."""
    level = 0
    for step in range(steps):
        (answer,) = yield Batch([Question(predicate(schema["n"] > step))])
        level += int(answer.value >= 0.5)
    return level


@non_adaptive("once")
def once(schema: Schema, at: int) -> tuple[Batch, Callable[[Answers], float]]:
    """Ask one question."""
    return Batch([Question(predicate(schema["n"] > at))]), lambda answers: answers[0].value


def test_a_non_adaptive_learner_has_one_batch_and_yields_exactly_once() -> None:
    learner = once(SCHEMA, 3)
    assert isinstance(learner, NonAdaptive)
    run = learner.run()
    assert next(run) is learner.batch
    with pytest.raises(StopIteration) as stop:
        run.send(ANSWERS)
    assert stop.value.value == 0.5


def test_every_run_of_an_adaptive_learner_starts_afresh() -> None:
    learner = climb(SCHEMA, steps=3)
    assert isinstance(learner, Adaptive)
    first, second = learner.run(), learner.run()
    assert next(first) == next(second)
    assert first.send(ANSWERS) == second.send(ANSWERS)
    first.send(ANSWERS)
    with pytest.raises(StopIteration) as stop:
        first.send(ANSWERS)
    assert stop.value.value == 3


def test_a_learner_knows_its_name_version_schema_and_parameters() -> None:
    learner = climb(SCHEMA)
    assert (learner.name, learner.version) == ("climb", 3)
    assert learner.schema is SCHEMA
    assert learner.parameters == {"steps": "2"}
    assert climb(SCHEMA, 5).parameters == climb(schema=SCHEMA, steps=5).parameters == {"steps": "5"}


def test_parameters_are_sorted_and_an_unset_one_is_left_out() -> None:
    asked = mean(SCHEMA["n"], tau=0.5)
    assert list(asked.parameters) == ["query", "tau"]
    assert asked.parameters["tau"] == "1/2"
    assert set(mean(SCHEMA["n"]).parameters) == {"query"}


def test_a_query_is_recorded_by_its_digest() -> None:
    text = frequency(SCHEMA["c"]).parameters["query"]
    assert text.startswith("query:")
    assert len(text) == len("query:") + 64
    assert text == frequency(Schema("other", 2, c=Category(["p", "q"]))["c"]).parameters["query"]
    assert text != mean(SCHEMA["n"]).parameters["query"]


def test_equal_numbers_have_equal_texts() -> None:
    spellings: tuple[object, ...] = (0.05, Decimal("0.050"), Fraction(1, 20))
    assert {canonical_text(number) for number in spellings} == {"1/20"}
    assert canonical_text(True) == "true"
    assert canonical_text([1, 0.5, "a"]) == "1,1/2,a"
    with pytest.raises(InvalidParameter, match="found dict"):
        canonical_text({})


@pytest.mark.parametrize("text", ["", "x", "1/0", "nan", "inf", "1e999999999", "9" * 100])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="tau expects a finite number"):
        rational(text, "tau")


def test_a_float_stands_for_what_was_written() -> None:
    assert rational(0.1, "tau") == rational("1/10", "tau") == rational("1e-1", "tau")


def test_bad_arguments_are_refused_before_a_run_is_started() -> None:
    with pytest.raises(InvalidParameter, match="variant"):
        masked_parity(masked_parity_schema(4), "other")
    with pytest.raises(InvalidParameter, match="masked-parity: expected the fields"):
        masked_parity(SCHEMA)
    with pytest.raises(InvalidParameter, match="accuracy"):
        conjunctions(conjunctions_schema(2), accuracy=1)


@pytest.mark.parametrize(("name", "version"), [("Bad", 1), ("", 1), ("a b", 1), ("good", 0)])
def test_names_and_versions_are_checked(name: str, version: int) -> None:
    with pytest.raises(InvalidParameter):
        adaptive(name, version)(climb.__wrapped__)(SCHEMA)  # type: ignore[attr-defined]  # functools.wraps sets it
