"""Designed tables: what they attain is computed from their integers, and near what is possible."""

from __future__ import annotations

import csv
from fractions import Fraction
from math import exp
from pathlib import Path

import numpy as np
import pytest

from askance_aggregator.encoding import encode_randomizer
from askance_aggregator.families import TableFamily
from askance_aggregator.table_design import (
    Conditional,
    DesignedTable,
    Minimax,
    Objective,
    Prior,
    design_table,
    prior_of,
)
from askance_client.accounting import parse_epsilon
from askance_client.codec import decode_randomizer
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Channel

ADULT = Path(__file__).parents[4] / "shared" / "data" / "adult.csv"
NEAR_ZERO = Prior(prior_of(np.linspace(-0.2, 0.2, 101), 9))
LOPSIDED = Prior(tuple(map(Fraction, (0, 0, 1, 3, 5, 1, 0, 0, 1))))
EPSILONS = [".25", "4", *(pytest.param(e, marks=pytest.mark.slow) for e in (".5", "1", "2", "3"))]
OBJECTIVES: tuple[Objective, ...] = (Minimax(), Conditional(), NEAR_ZERO, LOPSIDED)


def duchi(epsilon: str) -> float:
    """Compute C^2, the second moment of one randomized bit."""
    ratio = exp(float(epsilon))
    return ((ratio + 1) / (ratio - 1)) ** 2


def design(levels: int, epsilon: str, objective: Objective) -> DesignedTable:
    return design_table(levels, parse_epsilon(epsilon), objective)


def conditional_variance(table: DesignedTable, number: Fraction) -> Fraction:
    """Compute the variance of the decoded report of a number between two levels, rounded at random.

    Straight from the law of levels and symbols, in fractions.
    """
    last = table.channel.levels - 1
    position = (number + 1) * last / 2
    below = min(int(position), last - 1)
    law = {below: 1 + below - position, below + 1: position - below}
    mean = square = Fraction()
    for level, chance in law.items():
        for value, entry in zip(table.values, table.channel.table[level], strict=True):
            mean += chance * value * Fraction(entry, COIN_SPACE)
            square += chance * value**2 * Fraction(entry, COIN_SPACE)
    return square - mean * mean


