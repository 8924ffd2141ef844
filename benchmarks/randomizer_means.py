"""Errors of means of bounded numbers: designed tables beside C^2 and the dual's bound.

Three objectives (`askance_aggregator.table_design`), on 33 levels of [-1, 1]:
"minimax" has the least
second moment whatever the population, "conditional" the least error about the users at hand,
"prior" the least second moment for users who are as a stated prior says. Figures are exact, of the
integers that a device is sent. What is measured is n x the squared error about the mean of the very
people who answered: each is rounded onto a level and randomized from coins of its own, as on a
device (`families.draw`), and the reports are counted and decoded.

Users: the numbers that peers are asked of (`peers.measuring`), with the density that they are
drawn from as prior; and of the Adult data, where it is given, age and hours a week. There every
other row makes the prior, which stands for public knowledge, and the others are asked.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt, tanh
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from peers.measuring import numbers

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
from askance_simulation.families import draw
from askance_simulation.families.rounding import round_by_division

NAT = 10**9
LEVELS = 33
USERS = 10_000
_FRAC = 16  # of numbers in [-1, 1]
_ADULT = {"age": (17, 90), "hours_per_week": (1, 99)}  # ranges of a public schema
_PRIOR_DRAWS = 200_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class People:
    """Users that are asked, and the prior knowledge about them.

    Args:
        name: of them.
        numbers: in [-1, 1].
        prior: weights of the levels.
    """

    name: str
    numbers: Floats
    prior: Prior


@dataclass(frozen=True, slots=True)
class MeanRow:
    """Errors of one objective at one epsilon on some users.

    Args:
        symbols: of the table.
        figure: what the objective minimises, exactly of the integers.
        limit: the dual's bound: nothing is below.
        duchi: C^2, what one bit has, and the least that is promised to every population.
        theory: n x MSE about the mean of these users, of the integers.
        n_mse: as measured, n users in each of the repetitions; with its standard error.
        bias: of the estimate, as measured; with its own.
        report_mse: of a report about the number it was made of, over all reports: what n_mse is in
            expectation, since users err independently, measured sqrt(n) times as closely.
    """

    people: str
    eps: float
    objective: str
    symbols: int
    figure: float
    limit: float
    duchi: float
    theory: float
    n: int
    repetitions: int
    n_mse: float
    n_mse_se: float
    bias: float
    bias_se: float
    report_mse: float
    report_mse_se: float


def skewed() -> People:
    """Return the users' numbers; the prior is made of other draws of their density."""
    made_up = np.random.default_rng(1).beta(2, 5, _PRIOR_DRAWS) * 2 - 1
    return People("skewed", numbers(USERS), Prior(prior_of(made_up, LEVELS)))


def of_adult(file: Path) -> list[People]:
    """Return two columns of Adult, scaled to [-1, 1]."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    found = []
    for column, (low, high) in _ADULT.items():
        values = np.array([float(row[column]) for row in rows])
        scaled = np.clip(2 * (values - low) / (high - low) - 1, -1, 1)
        known, asked = scaled[::2], scaled[1::2]
        found.append(People(column, asked[:USERS], Prior(prior_of(known, LEVELS))))
    return found


def mean_rows(
    epsilons: Sequence[float], everybody: Sequence[People], repetitions: int
) -> Iterator[MeanRow]:
    """Measure each objective on each group of users at each epsilon."""
    for eps in epsilons:
        for people in everybody:
            objectives: tuple[Objective, ...] = (Minimax(), Conditional(), people.prior)
            for place, objective in enumerate(objectives):
                table = design_table(LEVELS, round(eps * NAT), objective)
                rng = np.random.default_rng([round(eps * 100), place, *people.name.encode()])
                yield _row(people, eps, objective, table, repetitions, rng)


def _row(
    people: People,
    eps: float,
    objective: Objective,
    table: DesignedTable,
    repetitions: int,
    rng: np.random.Generator,
) -> MeanRow:
    n = len(people.numbers)
    grid = np.round(people.numbers * (1 << _FRAC)).astype(np.int64)
    truth = float(grid.mean()) / (1 << _FRAC)
    once = [_once(table, grid, rng) for _ in range(repetitions)]
    errors = np.array([estimate for estimate, _ in once]) - truth
    report_mse, report_mse_se = _mean_and_se(np.array([squared for _, squared in once]))
    n_mse, n_mse_se = _mean_and_se(n * errors**2)
    bias, bias_se = _mean_and_se(errors)
    return MeanRow(
        people=people.name,
        eps=eps,
        objective=type(objective).__name__.lower(),
        symbols=table.channel.symbols,
        figure=float(table.figure),
        limit=table.lower_bound,
        duchi=1 / tanh(eps / 2) ** 2,
        theory=_theory(table, grid / (1 << _FRAC)),
        n=n,
        repetitions=repetitions,
        n_mse=n_mse,
        n_mse_se=n_mse_se,
        bias=bias,
        bias_se=bias_se,
        report_mse=report_mse,
        report_mse_se=report_mse_se,
    )


def _once(
    table: DesignedTable, grid: NDArray[np.int64], rng: np.random.Generator
) -> tuple[float, float]:
    """Return the estimate from all users' reports, and the mean of the reports' squared errors."""
    rounding, coins = rng.integers(0, 1 << 64, (2, len(grid)), dtype=np.uint64)
    one = 1 << _FRAC
    levels = round_by_division(grid, -one, one, table.channel.levels, rounding)
    reports = draw(table.channel, levels, coins[:, np.newaxis])
    estimate = float(table.estimate(TableFamily(table.channel).tally(reports).tolist()))
    values = np.array([float(value) for value in table.values])
    errors = values[reports[:, 0]] - grid / one
    return estimate, float(np.square(errors).mean())


def _theory(table: DesignedTable, values: Floats) -> float:
    """Return the mean over these users of a report's variance about its own expectation.

    Of a number between two levels the second moment is between theirs, in proportion.
    """
    weights = prior_of(values, LEVELS)
    moments = [
        TableFamily(table.channel).second_moment(level, table.values) for level in range(LEVELS)
    ]
    grid = [float(point) for point in TableFamily(table.channel).moved_grid(table.values)]
    means = np.interp(values, np.linspace(-1, 1, LEVELS), grid)
    second = sum(float(weight * moment) for weight, moment in zip(weights, moments, strict=True))
    return second - float(np.square(means).mean())


def _mean_and_se(each: Floats) -> tuple[float, float]:
    return float(each.mean()), float(each.std(ddof=1)) / sqrt(len(each))
