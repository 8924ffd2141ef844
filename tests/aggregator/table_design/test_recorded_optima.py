"""Recorded optima: what the solver finds, charged as a device charges it, and proved."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from math import exp

import pytest

from askance_aggregator.families import TableFamily
from askance_aggregator.studies.least_epsilon import GRID
from askance_aggregator.table_design import (
    Conditional,
    PresentPopulation,
    PresentSample,
    design_presence,
    design_sample,
    design_table,
    presence,
    recorded_epsilons,
    recorded_optimum,
    sample_levels,
)
from askance_aggregator.table_design.designs import SAMPLE
from askance_aggregator.table_design.presence import (
    MAX_PRESENCE_NANO_NATS,
    NUMBERS,
    PresenceTable,
)

NAT = 10**9
ALL = (SAMPLE, PresentPopulation.name, PresentSample.name)
STEPS = pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])


@pytest.mark.parametrize("name", ALL)
def test_every_epsilon_of_the_grid_is_recorded(name: str) -> None:
    most = 16 * NAT if name == SAMPLE else MAX_PRESENCE_NANO_NATS
    assert recorded_epsilons(name) == tuple(nano for nano in GRID if nano <= most)


@STEPS
@pytest.mark.parametrize("name", ALL)
def test_a_recorded_table_costs_its_epsilon_and_no_nano_nat_more(name: str, step: int) -> None:
    for nano in recorded_epsilons(name)[::step]:
        known = recorded_optimum(name, nano)
        assert known is not None
        assert known.channel.loss.nano_nats == nano, nano
        assert known.channel.loss.fits(nano), nano


@STEPS
def test_a_sample_s_optima_are_near_what_their_prices_prove(step: int) -> None:
    """Within 1 %, beyond 12 nats as far as rounding onto 720 levels allows."""
    figures = []
    for nano in recorded_epsilons(SAMPLE)[::step]:
        table = design_sample(nano)
        rounding = 1 / (table.channel.levels - 1) ** 2
        most = 1.006 if nano <= 13 * NAT else 1.02
        assert table.lower_bound <= table.figure <= most * table.lower_bound + rounding, nano
        assert table.channel.levels == sample_levels(nano)
        assert table.bias < 1e-8
        figures.append(table.figure)
    assert figures == sorted(figures, reverse=True)


@pytest.mark.parametrize(
    ("nano", "limit"),
    [
        # Known limits of a sample's mean, as in planning/test_designed.py.
        (NAT, 3.991),
        (2 * NAT, 0.866),
        (4 * NAT, 0.127),
        (8 * NAT, 0.006495),
        (12 * NAT, 0.0004202),
    ],
)
def test_the_prices_prove_the_known_limits(nano: int, limit: float) -> None:
    assert design_sample(nano).lower_bound == pytest.approx(limit, rel=1.5e-3)


BETWEEN = [1_003_000_000, 4_130_000_000, 5_100_000_000, 8_300_000_000]
SLOW_BETWEEN = [
    13_000_000,
    1_020_000_000,
    3_970_000_000,
    6_620_000_000,
    9_500_000_000,
    11_600_000_000,
]


@pytest.mark.parametrize(
    "nano",
    [*BETWEEN, *(pytest.param(n, marks=pytest.mark.slow) for n in (*SLOW_BETWEEN, 13_500_000_000))],
)
def test_between_the_grid_s_epsilons_a_table_is_within_a_budget_and_near_its_neighbours(
    nano: int,
) -> None:
    """At most 1.5 % over the power law between the two next optima."""
    table = design_sample(nano)
    assert table.channel.loss.fits(nano)
    below = max(each for each in GRID if each < nano)
    above = min(each for each in GRID if each > nano)
    part = (nano - below) / (above - below)
    low, high = (float(design_sample(each).figure) for each in (below, above))
    assert high <= table.figure <= 1.015 * low ** (1 - part) * high**part
    assert table.lower_bound <= table.figure


@pytest.mark.parametrize(
    ("nano", "charged"),
    [
        (NAT + 1, NAT),
        (1_003_000_000, NAT),  # .6 % more users
        # 1.2 % more users
        pytest.param(1_006_000_000, 1_006_000_000, marks=pytest.mark.slow),
        (8_010_000_000, 8 * NAT),  # .7 %
        (8_020_000_000, 8_020_000_000),  # 1.4 %
    ],
)
def test_a_lower_table_is_used_where_it_costs_less_than_a_hundredth(
    nano: int, charged: int
) -> None:
    table = design_sample(nano)
    assert (table.nano, table.channel.loss.nano_nats) == (nano, charged)
    if charged < nano:
        assert table.channel == design_sample(charged).channel
        assert table.lower_bound < design_sample(charged).lower_bound


@pytest.mark.parametrize("name", ["population", "sample"])
def test_with_a_level_for_missing_a_lower_table_is_used_likewise(name: str) -> None:
    objective = PresentPopulation() if name == "population" else PresentSample()
    at, near, far = (design_presence(n, objective) for n in (NAT, NAT + 10**6, NAT + 3 * 10**7))
    assert near.channel == at.channel
    assert far.channel.loss.nano_nats == NAT + 3 * 10**7


@pytest.mark.parametrize(
    "nano",
    [
        NAT // 10,
        NAT,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (4 * NAT, 9 * NAT, 12 * NAT)),
    ],
)
def test_the_solver_finds_what_is_recorded_of_a_population(
    nano: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends where no symbol gains 1e-4: its table depends on the solver's version."""
    known = design_presence(nano, PresentPopulation())
    for name in ("recorded_optimum", "neighbours"):
        monkeypatch.setattr(presence, name, lambda *_: None)
    found = design_presence.__wrapped__(nano, PresentPopulation())
    assert found.channel.loss.fits(nano)
    assert abs(worst_figure(found) / worst_figure(known) - 1) < Fraction(2, 10**4)
    for table in (found, known):
        family = TableFamily(table.channel)
        assert list(family.moved_grid(table.numbers)) == [Fraction(x) for x in (-1, 1, 0)]
        assert list(family.moved_grid(table.presences)) == [Fraction(x) for x in (1, 1, 0)]


