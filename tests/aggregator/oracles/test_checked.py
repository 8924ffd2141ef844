"""Answers that no valid oracle gives: one clear error that says which."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.learners import (
    Answer,
    Answers,
    Batch,
    Learning,
    Question,
    adaptive,
)
from askance_aggregator.oracles import CheckedOracle, ExactOracle, RandomSignOracle, learn
from askance_aggregator.queries import (
    category,
    predicate,
    real,
    signed,
)
from askance_client.errors import InvalidAnswer
from askance_client.queries import Integer, Schema
from askance_simulation.randomness import Seed, SeededWords

SCHEMA = Schema("s", 1, n=Integer(0, 4))
SHARE = Question(predicate(SCHEMA["n"] >= 2), Fraction(1, 10))
CELLS = Question(category(SCHEMA["n"]), Fraction(1, 100))
PAIRS = Question(signed(SCHEMA["n"]), Fraction(1, 10))
NUMBER = Question(real(SCHEMA["n"]), Fraction(1, 2))
OPEN = Question(real(SCHEMA["n"]))


class Says:
    """Recorded values, a round after another."""

    def __init__(self, *rounds: list[tuple[float, ...]]) -> None:
        self.rounds = iter(rounds)

    def answer(self, batch: Batch) -> Answers:
        return tuple(Answer(values, values, values) for values in next(self.rounds))


def test_what_a_valid_oracle_says_passes() -> None:
    checked = CheckedOracle(Says([(1.09,), (0.2,) * 5, (-0.6, 0.55), (-0.4,), (7.0,)]))
    answers = checked.answer(Batch([SHARE, CELLS, PAIRS, NUMBER, OPEN]))
    assert [answer.values[0] for answer in answers] == [1.09, 0.2, -0.6, -0.4, 7.0]


@pytest.mark.parametrize(
    ("question", "values", "message"),
    [
        (SHARE, (1.1,), r"question 1: expected value 0 within 0.1 of 0 \.\. 1, found 1.1"),
        (SHARE, (-0.2,), "value 0 within"),
        (SHARE, (nan,), "expected a finite number as value 0"),
        (OPEN, (inf,), "expected a finite number as value 0"),
        (NUMBER, (4.5,), r"within 0.5 of 0 \.\. 4"),
        (CELLS, (0.2, 0.2, 0.2, 0.2, 0.26), "shares with a sum within 0.05 of 1, found 1.06"),
        (PAIRS, (-0.65, 0.6), "magnitudes of sum below 1.2, found 1.25"),
    ],
)
def test_what_none_says_is_named(
    question: Question, values: tuple[float, ...], message: str
) -> None:
    with pytest.raises(InvalidAnswer, match=message):
        CheckedOracle(Says([values])).answer(Batch([question]))


def test_the_round_and_the_question_are_named() -> None:
    checked = CheckedOracle(Says([(0.5,)], [(0.5,), (1.5,)]))
    checked.answer(Batch([SHARE]))
    with pytest.raises(InvalidAnswer, match="round 2, question 2: "):
        checked.answer(Batch([SHARE, Question(predicate(SCHEMA["n"] == 1), Fraction(1, 10))]))


def test_two_answers_to_one_query_have_to_leave_room_for_a_truth() -> None:
    finer = Question(SHARE.query, Fraction(1, 100))
    CheckedOracle(Says([(0.5,), (0.6,)])).answer(Batch([SHARE, finer]))
    with pytest.raises(InvalidAnswer, match=r"question 2: .* agree with round 1, question 1"):
        CheckedOracle(Says([(0.5,), (0.62,)])).answer(Batch([SHARE, finer]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(0, 1000))
def test_no_adversary_is_accused(people: list[int], seed: int) -> None:
    adversary = RandomSignOracle(ExactOracle(SCHEMA, {"n": people}), SeededWords(Seed.of(seed)))
    checked = CheckedOracle(adversary)
    for _ in range(3):
        checked.answer(Batch([SHARE, CELLS, PAIRS, NUMBER, OPEN]))


@adaptive("suspicious")
def suspicious() -> Learning[float]:
    """Refuse an answer below 0.4, since the share is known to be at least a half."""
    yield Batch([NUMBER])
    (answer,) = yield Batch([SHARE])
    if answer.value < 0.4:
        raise InvalidAnswer(f"question 0: expected at least 0.4, found {answer.value:g}")
    return answer.value


@pytest.mark.parametrize("wrap", [CheckedOracle, lambda oracle: oracle])
def test_a_learner_that_knows_better_fails_with_the_round(
    wrap: Callable[[Says], CheckedOracle | Says],
) -> None:
    assert learn(suspicious(), wrap(Says([(2.0,)], [(0.45,)]))) == 0.45
    with pytest.raises(InvalidAnswer, match="suspicious: round 2: question 0: expected at least"):
        learn(suspicious(), wrap(Says([(2.0,)], [(0.3,)])))


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_what_is_no_number_reaches_no_learner(value: float) -> None:
    """Any oracle and any learner: the answer is refused before the learner sees it."""

    @adaptive("two-rounds")
    def learner() -> Learning[float]:
        (first,) = yield Batch([SHARE])
        (second,) = yield Batch([OPEN])
        return first.value + second.value

    with pytest.raises(InvalidAnswer, match="two-rounds: round 2, question 1: expected a finite"):
        learn(learner(), Says([(0.5,)], [(value,)]))
