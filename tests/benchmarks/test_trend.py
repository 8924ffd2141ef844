"""The benchmark of values over time: its formulas, and that it runs."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from askance_simulation.populations import paths
from askance_simulation.randomness import Seed


def test_the_law_of_one_change_lies_between_those_of_none_and_of_all(trend: ModuleType) -> None:
    for epsilon in (0.5, 1.0, 4.0):
        laws = [trend.law_of_trend(16, k, epsilon) for k in (0, 1, 3, 8, 15)]
        assert laws[:4] == sorted(laws[:4])
        assert laws[3] == pytest.approx(laws[4])


def test_the_crossing_is_where_fresh_answers_have_the_lesser_law(trend: ModuleType) -> None:
    least, each = trend.law_of_fresh(64, 1.0)
    assert (least, each) == (64 * trend.law_of_a_bit(1.0), 1)
    most = trend.crossing(64, 1.0)
    assert most == 10
    assert trend.law_of_trend(64, most, 1.0) < least < trend.law_of_trend(64, most + 1, 1.0)


def test_no_linear_code_is_below_the_bound_and_dyadic_averages_are_above(
    trend: ModuleType,
) -> None:
    own, dyadic, best = trend.codes_for_one_change(16)
    assert best < own < dyadic
    assert own == pytest.approx(1 + 2 * np.sqrt(14), rel=2e-3)


def test_paths_change_as_often_as_is_said() -> None:
    people = paths(500, Seed.of(1), 12, 3)
    columns = people.columns(0, 500)
    bits = np.array([np.asarray(columns.values[name]) for name in people.schema.fields])
    assert (np.abs(np.diff(bits, axis=0)).sum(axis=0) == 3).all()
    assert 0.15 < bits[0].mean() < 0.35
    again = people.columns(100, 103)
    assert np.asarray(again.values["epoch_7"]).tolist() == bits[6, 100:103].tolist()


def test_it_runs(trend: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    trend.main(["--quick", "--trials", "2", "--users", "200"])
    printed = capsys.readouterr().out
    assert printed.count("users split") == 2
    assert "wins to k =" in printed
