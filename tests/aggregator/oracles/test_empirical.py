"""The empirical oracle: Theorem 6's sizes, a fresh sample a question, beta spent once."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log

import numpy as np
import pytest

from askance_aggregator.learners import Batch, Question
from askance_aggregator.oracles import EmpiricalOracle
from askance_aggregator.queries import (
    EncodedColumns,
    category,
    encode_columns,
    predicate,
    real,
    signed,
)
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Integer, Schema

SCHEMA = Schema("s", 1, n=Integer(0, 10), c=Category(["p", "q"]), k=Integer(0, 4))


class Draws:
    """A seeded distribution that remembers how much was drawn of it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.sizes: list[int] = []

    def __call__(self, rows: int) -> EncodedColumns:
        self.sizes.append(rows)
        return encode_columns(
            SCHEMA,
            {
                "n": self.rng.integers(0, 11, rows),
                "c": self.rng.choice(["p", "q"], rows, p=[0.3, 0.7]),
                "k": self.rng.integers(0, 5, rows),
            },
        )


@pytest.mark.parametrize(
    ("question", "spread", "tau"),
    [
        (Question(predicate(SCHEMA["n"] > 4), tau=Fraction(1, 20)), 1, 0.05),
        (Question(real(SCHEMA["n"]), tau=Fraction(1, 2)), 10, 0.5),
        (Question(real(SCHEMA["n"])), 10, 0.5),
        (Question(signed(SCHEMA["k"]), tau=Fraction(1, 10)), 2, 0.1),
    ],
)
def test_a_sample_has_the_size_of_theorem_six_times_the_range_squared(
    question: Question, spread: float, tau: float
) -> None:
    draws = Draws(1)
    EmpiricalOracle(draws, beta=0.01, values=2).answer(Batch([question]))
    assert draws.sizes == [ceil(log(2 * 2 / 0.01) * spread**2 / (2 * tau**2))]


def test_every_question_gets_a_fresh_sample_and_beta_sums_to_itself() -> None:
    draws = Draws(2)
    oracle = EmpiricalOracle(draws, beta=0.1)
    question = Question(predicate(SCHEMA["n"] > 4), tau=Fraction(1, 10))
    oracle.answer(Batch([question, question]))
    oracle.answer(Batch([question]))
    shares = [0.1 / (k * (k + 1)) for k in (1, 2, 3)]
    assert draws.sizes == [ceil(log(2 / share) / (2 * 0.01)) for share in shares]
    assert oracle.drawn == sum(draws.sizes)


def test_an_oracle_for_so_many_values_answers_no_more() -> None:
    oracle = EmpiricalOracle(Draws(3), beta=0.1, values=2)
    question = Question(category(SCHEMA["c"]), tau=Fraction(1, 10))
    oracle.answer(Batch([question]))
    with pytest.raises(InvalidParameter, match="for 2 values was asked for 4"):
        oracle.answer(Batch([question]))


def test_answers_are_valid_and_intervals_are_the_tolerance_within_the_range() -> None:
    oracle = EmpiricalOracle(Draws(4), beta=1e-6)
    shares, mean = oracle.answer(
        Batch(
            [
                Question(category(SCHEMA["c"]), tau=Fraction(1, 20)),
                Question(real(SCHEMA["n"]), tau=Fraction(1, 5)),
            ]
        )
    )
    assert abs(shares.values[0] - 0.3) < 0.05
    assert abs(mean.value - 5) < 0.2
    assert mean.low == pytest.approx(mean.value - 0.2)
    (sure,) = oracle.answer(Batch([Question(predicate(SCHEMA["n"] >= 0), tau=Fraction(1, 10))]))
    assert (sure.low, sure.high) == (0.9, 1.0)


@pytest.mark.parametrize("beta", [0, 1, -0.1])
def test_beta_is_a_probability(beta: float) -> None:
    with pytest.raises(InvalidParameter, match="beta expects"):
        EmpiricalOracle(Draws(5), beta)
    with pytest.raises(InvalidParameter, match="values expects"):
        EmpiricalOracle(Draws(5), 0.1, values=0)
