"""Tests of users are valid, and find what is there: by tallies drawn by the randomizers' laws.

Each bound on a count of errors is passed with a chance of less than 1e-6 if the stated chance of an
error holds, however many draws are made; `benchmarks/association.py` makes more. A statistic that
left the randomizer's noise out would reject nearly always.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from scipy.special import bdtr, bdtrc

from askance_aggregator.learners import find

DRAWS = 200
EPSILONS = ("0.5", "4")  # benchmarks/association.py has more


SLOW = pytest.mark.slow


def most(draws: int) -> int:
    """Return the errors that a chance of .05 exceeds with a chance of less than 1e-6."""
    return next(count for count in range(draws) if bdtrc(count, draws, 0.05) < 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "skew"),
    [
        ("1", 0.1),
        *(pytest.param(*one, marks=SLOW) for one in (("0.5", 0.0), ("4", 0.1), ("8", 0.0))),
    ],
)
def test_independent_columns_are_rejected_no_more_often_than_stated(
    association: ModuleType, epsilon: str, skew: float
) -> None:
    table = association.associated((2, 3), 0.0, skew)
    row = association.association_row("null", table, epsilon, 3_000, DRAWS)
    assert row.rejected <= most(DRAWS)
    assert row.missed <= most(DRAWS)


@pytest.mark.slow
def test_the_statistic_has_the_level_that_is_stated_and_not_much_less(
    association: ModuleType,
) -> None:
    """1,000 draws: fewer than 20 of an expected 50 have a chance of 1e-6."""
    table = association.associated((2, 2), 0.0)
    row = association.association_row("null", table, "1", 20_000, 1_000)
    assert 20 <= row.rejected <= most(1_000)


@pytest.mark.parametrize(("epsilon", "v"), [("1", 0.4), pytest.param("4", 0.1, marks=SLOW)])
def test_the_interval_of_v_holds_what_is_there(
    association: ModuleType, epsilon: str, v: float
) -> None:
    table = association.associated((3, 3), v)
    row = association.association_row("v", table, epsilon, 30_000, DRAWS)
    assert row.missed <= most(DRAWS)
    assert row.width < 0.2


@SLOW
def test_the_plan_for_an_effect_finds_it(association: ModuleType) -> None:
    """Beta is .05, and of all tests with a third of the users a tenth or more miss it."""
    cells = {name: association.Category([f"{name}{j}" for j in range(3)]) for name in "ab"}
    schema = association.Schema.of("tables", 1, cells)
    learner = find("association").build(schema, {"columns": "a,b", "effect": "1/5"})
    users = association.Study(learner, schema, epsilon="1", beta="0.05").plan().users_needed
    table = association.associated((3, 3), 0.2)
    row = association.association_row("planned", table, "1", users, DRAWS, missing=0.0)
    assert DRAWS - row.found <= most(DRAWS)
    few = association.association_row("few", table, "1", users // 3, DRAWS, missing=0.0)
    assert few.found < 0.9 * DRAWS


@pytest.mark.parametrize(
    ("epsilon", "draws"),
    [
        pytest.param("2", 6, marks=SLOW),
        *(pytest.param(epsilon, 24, marks=pytest.mark.nightly) for epsilon in EPSILONS),
    ],
)
def test_differences_of_groups_are_covered(
    association: ModuleType, epsilon: str, draws: int
) -> None:
    """The width is over a deviation that the draws themselves give."""
    row = association.difference_row("0", (0.3, 0.3), 0.2, epsilon, 20_000, draws)
    assert row.rejected <= most(draws)
    assert row.missed <= most(draws)
    assert row.width < 2.5


@pytest.mark.parametrize(
    ("epsilon", "draws"),
    [("4", 10), *(pytest.param(epsilon, 12, marks=pytest.mark.slow) for epsilon in EPSILONS)],
)
def test_correlations_are_covered(association: ModuleType, epsilon: str, draws: int) -> None:
    row = association.correlation_row("normal, deviation .4", 0.6, epsilon, 20_000, draws)
    assert row.missed <= most(draws)
    assert row.width < 2.5


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [
        ("off centre, deviation .25", "4"),
        *(
            pytest.param(name, epsilon, marks=SLOW)
            for name in ("normal, deviation .4", "a number and its square", "rising, .3 missing")
            for epsilon in ("1", "8")
        ),
    ],
)
def test_no_correlation_is_rejected_no_more_often_than_stated(
    association: ModuleType, name: str, epsilon: str
) -> None:
    row = association.correlation_row(name, 0.0, epsilon, 100_000, 60)
    assert row.undetermined == 0
    assert row.rejected <= most(60)
    assert row.missed <= most(60)


def least_found(draws: int) -> int:
    """Return the findings that a chance of .8 falls short of with a chance of less than 1e-6."""
    return next(count for count in range(draws) if bdtr(count, draws, 0.8) >= 1e-6)


def test_a_correlation_is_found_as_often_as_is_stated(association: ModuleType) -> None:
    """In .4 of studies by the p-value for every number of users (400 studies at epsilon 1)."""
    null = association.correlation_row("normal, deviation .4", 0.0, "1", 100_000, 8)
    row = association.correlation_row("normal, deviation .4", null.detectable, "1", 100_000, 60)
    assert row.found >= least_found(60)
    assert row.finite < 0.7 * row.found / 60
    assert abs(row.found - row.by_z) <= 6


@pytest.mark.parametrize(
    "epsilon", [pytest.param("0.5", marks=pytest.mark.nightly), pytest.param("4", marks=SLOW)]
)
def test_a_difference_is_found_as_often_as_is_stated(association: ModuleType, epsilon: str) -> None:
    null = association.difference_row("0", (0.5, 0.5), 1 / 3, epsilon, 50_000, 2)
    means = (0.5, 0.5 + null.detectable)
    row = association.difference_row("0", means, 1 / 3, epsilon, 50_000, 24)
    assert row.found >= least_found(24)
    assert row.finite < row.found / 24
    assert row.missed <= most(24)


def test_an_association_among_frequent_values_has_a_narrow_interval(
    association: ModuleType,
) -> None:
    """Rows and columns of .05 have most of the noise, and no part in V.

    Half the width is 2.6 errors; with the noise in the worst direction, as before, it was 5.5.
    """
    rows, columns = np.array([0.05, *[0.95 / 3] * 3]), np.array([0.05, *[0.95 / 4] * 4])
    table = np.outer(rows, columns)
    table[1:3, 1:3] += 0.02 * np.array([[1, -1], [-1, 1]])
    row = association.association_row("frequent", table, "4", 20_000, 100)
    assert row.missed <= most(100)
    assert row.width < 3.5 * row.error


def test_too_many_errors_are_seen(
    association: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for missed, code in ((40, 0), (90, 1)):
        row = association.Row("planted", "1", 1_000, 1_000, 50, 10, None, missed, 0.1)
        measures = [("planted", lambda effect, row=row: row)]
        monkeypatch.setattr(association, "PARTS", {"planted": lambda *_, m=measures: m})
        assert association.main([]) == code
        assert ("ABOVE" in capsys.readouterr().out) == bool(code)
