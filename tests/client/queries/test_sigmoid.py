"""The sigmoid's table: golden, and right to the last bit by an independent computation."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.queries import encode_columns, evaluate_columns, sigmoid
from askance_client.queries import Integer, Query, QueryKind, Real, Schema, sigmoid_table
from askance_client.queries.sigmoid import SIGMOID_FRAC, sigmoid_index

GOLDEN = "670ebcf6c540ad7e1303f2170433b49d954f7c30fe189e5c795c2759b68f897f"


def exact(t: Fraction) -> Fraction:
    """1 / (1 + e^-t) to 60 digits, by Decimal's own exponential."""
    with localcontext() as context:
        context.prec = 60
        return Fraction(1 / (1 + (-Decimal(t.numerator) / t.denominator).exp()))


def test_the_table_is_frozen() -> None:
    packed = np.array(sigmoid_table(), dtype=">i8").tobytes()
    assert sha256(packed).hexdigest() == GOLDEN


def test_every_entry_is_the_nearest_integer() -> None:
    table = sigmoid_table()
    assert len(table) == 4097
    closest = Fraction(1)
    for index, entry in enumerate(table):
        scaled = exact(Fraction(index - 2048, 256)) * (1 << SIGMOID_FRAC)
        assert abs(scaled - entry) < Fraction(1, 2)
        if index != 2048:
            closest = min(closest, Fraction(1, 2) - abs(scaled - entry))
    assert closest > Fraction(1, 10**8)  # no entry hangs on the last digits of either computation


def test_the_table_increases_and_is_symmetric() -> None:
    table = sigmoid_table()
    assert all(a <= b for a, b in pairwise(table))
    assert all(a + b == 1 << SIGMOID_FRAC for a, b in zip(table, table[::-1], strict=True))


GRIDS = {frac: Schema("s", 1, x=Real(-20, 20, frac)) for frac in (0, 3, 8, 9, 16, 40)}


@settings(deadline=None)  # a busy machine is no failure
@given(st.sampled_from(sorted(GRIDS)), st.fractions(-20, 20))
def test_the_answer_is_near_the_function_on_every_grid(frac: int, x: Fraction) -> None:
    schema = GRIDS[frac]
    expression = sigmoid(schema.x)
    query = Query(QueryKind.REAL, expression, expression.low, expression.high, 0x8000)
    record = schema.encode({"x": x})
    grid = record.values["x"]
    assert isinstance(grid, int)
    value = Fraction(query.evaluate(record), 1 << SIGMOID_FRAC)
    point = Fraction(grid, 1 << frac)
    assert abs(value - exact(point)) <= Fraction(1, 1 << 10) + Fraction(1, 1 << 17)
    nearest_lower = Fraction(min(max(point, Fraction(-8)), Fraction(8)) * 256 // 1, 256)
    assert abs(value - exact(nearest_lower)) <= Fraction(1, 1 << 17)


@pytest.mark.parametrize("frac", range(41))
def test_an_index_is_that_of_the_next_lower_multiple_of_1_256_on_every_grid(frac: int) -> None:
    corners = [k << frac for k in (-9, -8, -7, -1, 0, 1, 7, 8, 9)]
    steps = [(k << frac) >> 8 for k in (-2047, -2, -1, 1, 2, 2047)]
    for corner in corners + steps:
        for value in (corner - 1, corner, corner + 1):
            x = min(max(Fraction(value, 1 << frac), Fraction(-8)), Fraction(8))
            assert sigmoid_index(value, frac) == floor(256 * x) + 2048


def test_a_huge_argument_on_a_coarse_grid_does_not_overflow() -> None:
    schema = Schema("s", 1, x=Integer(-(1 << 62) + 1, (1 << 62) - 1))
    expression = sigmoid(schema.x)
    query = Query(QueryKind.REAL, expression, 22, 65514, 22)
    columns = encode_columns(schema, {"x": [-(1 << 62) + 1, -8, 0, 8, (1 << 62) - 1]})
    assert evaluate_columns(query, columns).tolist() == [22, 22, 32768, 65514, 65514]
