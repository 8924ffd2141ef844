"""Loss by diffprivlib's formula is really spent; ours is measured without it too."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn")


def loss_of_neighbours(norm: float, noise_epsilon: float, total: float) -> float:
    """Return the log-ratio of densities at one output, of two data sets that differ in one row.

    The output is far along the second axis. 40,000 rows are far on the wrong side there, without
    curvature; of the two rows that differ one is far wrong too, the other as wrong as costs most.
    """
    far, common = 400.0, 40_000
    output = np.array([0.0, -far]) / norm
    strength = total * np.eye(2)

    def row(margin: float, side: int) -> NDArray[np.float64]:
        sine = -margin / far
        return norm * np.array([side * math.sqrt(1 - sine**2), sine])

    def log_density(last: NDArray[np.float64]) -> float:
        tilt, curvature = -total * output, strength.copy()
        for weight, one in ((common, row(-20, -1)), (1, last)):
            share = 1 / (1 + math.exp(float(one @ output)))
            tilt = tilt + weight * share * one
            curvature += weight * share * (1 - share) * np.outer(one, one)
        noise = -noise_epsilon / (2 * norm) * float(np.linalg.norm(tilt))
        return noise + float(np.linalg.slogdet(curvature)[1])

    margins = np.linspace(-6, 4, 101)
    return max(log_density(row(margin, 1)) - log_density(row(-8, -1)) for margin in margins)


@pytest.mark.parametrize(("norm", "c", "epsilon"), [(1, 0.1, 1), (12, 1, 2), (100, 1, 1)])
def test_what_is_spent_is_reached_by_neighbours(
    logistic: ModuleType, norm: float, c: float, epsilon: float
) -> None:
    found = logistic.spent(norm, c, False, epsilon)
    noise_epsilon = epsilon - 2 * math.log1p(norm * c / 4)
    total = 1 / c
    if noise_epsilon <= 0:
        noise_epsilon, total = epsilon / 2, norm / 4 / math.expm1(epsilon / 4)
    reached = loss_of_neighbours(norm, noise_epsilon, total)
    assert 0.93 * found.spends <= reached <= found.spends + 1e-9


def test_with_a_norm_of_1_it_spends_no_more_than_it_says(logistic: ModuleType) -> None:
    for c in (1e-3, 0.1, 1, 10, 1e6):
        for epsilon in (0.01, 0.2, 1, 8):
            assert logistic.spent(1, c, False, epsilon).spends <= epsilon


def test_with_greater_norms_it_spends_more(logistic: ModuleType) -> None:
    assert logistic.spent(12, 1, False, 2).spends == pytest.approx(2.94, abs=0.01)
    assert logistic.spent(100, 1, False, 1).spends > 3


def test_an_intercept_that_nothing_regularises_has_no_bound(logistic: ModuleType) -> None:
    assert logistic.spent(1, 1, True, 2).spends is None
    assert logistic.spent(12, 1, True, 2).spends > 2


def test_it_runs_without_the_peer(logistic: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert logistic.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["holds"] is None
    assert [row["epsilon"] for row in told["rows"]] == ["0.2", "1", "2"]
    for row in told["rows"]:
        assert row["diffprivlib"] is None
        assert row["jmlr"]["fits"] == 20
        assert 0 <= row["joint"]["error"] < 0.5
    assert logistic.main(["--quick"]) == 0
    assert "diffprivlib was left out" in capsys.readouterr().out


def test_an_interpreter_without_it_is_told(logistic: ModuleType) -> None:
    with pytest.raises(SystemExit, match="expected an interpreter with diffprivlib, found: Module"):
        logistic.main(["--quick", "--diffprivlib", str(Path(sys.executable))])
