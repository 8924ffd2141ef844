"""Questions, batches and answers: what may be asked and what an answer looks like."""

from __future__ import annotations

from fractions import Fraction

import pytest

from askance_aggregator.learners import (
    Allocation,
    Answer,
    Batch,
    Question,
    check_answers,
    neutral_answer,
)
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    signed,
)
from askance_client.errors import InvalidParameter, InvalidQuery, LocalProtocolError
from askance_client.queries import (
    Bit,
    Category,
    Integer,
    Real,
    Schema,
)

SCHEMA = Schema("s", 1, b=Bit(), c=Category(["p", "q", "r"]), age=Integer(17, 90), t=Real(-1, 3))
PREDICATE = Question(predicate(SCHEMA["b"] == 1))
CELLS = Question(category(SCHEMA["c"]))
AGE = Question(real(SCHEMA["age"]))
SIGNED = Question(signed(SCHEMA["b"] * 4))


@pytest.mark.parametrize(
    ("question", "values", "bounds"),
    [
        (PREDICATE, 1, (0, 1)),
        (CELLS, 3, (0, 1)),
        (AGE, 1, (17, 90)),
        (Question(real(SCHEMA["t"])), 1, (-1, 3)),
        (SIGNED, 2, (-1, 1)),
    ],
)
def test_an_answer_has_a_value_for_each_thing_that_is_estimated(
    question: Question, values: int, bounds: tuple[int, int]
) -> None:
    assert question.values == values
    low, high = question.bounds
    assert low == bounds[0]
    assert high == bounds[1]
    assert question.spread == bounds[1] - bounds[0]


def test_an_open_tolerance_is_worked_with_as_a_twentieth_of_the_range() -> None:
    assert AGE.working_tau == Fraction(73, 20)
    assert Question(AGE.query, tau=Fraction(1, 3)).working_tau == Fraction(1, 3)


@pytest.mark.parametrize("tau", [0, Fraction(-1, 2)])
def test_a_tolerance_is_positive(tau: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="tau expects a positive"):
        Question(PREDICATE.query, tau=tau)


@pytest.mark.parametrize("mass", [0, 2])
def test_a_promise_is_a_share(mass: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="cell_mass"):
        Question(PREDICATE.query, cell_mass=mass)


def test_a_batch_takes_any_iterable_and_counts_its_values() -> None:
    batch = Batch(question for question in (PREDICATE, CELLS, SIGNED))
    assert batch.questions == (PREDICATE, CELLS, SIGNED)
    assert batch.values == 1 + 3 + 2
    assert batch.allocation is None
    assert Batch([PREDICATE], Allocation.SPLIT) != Batch([PREDICATE])


def test_a_batch_asks_something() -> None:
    with pytest.raises(InvalidQuery, match="at least one question"):
        Batch([])
    with pytest.raises(InvalidQuery, match="item 1 of a batch expects a Question, found Query"):
        Batch([PREDICATE, CELLS.query])  # type: ignore[list-item]  # that is the point


def test_only_an_answer_of_one_value_has_a_value() -> None:
    one = Answer((0.25,), (0.0,), (0.5,))
    assert (one.value, one.low, one.high) == (0.25, 0.0, 0.5)
    with pytest.raises(LocalProtocolError, match="found 2: they are in its `values`"):
        _ = Answer((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)).value
    with pytest.raises(InvalidParameter, match="as many lows"):
        Answer((0.0,), (0.0, 0.0), (0.0,))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (PREDICATE, Answer((0.0,), (0.0,), (1.0,))),
        (AGE, Answer((17.0,), (17.0,), (90.0,))),
        (SIGNED, Answer((0.0, 0.0), (-1.0, -1.0), (1.0, 1.0))),
    ],
)
def test_the_neutral_answer_is_possible_and_says_nothing(
    question: Question, answer: Answer
) -> None:
    assert neutral_answer(question) == answer


def test_answers_have_the_shape_of_their_batch() -> None:
    batch = Batch([PREDICATE, CELLS])
    good = (neutral_answer(PREDICATE), neutral_answer(CELLS))
    assert check_answers(batch, good) == good
    with pytest.raises(LocalProtocolError, match="expected 2 answers, one a question, found 1"):
        check_answers(batch, good[:1])
    with pytest.raises(LocalProtocolError, match="expected 3 values in answer 1, found 1"):
        check_answers(batch, (good[0], good[0]))
