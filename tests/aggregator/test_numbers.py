"""Numbers as callers write them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.numbers import plain, read_epsilon, read_probability
from askance_client.errors import InvalidParameter


@pytest.mark.parametrize("written", [0.1, "0.1", np.float64(0.1), Fraction(1, 10)])
def test_a_tenth_is_a_tenth_however_it_is_written(written: Any) -> None:
    assert read_epsilon(written) == read_probability(written, "delta") == Fraction(1, 10)


@pytest.mark.parametrize("written", [0, -1, float("nan"), float("inf"), "x", True, None, "1e-12"])
def test_what_is_no_epsilon_is_refused(written: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        read_epsilon(written)


@pytest.mark.parametrize("written", [0, 1, -0.5, float("nan"), "x", True])
def test_what_is_no_delta_is_refused(written: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        read_probability(written, "delta")


WHOLE = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
WIDTHS: dict[Any, int] = {np.float16: 3, np.float32: 6, np.float64: 15, np.longdouble: 15}
"""Types of floats, with the digits that any decimal keeps in them."""


@given(st.sampled_from(WHOLE), st.integers(0, 127))
def test_a_whole_number_of_any_type_is_pythons(kind: Any, number: int) -> None:
    assert type(plain(kind(number))) is int
    assert plain([kind(number), "x"]) == [number, "x"]
    assert plain(np.array([number], kind)) == [number]


@given(st.sampled_from(tuple(WIDTHS)), st.data())
def test_a_float_of_any_type_is_the_decimal_that_was_written(kind: Any, data: Any) -> None:
    digits = WIDTHS[kind]
    written = Decimal(data.draw(st.integers(1, 10**digits - 1))) / 10**digits
    if written < Decimal("0.0001"):  # below the least normal number of sixteen bits
        written += Decimal("0.001")
    assert read_probability(kind(str(written)), "beta") == Fraction(written)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array(3), 3),
        ((np.int8(1), [np.float32(0.1)]), (1, [0.1])),
    ],
)
def test_other_scalars_and_what_holds_them_are_pythons(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


@pytest.mark.parametrize("value", [np.timedelta64(1, "ns"), np.complex64(1), np.zeros((2, 2))])
def test_what_is_no_number_is_no_epsilon(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon: expected a number of nats"):
        read_epsilon(value)
