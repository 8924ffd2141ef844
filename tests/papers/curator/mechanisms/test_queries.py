"""Sums, averages, counts and histograms of columns with stated bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.composition import Concentrated, Pure
from askance_client.errors import AskanceError, InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms import (
    CuratorQuery,
    Gaussian,
    Laplace,
    clipped,
    gaussian_at,
    histogram,
    laplace_at,
    means,
    predicate,
    sums,
)
from askance_simulation.randomness import Seed, SeededWords

Column = NDArray[np.float64]
ALPHA = 1e-6


class Untouched:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"expected nothing to be drawn, found {count} words asked for")


def itself(records: Column) -> Column:
    return records


def over_25(records: Column) -> NDArray[np.bool_]:
    return np.asarray(records > 25)


def words(name: str) -> SeededWords:
    return SeededWords(Seed.of(1) / name)


AGE = CuratorQuery("age", itself, 0, 100)


class TestSensitivity:
    @pytest.mark.parametrize("step", [Fraction(1, 4), Fraction(1, 3), Fraction(2)])
    def test_no_neighbour_moves_a_sum_further_than_the_span_and_one_moves_it_so_far(
        self, step: Fraction
    ) -> None:
        """All data sets of 2 records over 13 values, and all their neighbours."""
        query = CuratorQuery("x", itself, "-1.5", "1.5")
        values = np.linspace(-1.5, 1.5, 13)
        totals = {pair: query.total(np.array(pair), step)[0] for pair in product(values, repeat=2)}
        moves = {abs(totals[(a, b)] - totals[(c, b)]) for a, b, c in product(values, repeat=3)}
        assert max(moves) == query.span(step)

    def test_the_draw_is_calibrated_to_the_span(self) -> None:
        (one,) = sums([AGE], np.array([30.0, 40.0]), laplace_at(2), words("a"), step="1/8")
        assert one.mechanism == Laplace(Fraction(2), 800)
        (other,) = sums([AGE], np.array([30.0, 40.0]), gaussian_at("0.1"), words("a"))
        assert other.mechanism == Gaussian(Fraction(1, 10), 100**2)

    def test_a_histogram_moves_by_two(self) -> None:
        found = histogram(np.array([0, 2, 2]), 4, laplace_at(1), words("h"))
        assert found.mechanism == Laplace(Fraction(1), 2)
        other = histogram(np.array([0, 2, 2]), 4, gaussian_at(1), words("h"))
        assert other.mechanism == Gaussian(Fraction(1), 2)


class TestAnswers:
    def test_with_a_huge_budget_they_are_the_truth(self) -> None:
        ages = np.array([20.0, 30.5, 99.75])
        huge = laplace_at(10**6)
        assert sums([AGE], ages, huge, words("s"), step="1/4")[0].values.tolist() == [150.25]
        assert means([AGE], ages, huge, words("m"), step="1/4")[0].values == pytest.approx(
            150.25 / 3
        )
        adults = predicate("over 25", over_25)
        assert sums([adults], ages, huge, words("c"))[0].values.tolist() == [2]
        cells = histogram(np.array([0, 2, 2]), 4, huge, words("h"))
        assert cells.values.tolist() == [1, 0, 2, 0]

    def test_a_sum_is_exact_where_floats_would_not_be(self) -> None:
        """2^33 and 60 times 2^-20: floats that are added from left to right lose them all."""
        values = np.array([2.0**33, *[2.0**-20] * 60])
        assert float(np.add.accumulate(values)[-1]) == 2**33
        query = CuratorQuery("wide", itself, 0, 2**33)
        assert query.total(values, Fraction(1, 1 << 20))[0] == 2**53 + 60

    def test_intervals_of_means_hold_with_the_rounding_of_their_rows(self) -> None:
        values = np.full(100, 0.49)
        query = CuratorQuery("x", itself, 0, 1)
        (found,) = means([query], values, laplace_at(10**6), words("r"), step=1)
        lows, highs = found.intervals("0.95")
        assert found.values[0] == 0
        assert lows[0] <= 0.49 <= highs[0]

    def test_means_are_within_their_intervals_as_often_as_they_say(self) -> None:
        values = np.linspace(0, 100, 50)
        found = means([AGE] * 1000, values, laplace_at(1), words("often"), step="1/16")
        misses = sum(
            not low[0] <= 50 <= high[0] for low, high in (one.intervals("0.9") for one in found)
        )
        assert stats.binomtest(misses, 1000, 0.1).pvalue > ALPHA

    def test_every_query_is_an_event(self) -> None:
        found = sums([AGE, AGE, AGE], np.array([1.0]), laplace_at("0.5"), words("e"))
        assert [one.event for one in found] == [Pure(Fraction(1, 2))] * 3
        found = sums([AGE], np.array([1.0]), gaussian_at("0.5"), words("e"))
        assert [one.event for one in found] == [Concentrated(Fraction(1, 2))]


class TestClipping:
    def test_values_outside_are_moved_to_the_bounds(self) -> None:
        query = CuratorQuery("age", clipped(itself, 0, 100), 0, 100)
        assert query.total(np.array([-5.0, 50.0, 1e300]), Fraction(1)) == (150, 3, Fraction(1, 2))

    def test_what_is_no_number_stays_none(self) -> None:
        query = CuratorQuery("age", clipped(itself, 0, 100), 0, 100)
        with pytest.raises(InvalidRecord, match="query 'age'"):
            query.total(np.array([np.nan]), Fraction(1))

    def test_bounds_are_in_order(self) -> None:
        with pytest.raises(InvalidParameter, match="clipping"):
            clipped(itself, 1, 1)


def fails(of: Callable[[Column], Any], values: Sequence[float]) -> None:
    """Check that a wrong last query is refused before any earlier one is released."""
    with pytest.raises(InvalidRecord, match=r"query 'wrong': expected") as caught:
        sums([AGE, CuratorQuery("wrong", of, 0, 100)], np.array(values), laplace_at(1), Untouched())
    assert "77777" not in str(caught.value)


class TestRefusals:
    @pytest.mark.parametrize("value", [100.5, -1.0, 77777.0, np.nan, np.inf])
    def test_a_value_outside_what_is_stated_names_the_query_and_nothing_is_drawn(
        self, value: float
    ) -> None:
        fails(lambda records: records * 0 + value, [50.0, 50.0])

    def test_the_first_row_is_named_and_how_many(self) -> None:
        with pytest.raises(InvalidRecord, match=r"another in 2 of 4 rows, row 1 the first"):
            sums([AGE], np.array([1.0, 200, 3, -1]), laplace_at(1), Untouched())

    def test_a_function_gives_a_number_a_record(self) -> None:
        fails(lambda records: np.array([["a"]]), [1.0])
        fails(lambda records: records[:0], [1.0])
        fails(lambda records: np.zeros((1, 1)), [1.0])

    def test_a_histogram_has_a_cell_for_every_record(self) -> None:
        for codes, cells in (([0, 4], 4), ([-1], 4), ([], 4), ([0.5], 4), ([0], 1)):
            with pytest.raises(AskanceError, match=r"codes|cells"):
                histogram(np.array(codes), cells, laplace_at(1), Untouched())

    @pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, 2**53), (0, "x")])
    def test_bounds_are_bounds(self, low: Any, high: Any) -> None:
        with pytest.raises(InvalidParameter, match="query 'x'"):
            CuratorQuery("x", itself, low, high)

    def test_no_query_is_none(self) -> None:
        with pytest.raises(InvalidParameter, match="queries"):
            sums([], np.array([1.0]), laplace_at(1), Untouched())

    def test_a_grid_that_is_too_coarse_or_too_fine_is_refused(self) -> None:
        for step in (201, Fraction(1, 2**60)):
            with pytest.raises(InvalidParameter, match="step"):
                sums([AGE], np.array([1.0]), laplace_at(1), Untouched(), step=step)