@pytest.mark.parametrize("epsilon", [".01", pytest.param("1", marks=pytest.mark.slow), "8"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_table_is_a_channel_that_spends_its_budget_and_is_centred(
    epsilon: str, objective: Objective
) -> None:
    table = design(9, epsilon, objective)
    nano = parse_epsilon(epsilon)
    channel = Channel(table.channel.table)  # as a device would read it
    assert channel.loss.fits(nano)
    assert channel.loss.nano_nats == nano  # not a nano-nat is left over
    assert channel.levels == 9
    assert channel.symbols <= 64
    grid = TableFamily(channel).moved_grid(table.values)
    assert [grid[0], grid[-1]] == [-1, 1]
    assert table.bias == max(abs(x - Fraction(i - 4, 4)) for i, x in enumerate(grid))
    assert table.bias < 1e-8
    assert table.lower_bound * (1 - 1e-9) <= table.figure


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_minimax_is_duchis_one_bit(epsilon: str) -> None:
    for levels in (2, 5, 16):
        table = design(levels, epsilon, Minimax())
        assert float(table.figure) == pytest.approx(duchi(epsilon), rel=1e-6)
        assert table.lower_bound == pytest.approx(duchi(epsilon), rel=1.1e-4)
        assert table.channel.symbols == 2
        assert table.worst_second_moment == table.figure


@pytest.mark.parametrize("epsilon", ["1", "3"])
def test_the_conditional_figure_is_the_worst_over_all_numbers(epsilon: str) -> None:
    table = design(7, epsilon, Conditional())
    numbers = [Fraction(i, 96) for i in range(-96, 97)]
    found = max(conditional_variance(table, number) for number in numbers)
    # The worst number is within 1/192 of one of these, and the variance is a parabola there.
    assert found <= table.figure <= found + Fraction(1, 192) ** 2


def check_conditional(epsilon: str, limit: float, half_a_digit: float) -> None:
    """Check that it is within 1 % of the optimum, by its own bound and by a known limit."""
    table = design(33, epsilon, Conditional())
    assert table.lower_bound <= table.figure <= 1.01 * table.lower_bound
    assert table.lower_bound <= limit + half_a_digit
    assert table.lower_bound >= 0.999 * limit
    assert table.figure <= 1.01 * limit
    assert len(encode_randomizer(table.channel).SerializeToString()) < 40_000
    assert decode_randomizer(encode_randomizer(table.channel)) == table.channel


def test_the_conditional_table_at_1_nat_is_near_the_limit() -> None:
    check_conditional("1", 3.991, 0.0005)


@pytest.mark.slow  # half a minute of linear programs
@pytest.mark.parametrize(
    ("epsilon", "limit", "half_a_digit"),
    [
        (".25", 64.007, 0.0005),
        (".5", 16.004, 0.0005),
        ("2", 0.8658, 0.00005),
        ("3", 0.3041, 0.00005),
        ("4", 0.1270, 0.00005),
    ],
)
def test_conditional_tables_are_near_the_limit(
    epsilon: str, limit: float, half_a_digit: float
) -> None:
    check_conditional(epsilon, limit, half_a_digit)


def check_prior(table: DesignedTable, epsilon: str) -> None:
    """Check that it is below C^2 by the dual's gap, and as promised if the prior is wrong."""
    assert isinstance(table.objective, Prior)
    gap = duchi(epsilon) - table.lower_bound
    assert gap > 0.01 * duchi(epsilon)
    assert duchi(epsilon) - float(table.figure) >= 0.99 * gap
    worst = (1 + float(table.objective.slack)) * duchi(epsilon)
    assert float(table.worst_second_moment) <= worst * (1 + 1e-9)


@pytest.mark.parametrize(
    "epsilon", ["1", *(pytest.param(e, marks=pytest.mark.slow) for e in ("2", "4"))]
)
@pytest.mark.parametrize("prior", [NEAR_ZERO, LOPSIDED])
def test_a_prior_is_below_duchi_by_the_duals_gap(epsilon: str, prior: Prior) -> None:
    check_prior(design(9, epsilon, prior), epsilon)


@pytest.mark.slow  # programs of 33 levels without symmetry
@pytest.mark.parametrize(("name", "low", "high"), [("age", 17, 90), ("hours_per_week", 1, 99)])
def test_adults_are_below_duchi_too(name: str, low: int, high: int) -> None:
    if not ADULT.exists():
        pytest.skip("shared/data/adult.csv is not here")
    with ADULT.open(newline="") as file:
        numbers = np.array([float(row[name]) for row in csv.DictReader(file)])
    scaled = 2 * (numbers - low) / (high - low) - 1
    for epsilon in ("1", "2", "4"):
        check_prior(design(33, epsilon, Prior(prior_of(scaled, 33))), epsilon)


@pytest.mark.parametrize("epsilon", [".01", "1", "8"])
def test_the_least_slack_buys_little(epsilon: str) -> None:
    table = design(9, epsilon, Prior(NEAR_ZERO.weights, slack=Fraction(1, 1000)))
    assert float(table.figure) < float(design(9, epsilon, Minimax()).figure)
    assert float(table.worst_second_moment) <= 1.001 * duchi(epsilon) * (1 + 1e-9)


def test_the_law_of_a_level_is_estimated_as_the_level() -> None:
    table = design(9, "2", Conditional())
    grid = TableFamily(table.channel).moved_grid(table.values)
    for level, row in enumerate(table.channel.table):
        assert table.estimate(row) == grid[level]  # of 2^64 reports, row[y] of symbol y


def test_more_slack_is_never_worse() -> None:
    figures = [
        float(design(9, "1", Prior(NEAR_ZERO.weights, Fraction(percent, 100))).figure)
        for percent in (1, 10, 50)
    ]
    assert figures == sorted(figures, reverse=True)
    assert figures[0] > figures[-1] * 1.05


def test_a_design_is_kept() -> None:
    assert design(9, "1", Conditional()) is design(9, "1", Conditional())
    weights = [2 * weight for weight in NEAR_ZERO.weights]
    assert design(9, "1", Prior(tuple(weights))) is design(9, "1", NEAR_ZERO)


@pytest.mark.parametrize(
    ("levels", "nano", "objective", "reason"),
    [
        (1, 10**9, Minimax(), "expected 2..720 levels.*, got 1"),
        (721, 8 * 10**9, Conditional(), "expected 2..720 levels.*, got 721"),
        (65, 10**9, Conditional(), "expected 2..64 levels.*, got 65"),
        (65, 8 * 10**9, Prior((Fraction(1),) * 65), "expected 2..64 levels.*, got 65"),
        (9, 0, Minimax(), "positive"),
        (9, 10**6, Minimax(), "0.01 to 16 nats, found 0.001"),
        (9, 17 * 10**9, Minimax(), "0.01 to 16 nats, found 17"),
        (9, 10**9, Prior((Fraction(1), Fraction(2))), "one weight a level, expected 9, found 2"),
    ],
)
def test_what_cannot_be_designed_is_refused(
    levels: int, nano: int, objective: Objective, reason: str
) -> None:
    with pytest.raises(InvalidParameter, match=reason):
        design_table(levels, nano, objective)


def test_counts_of_another_table_are_refused() -> None:
    table = design(9, "1", Minimax())
    for counts in ((), (1,), (1, 2, 3), (0, 0), (3, -1)):
        with pytest.raises(InvalidParameter, match="one number a symbol, 2"):
            table.estimate(counts)
