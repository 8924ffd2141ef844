"""Patterns of signs come in the order of the sums of the values that they turn."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.learners import OneStandsOut, SignsListed
from askance_aggregator.learners.masked_parity import likely_patterns
from askance_client.errors import InvalidParameter

VALUES = st.lists(st.floats(-8, 8, allow_subnormal=True), min_size=1, max_size=7)


def turned(values: list[float], bits: tuple[int, ...]) -> Fraction:
    """Return the sum of |value| over the values whose sign the pattern turns."""
    pairs = zip(values, bits, strict=True)
    return sum((Fraction(abs(value)) for value, bit in pairs if bit != int(value < 0)), Fraction())


@given(values=VALUES, length=st.integers(1, 140))
def test_the_list_has_the_least_sums_of_all_patterns_in_order(
    values: list[float], length: int
) -> None:
    found = likely_patterns(values, length)
    everything = sorted(turned(values, bits) for bits in product((0, 1), repeat=len(values)))
    assert [turned(values, bits) for bits in found] == everything[:length]
    assert len(set(found)) == len(found) == min(length, 1 << len(values))


def test_the_first_pattern_is_that_of_the_signs() -> None:
    assert likely_patterns((0.5, -0.1, 0.0, -2.0), 1) == [(0, 1, 0, 1)]


def test_ties_go_by_position() -> None:
    """Exact answers have one magnitude: the list is the same on every machine."""
    assert likely_patterns((0.25, -0.25, 0.25), 5) == [
        (0, 1, 0),
        (1, 1, 0),
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, 0),
    ]


def test_a_list_of_a_thousand_values_is_made_without_all_patterns() -> None:
    values = [(-1) ** place * (place + 1) / 1024 for place in range(1024)]
    found = likely_patterns(values, 512)
    sums = [turned(values, bits) for bits in found]
    assert len(set(found)) == 512
    assert sums == sorted(sums)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SignsListed(0, 4), "expected 1 value or more, got 0"),
        (lambda: SignsListed(4, 0), "expected a list of 1 or more, got 0"),
        (lambda: OneStandsOut(0), "expected 1 value or more, got 0"),
    ],
)
def test_a_decision_is_about_something(make: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()  # type: ignore[operator]  # a function
