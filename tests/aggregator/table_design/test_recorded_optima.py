"""Recorded optima are what the solver finds, to the last bit."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from askance_aggregator.table_design import PresentPopulation, PresentSample, design_presence
from askance_aggregator.table_design.presence import (
    MAX_PRESENCE_NANO_NATS,
    NUMBERS,
    recorded,
    recorded_optimum,
    solved_presence,
)


@pytest.mark.parametrize("nano", recorded())
def test_the_solver_finds_what_is_recorded(nano: str) -> None:
    table, scores = solved_presence(int(nano), PresentPopulation())
    known = recorded_optimum(int(nano))
    assert known is not None
    assert np.array_equal(known[0], table)
    assert np.array_equal(known[1], scores)


def test_budgets_between_are_solved() -> None:
    assert recorded_optimum(10**9 + 1) is None
    one, next_to_it = (design_presence(n, PresentPopulation()) for n in (10**9, 10**9 + 1))
    assert one.channel != next_to_it.channel


def test_the_greatest_budget_is_recorded() -> None:
    assert recorded_optimum(MAX_PRESENCE_NANO_NATS) is not None


def test_other_objectives_are_solved() -> None:
    assert design_presence(10**9, PresentSample()).channel.levels == NUMBERS + 1


def test_a_recorded_design_loads_no_solver() -> None:
    code = (
        "import sys\n"
        "from askance_aggregator.table_design import PresentPopulation, design_presence\n"
        "design_presence(10**9, PresentPopulation())\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "askance_aggregator.table_design.presence" in done.stdout
    assert "scipy" not in done.stdout.split()
