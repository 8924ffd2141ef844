"""Putting answers on a grid is exact, and the sensitivity on it is not understated."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms import fine_step
from askance_papers.curator.mechanisms.grid import (
    l1_in_steps,
    l2_squared_in_steps,
    lies_on,
    steps,
)

FLOATS = st.floats(-1e6, 1e6, allow_nan=False)
POWERS = st.integers(-30, 3).map(lambda power: Fraction(2) ** power)


def nearest(value: float, step: Fraction) -> int:
    """Compute floor(value / step + 1/2), by the definition."""
    found = Fraction(value) / step + Fraction(1, 2)
    return found.numerator // found.denominator


class TestRounding:
    @given(st.lists(FLOATS, min_size=1), POWERS)
    def test_floats_on_a_power_of_two_are_rounded_exactly(
        self, values: list[float], step: Fraction
    ) -> None:
        expected = [nearest(value, step) for value in values]
        assert steps(np.array(values), step).tolist() == expected

    @given(st.lists(FLOATS, min_size=1), st.fractions(Fraction(1, 1000), 3))
    def test_so_are_floats_on_any_other_grid(self, values: list[float], step: Fraction) -> None:
        expected = [nearest(value, step) for value in values]
        assert steps(np.array(values), step).tolist() == expected

    @pytest.mark.parametrize("below", [0.5, -0.5, 1.5, -1.5, 2.0**52 + 0.5])
    def test_halves_go_up_and_what_is_just_below_goes_down(self, below: float) -> None:
        one = Fraction(1)
        just = np.nextafter(below, -np.inf)
        assert steps(np.array([below, just]), one).tolist() == [
            nearest(below, one),
            nearest(float(just), one),
        ]

    @pytest.mark.parametrize("value", [1e-320, -1e-320, -0.0])
    def test_what_is_tiny_is_nothing(self, value: float) -> None:
        assert steps(np.array([value]), Fraction(2) ** 40).tolist() == [0]

    def test_integers_and_fractions_are_exact(self) -> None:
        assert steps(np.array([3, -4]), Fraction(1, 3)).tolist() == [9, -12]
        assert steps(np.array([True, False]), Fraction(1, 2)).tolist() == [2, 0]
        assert steps(np.array([Fraction(5, 6)]), Fraction(1, 3)).tolist() == [3]

    def test_whether_an_answer_lies_on_the_grid(self) -> None:
        assert lies_on(np.array([0.25, -3]), Fraction(1, 4))
        assert not lies_on(np.array([0.25, 0.1]), Fraction(1, 4))
        assert not lies_on(np.array([0.1]), Fraction(1, 10)), "the float is no tenth"

    @pytest.mark.parametrize(
        "bad",
        [[np.nan], [np.inf], [1e30], [2**62], ["1"], [None], [1j], np.array([1, None])],
    )
    @pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 3)])
    def test_what_is_no_answer_is_refused(self, bad: Any, step: Fraction) -> None:
        with pytest.raises(InvalidRecord, match=r"^answers: expected"):
            steps(bad, step)


class TestSensitivity:
    @given(st.integers(1, 60), st.integers(1, 3), st.lists(st.integers(-40, 40), min_size=3))
    def test_rounded_neighbours_are_no_further_apart_than_stated(
        self, sensitivity: int, rounded: int, start: list[int]
    ) -> None:
        """All neighbours on a grid ten times finer, each of `rounded` entries moved up or down."""
        fine = Fraction(1, 10)
        u = [Fraction(k) * fine for k in start[:rounded]]
        stated_l1 = l1_in_steps(sensitivity * fine, Fraction(1), len(u))
        stated_l2 = l2_squared_in_steps((sensitivity * fine) ** 2, Fraction(1), len(u))
        for signs in product((-1, 1), repeat=len(u)):
            share = sensitivity // len(u)
            moves = [share] * (len(u) - 1) + [sensitivity - share * (len(u) - 1)]
            v = [a + s * m * fine for a, s, m in zip(u, signs, moves, strict=True)]
            moved = steps(np.array(u), Fraction(1)) - steps(np.array(v), Fraction(1))
            assert np.abs(moved).sum() <= stated_l1
            assert (moved**2).sum() <= stated_l2

    def test_one_entry_pays_less_than_a_step_for_its_rounding(self) -> None:
        assert l1_in_steps(Fraction(7, 2), Fraction(1), 1) == 4
        assert l1_in_steps(Fraction(3), Fraction(1), 1) == 3
        assert steps(np.array([0.4]), Fraction(1)) - steps(np.array([3.9]), Fraction(1)) == -4

    def test_on_the_grid_nothing_is_paid(self) -> None:
        assert l1_in_steps(Fraction(7, 2), Fraction(1), 0) == 3
        assert l2_squared_in_steps(Fraction(2), Fraction(1), 0) == 2
        assert l2_squared_in_steps(Fraction(2), Fraction(1, 8), 0) == 128

    @pytest.mark.parametrize("rounded", [-1, True, 1.0])
    def test_how_many_are_rounded_is_a_whole_number(self, rounded: Any) -> None:
        with pytest.raises(InvalidParameter, match="rounded"):
            l1_in_steps(Fraction(1), Fraction(1), rounded)

    @pytest.mark.parametrize("sensitivity", [Fraction(0), Fraction(-1), Fraction(1, 2)])
    def test_a_sensitivity_below_a_step_is_refused(self, sensitivity: Fraction) -> None:
        for measure in (l1_in_steps, l2_squared_in_steps):
            with pytest.raises(InvalidParameter, match="sensitivity"):
                measure(sensitivity, Fraction(1), 0)

    @given(st.fractions(Fraction(1, 10**6), 10**6))
    def test_a_fine_step_is_the_largest_power_of_two(self, sensitivity: Fraction) -> None:
        step = fine_step(sensitivity, 100)
        assert 100 * step <= sensitivity < 200 * step
        assert step.numerator.bit_count() == step.denominator.bit_count() == 1
