"""A bisection finds where a condition turns true, to the width that was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.bisection import halved, least_whole


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(1, 1000))
def test_the_least_whole_number_is_found(low: int, before: int, after: int) -> None:
    turns = low + before
    assert least_whole(lambda n: n >= turns, low, turns + after) == turns


def test_the_ends_are_not_asked() -> None:
    asked: list[int] = []

    def enough(number: int) -> bool:
        asked.append(number)
        return number >= 3

    assert least_whole(enough, 0, 8) == 3
    assert asked == [4, 2, 3]


@pytest.mark.parametrize(
    ("apart", "part", "found"),
    [(1, 0, 601), (300, 0, 750), (1, 10, 625), (10_000, 0, 1000)],
)
def test_a_width_ends_the_search(apart: int, part: int, found: int) -> None:
    """From 0 .. 1000: 500-1000, 500-750, 500-625 or 625-750, and so on."""
    assert least_whole(lambda n: n >= 601, 0, 1000, apart, part) == found


def test_a_stretch_is_halved_so_often() -> None:
    assert halved(lambda x: x >= 0.3, 0.0, 1.0, 3) == (0.25, 0.375)
    assert halved(lambda x: x >= 0.3, 0.0, 1.0, 0) == (0.0, 1.0)


def test_a_stretch_may_fall() -> None:
    assert halved(lambda x: x <= 0.3, 1.0, 0.0, 2) == (0.5, 0.25)


def test_a_stretch_that_is_a_part_of_its_end_is_halved_no_more() -> None:
    """From 0 .. 1: 1/4 .. 3/8 after three steps, whose width is a third of its end."""
    assert halved(lambda x: x >= 0.3, 0.0, 1.0, 9, 1 / 3) == (0.25, 0.375)
    assert halved(lambda x: x >= 0.3, 0.0, 1.0, 2, 1 / 3) == (0.25, 0.5)