def worst_figure(table: PresenceTable) -> Fraction:
    """Return the greatest n x variance of populations at -1 and 1, and of one without a number."""
    figures = []
    for mean in (Fraction(number, 2) for number in range(-2, 3)):
        low, high, missing = table.figure(mean)
        figures.append((1 - mean) / 2 * low + (1 + mean) / 2 * high)
        if abs(mean) == 1:
            figures.append(missing)
    return max(figures)


@pytest.mark.slow  # a whole search
@pytest.mark.parametrize("nano", [NAT, 6 * NAT, 8 * NAT])
def test_the_solver_finds_what_is_recorded_of_a_sample(nano: int) -> None:
    found, known = design_table(sample_levels(nano), nano, Conditional()), design_sample(nano)
    assert float(found.figure) == pytest.approx(float(known.figure), rel=1e-3)
    assert found.lower_bound == pytest.approx(known.lower_bound, rel=1e-3)


@pytest.mark.parametrize("nano", [9 * NAT, 12 * NAT, 40 * NAT])
def test_users_at_hand_are_served_at_large_budgets_too(nano: int) -> None:
    """The search found no table at 12 nats, and at 9 one of five times the variance."""
    table = design_presence(nano, PresentSample())
    grid = TableFamily(table.channel).moved_grid(table.numbers)[:-1]
    variance = max(
        figure - (mean - x) ** 2
        for x in grid
        for mean in (x,)
        for figure in (table.figure(mean)[grid.index(x)],)
    )
    ideal = 1.25 * exp(-2 / 3 * min(nano / NAT, 12))  # the least without a level for "missing"
    assert variance < Fraction(3 * ideal)
    assert table.channel.levels == NUMBERS + 1


def test_a_recorded_design_loads_no_solver() -> None:
    code = (
        "import sys\n"
        "from askance_aggregator.table_design import *\n"
        "design_presence(10**9, PresentPopulation())\n"
        "design_presence(10**9, PresentSample())\n"
        "design_sample(9 * 10**9)\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "askance_aggregator.table_design.presence" in done.stdout
    assert "scipy" not in done.stdout.split()
