"""The exact oracle: expectations by integers, over weighted populations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from askance_aggregator.learners import Batch, Question
from askance_aggregator.oracles import ExactOracle, expectations
from askance_aggregator.queries import (
    category,
    encode_columns,
    predicate,
    real,
    signed,
    vector,
    where,
)
from askance_client.errors import InvalidParameter
from askance_client.queries import (
    Category,
    Integer,
    Real,
    Schema,
)

SCHEMA = Schema("s", 1, n=Integer(0, 4), c=Category(["p", "q", "r"]), t=Real(-2, 2, 8))
ROWS: dict[str, ArrayLike] = {"n": [0, 1, 2, 4], "c": ["p", "r", "r", "r"], "t": [0.5, -1.25, 2, 0]}
PREDICATE = Question(predicate(SCHEMA["n"] >= 2))
CELLS = Question(category(SCHEMA["c"]))
REAL = Question(real(SCHEMA["t"]))
VECTOR = Question(vector([SCHEMA["t"], SCHEMA["n"] - 1, SCHEMA["n"] >= 2], -2, 3))
SIGNED = Question(signed(SCHEMA["n"]))  # 0, 2 are +1 at 0, 1; 1, 3 are -1; 4 is none


def test_expectations_are_exact_for_every_kind_of_query() -> None:
    columns = encode_columns(SCHEMA, ROWS)
    assert expectations(PREDICATE, columns) == (Fraction(1, 2),)
    assert expectations(CELLS, columns) == (Fraction(1, 4), Fraction(0), Fraction(3, 4))
    assert expectations(REAL, columns) == (Fraction(5, 16),)
    assert expectations(SIGNED, columns) == (Fraction(0), Fraction(1, 4))
    assert expectations(VECTOR, columns) == (Fraction(5, 16), Fraction(3, 4), Fraction(1, 2))


def test_weights_are_a_distribution() -> None:
    columns = encode_columns(SCHEMA, ROWS)
    assert expectations(PREDICATE, columns, [1, 0, 0, 2]) == (Fraction(2, 3),)
    assert expectations(SIGNED, columns, [1, 3, 0, 0]) == (Fraction(-1, 2), Fraction(0))
    huge = 10**17
    assert expectations(REAL, columns, [huge, 0, huge, 0]) == (Fraction(5, 4),)
    assert expectations(VECTOR, columns, [huge, 0, huge, 0])[:2] == (Fraction(5, 4), Fraction(0))


def test_a_row_without_a_value_counts_with_the_public_default() -> None:
    columns = encode_columns(SCHEMA, {**ROWS, "n": [None, 3, None, None]})
    assert expectations(PREDICATE, columns) == (Fraction(1, 4),)
    means = expectations(VECTOR, columns)  # of n - 1 and n >= 2: 1/2 is in the middle
    assert means == (
        Fraction(5, 16),
        Fraction(3, 8) + Fraction(1, 2),
        Fraction(1, 4) + Fraction(3, 8),
    )


@pytest.mark.parametrize("weights", [[1, 2, 3], [-1, 1, 1, 1], [0, 0, 0, 0], [1 << 61] * 4])
def test_weights_that_are_none_are_refused(weights: list[int]) -> None:
    with pytest.raises(InvalidParameter):
        expectations(PREDICATE, encode_columns(SCHEMA, ROWS), weights)


def test_an_answer_is_one_point_and_raw_columns_do() -> None:
    oracle = ExactOracle(SCHEMA, ROWS)
    answer, cells = oracle.answer(Batch([REAL, CELLS]))
    assert answer.values == answer.lows == answer.highs == (0.3125,)
    assert cells.values == (0.25, 0.0, 0.75)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 1000)), min_size=1, max_size=30))
def test_weights_are_the_same_as_repeated_rows(rows: list[tuple[int, int]]) -> None:
    schema = Schema("s", 1, n=Integer(0, 9))
    question = Question(real(where(schema["n"] > 4, schema["n"] * 3, -schema["n"])))
    values, weights = zip(*rows, strict=True)
    weighted = expectations(question, encode_columns(schema, {"n": values}), weights)
    repeated = encode_columns(schema, {"n": np.repeat(values, weights)})
    assert weighted == expectations(question, repeated)
