"""The reproduction of composition: the table to four digits."""

from __future__ import annotations

import json

import pytest
from matplotlib.figure import Figure

from askance_aggregator.composition import Optimal
from askance_papers.reproduce import Effort, Reproduction, Setting, find
from askance_papers.reproduce.drv10 import composition
from askance_simulation.randomness import Seed


@pytest.fixture(scope="module")
def quick() -> Reproduction:
    return find("composition").reproduce(Setting(Effort.QUICK, Seed.of(1)))


def test_it_holds(quick: Reproduction) -> None:
    assert quick.holds
    assert len({tuple(row) for row in quick.rows}) == 1, "all rows have the same columns"


@pytest.mark.parametrize(
    ("count", "basic", "printed", "optimal"),
    [(10, 1.000, 1.767, 0.99937), (100, 10.0, 6.308, 4.77457), (1000, 100.0, 27.14, 19.34467)],
)
def test_the_table(
    quick: Reproduction, count: int, basic: float, printed: float, optimal: float
) -> None:
    (row,) = (row for row in quick.rows if row["releases"] == count)
    assert row["basic"] == basic
    assert float(f"{row['III.3 as printed']:.4g}") == printed
    assert row["optimal"] == pytest.approx(optimal, abs=5e-6)
    assert row["optimal, exactly"] == pytest.approx(optimal, abs=5e-6)


def test_an_accountant_that_says_too_little_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Optimal.epsilon
    monkeypatch.setattr(Optimal, "epsilon", lambda *given: honest(*given) * (1 - 1e-4))
    assert not composition.composed(100)["holds"]


def test_nor_does_one_that_says_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Optimal.epsilon
    monkeypatch.setattr(Optimal, "epsilon", lambda *given: honest(*given) * (1 + 1e-4))
    assert not composition.composed(100)["holds"]


def test_it_is_json_and_a_picture(quick: Reproduction) -> None:
    json.dumps(quick.to_json(), allow_nan=False)
    figure = Figure()
    quick.draw(figure)
    assert len(figure.axes[0].lines) == 5
