"""Random rounding onto levels: exact thresholds, and the same for ints and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, round_to_levels
from askance_client.randomizers.rounding import sign_pattern
from askance_simulation.families.rounding import round_by_division


@st.composite
def ranges(draw: st.DrawFn) -> tuple[int, int, int, int]:
    low = draw(st.integers(-(2**61), 2**61))
    span = draw(st.integers(1, 2**31 - 1) | st.integers(1, 9))
    levels = draw(st.integers(2, 65536) | st.integers(2, 5))
    value = low + draw(st.integers(0, span))
    return value, low, low + span, levels


@given(ranges())
def test_it_goes_up_for_exactly_the_fraction_of_the_coins(case: tuple[int, int, int, int]) -> None:
    """floor(fraction 2^64) coins go up, so the expected position is exact to 2^-64."""
    value, low, high, levels = case
    below, rest = divmod((value - low) * (levels - 1), high - low)
    threshold = rest * COIN_SPACE // (high - low)
    assert round_to_levels(*case, threshold) == below
    assert round_to_levels(*case, COIN_SPACE - 1) == below
    if threshold:
        assert round_to_levels(*case, threshold - 1) == below + 1
        assert round_to_levels(*case, 0) == below + 1


@given(ranges(), st.integers(0, COIN_SPACE - 1))
def test_a_level_is_a_level(case: tuple[int, int, int, int], coin: int) -> None:
    level = round_to_levels(*case, coin)
    assert type(level) is int
    assert 0 <= level < case[3]


@given(ranges(), st.lists(st.integers(0, COIN_SPACE - 1), min_size=1, max_size=20))
def test_columns_round_as_records_do(case: tuple[int, int, int, int], coins: list[int]) -> None:
    value, low, high, levels = case
    threshold = (value - low) * (levels - 1) % (high - low) * COIN_SPACE // (high - low)
    coins = [*coins, threshold, max(threshold - 1, 0)]
    values = [low + (value - low) // (i + 1) for i in range(len(coins) - 2)] + [value, value]
    column = round_by_division(
        np.array(values, dtype=np.int64), low, high, levels, np.array(coins, dtype=np.uint64)
    )
    assert column.dtype == np.int64
    each = [round_to_levels(v, low, high, levels, c) for v, c in zip(values, coins, strict=True)]
    assert column.tolist() == each


@pytest.mark.parametrize("coin", [0, COIN_SPACE - 1])
def test_points_stay_where_they_are(coin: int) -> None:
    assert [round_to_levels(v, -4, 4, 5, coin) for v in (-4, -2, 0, 2, 4)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "case",
    [
        *[(0, 0, 0, 2, 0), (0, 1, 0, 2, 0), (0, 0, 2**31, 2, 0), (0, 0, 4, 1, 0)],
        *[(0, 0, 4, 65537, 0), (-1, 0, 4, 2, 0), (5, 0, 4, 2, 0), (0, 0, 4, 2, -1)],
        *[(0, 0, 4, 2, 2**64), (0.5, 0, 4, 2, 0)],
    ],
)
def test_arguments_out_of_range_are_refused(case: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(InvalidParameter):
        round_to_levels(*case)


def test_a_message_does_not_tell_the_value() -> None:
    with pytest.raises(InvalidParameter) as caught:
        round_to_levels(987654321, 0, 4, 2, 0)
    assert "987654321" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "coin"),
    [
        (np.zeros(2, dtype=np.int32), np.zeros(2, dtype=np.uint64)),
        (np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)),
        (np.zeros(2, dtype=np.int64), np.zeros(3, dtype=np.uint64)),
        (np.zeros(2, dtype=np.int64), 0),
        (np.full(2, 5, dtype=np.int64), np.zeros(2, dtype=np.uint64)),
    ],
)
def test_columns_of_another_form_are_refused(value: Any, coin: Any) -> None:
    with pytest.raises(InvalidParameter):
        round_by_division(value, 0, 4, 2, coin)


def test_a_sign_pattern_is_every_component_rounded_to_an_end() -> None:
    coins = [0, COIN_SPACE // 2, COIN_SPACE - 1, 1, 7, 0, 0, 0, COIN_SPACE // 4]
    values = [-4, 0, 4, 4, -4, 3, -3, 0, -2]
    signs = [round_to_levels(v, -4, 4, 2, coin) for v, coin in zip(values, coins, strict=True)]
    assert signs == [0, 0, 1, 1, 0, 1, 1, 1, 0]
    assert sign_pattern(values, -4, 4, coins) == 0b001101110
    assert sign_pattern([4], -4, 4, [9]) == 1


@pytest.mark.parametrize(
    ("values", "coins"),
    [([], []), ([1], [1, 2]), ([5], [0]), ([-5], [0]), ([1], [COIN_SPACE]), ([1], [-1])],
)
def test_a_sign_pattern_of_something_else_is_refused(values: list[int], coins: list[int]) -> None:
    with pytest.raises(InvalidParameter):
        sign_pattern(values, -4, 4, coins)
