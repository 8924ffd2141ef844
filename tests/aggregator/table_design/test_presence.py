"""Tables with a level for "missing": exact by enumeration of the integers."""

from __future__ import annotations

from fractions import Fraction
from math import tanh

import pytest

from askance_aggregator.families import TableFamily
from askance_aggregator.table_design import (
    PresenceTable,
    PresentPopulation,
    PresentPrior,
    PresentSample,
    design_presence,
    prior_of,
)
from askance_client.accounting import ratio_within
from askance_client.errors import InvalidParameter

NAT = 10**9
EPSILONS = (NAT // 10, NAT, 27 * NAT // 10, 9 * NAT)
TINY = (1, NAT // 10**6, NAT // 10**4, NAT // 1000 - 1)  # the solver fails at most of these


def duchi(nano: int) -> float:
    return 1 / tanh(nano / NAT / 2) ** 2


def worst(table: PresenceTable) -> float:
    """N x the variance for the worst population of the two ends, none missing."""
    found = []
    for place in range(41):
        mean = Fraction(place, 20) - 1
        low, high, _ = table.figure(mean)
        found.append(float(((1 - mean) * low + (1 + mean) * high) / 2))
    return max(found)


@pytest.mark.parametrize("nano", [*TINY, *EPSILONS])
def test_a_missing_value_is_told_from_a_number_by_no_more_than_epsilon(nano: int) -> None:
    table = design_presence(nano, PresentPopulation()).channel.table
    for column in zip(*table, strict=True):
        assert ratio_within(max(column), min(column), nano)
    assert {sum(row) for row in table} == {1 << 64}


@pytest.mark.parametrize("nano", [*TINY, *EPSILONS])
def test_both_scores_are_unbiased_exactly(nano: int) -> None:
    table = design_presence(nano, PresentPopulation())
    family = TableFamily(table.channel)
    assert list(family.moved_grid(table.numbers)) == [-1, 1, 0]
    assert list(family.moved_grid(table.presences)) == [1, 1, 0]


@pytest.mark.parametrize(
    ("nano", "limit"), list(zip(EPSILONS, (1.84, 1.205, 1.07, 1.001), strict=True))
)
def test_the_cost_of_allowing_for_missing_values_is_as_stated(nano: int, limit: float) -> None:
    """Two-sided: no table is below the one bit that knows that no value is missing."""
    cost = worst(design_presence(nano, PresentPopulation())) / duchi(nano)
    assert 1 - 1e-6 <= cost <= limit


@pytest.mark.parametrize("nano", TINY)
def test_a_tiny_budget_has_a_table_that_costs_what_a_small_one_does(nano: int) -> None:
    small = NAT // 100
    limit = worst(design_presence(small, PresentPopulation())) / duchi(small)
    cost = worst(design_presence(nano, PresentPopulation())) / duchi(nano)
    assert 0.98 * limit <= cost <= 1.02 * limit


def test_a_sample_s_table_is_better_for_users_at_hand_than_the_population_s() -> None:
    nano = 4 * NAT
    table = design_presence(nano, PresentSample())
    grid = TableFamily(table.channel).moved_grid(table.numbers)[:-1]
    assert max(abs(point - Fraction(2 * i, 16) + 1) for i, point in enumerate(grid)) < 1e-6
    conditional = max(float(table.figure(point)[level]) for level, point in enumerate(grid))
    assert 0.1270 < conditional < 0.16  # the bound where no value is missing; one bit: 1.076


def test_a_prior_s_table_is_better_for_its_population() -> None:
    nano = 2 * NAT
    prior = prior_of([k / 20 for k in range(-3, 4)], 17)
    table = design_presence(nano, PresentPrior(prior))
    figures = table.figure(Fraction(0))
    assert sum(float(w * f) for w, f in zip(prior, figures, strict=False)) < 0.8 * duchi(nano)


def test_epsilon_zero_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        design_presence(0, PresentPopulation())
