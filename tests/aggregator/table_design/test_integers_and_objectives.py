"""Floats become integers that keep every ratio; priors are read from numbers."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from askance_aggregator.families import TableFamily, randomized_response
from askance_aggregator.table_design import Conditional, Prior, integer_table, prior_at, prior_of
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE

NANO = 1_500_000_000


def fractions(*numbers: Fraction | int) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, numbers))


@st.composite
def tables(draw: st.DrawFn) -> NDArray[np.float64]:
    """Return rows that sum to 1, with ratios of at most e^1.5, between two given rows."""
    symbols = draw(st.integers(1, 6))
    ratio = exp(NANO / 1e9)
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=symbols, max_size=symbols)))
    # Pairs of symbols, one of them high at the one end where the other is at the other end.
    one = np.concatenate([weights * ratio, weights])
    two = np.concatenate([weights, weights * ratio])
    levels = draw(st.integers(2, 6))
    mixed = [one + (two - one) * level / (levels - 1) for level in range(levels)]
    return np.asarray(np.array(mixed) / one.sum())


@settings(max_examples=40)
@given(tables())
def test_integers_are_near_and_never_dearer(
    table: NDArray[np.float64],
) -> None:
    values = list(range(table.shape[1]))
    channel = integer_table(table, [float(value) for value in values], NANO)
    assert channel.loss.nano_nats == NANO
    near = np.array([[entry / COIN_SPACE for entry in row] for row in channel.table])
    assert np.abs(near - table).max() < 1e-12


def test_the_optimal_bit_comes_out_as_randomized_response() -> None:
    ratio = exp(NANO / 1e9)
    bit = np.array([[ratio, 1.0], [1.0, ratio]]) / (1 + ratio)
    channel = integer_table(bit, [1.0, -1.0], NANO)
    exact = randomized_response(NANO).table
    assert all(
        abs(a - b) < 2**13
        for one, two in zip(channel.table, exact, strict=True)
        for a, b in zip(one, two, strict=True)
    )


def test_floats_past_the_ratio_are_cut_to_it() -> None:
    table = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    channel = integer_table(table, [-1.0, 1.0, 0.0], NANO)
    assert channel.loss.fits(NANO)


def test_rows_that_no_such_table_has_are_refused() -> None:
    # Within e^1.5 of their least entries, rows of these symbols cannot sum to 1.
    with pytest.raises(InvalidParameter, match="row 0 is no distribution"):
        integer_table(np.array([[0.99, 0.01], [0.01, 0.99]]), [-1.0, 1.0], NANO)


def test_a_prior_averages_second_moments_as_random_rounding_does() -> None:
    quarter = Fraction(1, 4)
    assert prior_of([-1.0, 0.5, 1.0, 0.0], 5) == fractions(quarter, 0, quarter, quarter, quarter)
    assert prior_of([0.25], 5) == fractions(0, 0, Fraction(1, 2), Fraction(1, 2), 0)
    weights = prior_of(np.random.default_rng(3).uniform(-1, 1, 1000), 33)
    assert float(sum(weights, Fraction())) == pytest.approx(1, abs=1e-8)


def test_a_prior_sums_to_one_whatever_its_units() -> None:
    assert Prior(fractions(1, 2, 1)) == Prior(fractions(2, 4, 2))
    assert sum(Prior(fractions(3, 1, 7)).weights, Fraction()) == 1


@pytest.mark.parametrize("weights", [(), (0, 0), (1, -1, 1)])
def test_weights_that_are_no_prior_are_refused(weights: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameter, match="weights of 0 or more"):
        Prior(fractions(*weights))


def test_too_little_slack_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="slack expects 1/1000 or more, found 0"):
        Prior(fractions(1, 1), Fraction(0))


@pytest.mark.parametrize(
    ("numbers", "levels"), [([], 5), ([0.0, 1.5], 5), ([float("nan")], 5), ([0.0], 1)]
)
def test_numbers_that_make_no_prior_are_refused(numbers: list[float], levels: int) -> None:
    with pytest.raises(InvalidParameter, match=r"numbers in \[-1, 1\]"):
        prior_of(numbers, levels)


def test_the_worst_between_levels_is_counted() -> None:
    """Randomized response as a table of two levels: C^2 - x^2 is worst at 0, between them."""
    channel = randomized_response(NANO)
    values = TableFamily(channel).covering((-1, 1))
    assert Conditional().figure(channel, values) == values[0] ** 2
    assert TableFamily(channel).conditional_variance(0, values) == values[0] ** 2 - 1


def test_a_prior_at_points_is_that_of_as_many_numbers() -> None:
    points = [(Fraction(-1), Fraction(2)), (Fraction(1, 3), Fraction(1)), (Fraction(1), Fraction())]
    weights = prior_at(points, 5)
    assert sum(weights) == 3
    assert weights[3] == Fraction(2, 3)  # 1/3 is two thirds of the way from 0 to 1/2
    numbers = [-1.0, -1.0, 1 / 3]
    assert [float(w / 3) for w in weights] == pytest.approx(
        [float(w) for w in prior_of(numbers, 5)], abs=1e-9
    )


@pytest.mark.parametrize(("point", "levels"), [(Fraction(3, 2), 5), (Fraction(0), 1)])
def test_a_prior_outside_the_range_is_refused(point: Fraction, levels: int) -> None:
    with pytest.raises(InvalidParameter, match=r"points of \[-1, 1\], on 2 levels"):
        prior_at([(point, Fraction(1))], levels)
