"""The reproduction of PARITY: it holds, and would not if something were wrong."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from matplotlib.figure import Figure

from askance_papers.curator.parity import even_keeping, sharper_keeping
from askance_papers.reproduce import Effort, Reproduction, Setting, find
from askance_papers.reproduce.klnrs08 import parity
from askance_simulation.randomness import Seed


@pytest.fixture(scope="module")
def quick() -> Reproduction:
    return find("parity").reproduce(Setting(Effort.QUICK, Seed.of(1)))


class TestTheRows:
    def test_all_hold(self, quick: Reproduction) -> None:
        assert quick.holds
        assert all(row["holds"] for row in quick.rows)
        assert len({tuple(row) for row in quick.rows}) == 1, "all rows have the same columns"

    def test_what_is_not_private_is_said(self, quick: Reproduction) -> None:
        (row,) = (row for row in quick.rows if not row["private"])
        assert (row["keeping"], row["epsilon"]) == ("printed", 3.9)
        assert row["measured"] == pytest.approx(4.36945, abs=1e-5)

    def test_they_are_json_and_a_picture(self, quick: Reproduction) -> None:
        json.dumps(quick.to_json(), allow_nan=False)
        figure = Figure()
        quick.draw(figure)
        assert len(figure.axes) == 2


class TestWhatWouldNotHold:
    def test_a_loss_that_passes_epsilon(self) -> None:
        def greedy(epsilon: Fraction, runs: int) -> Fraction:
            return sharper_keeping(epsilon, runs) * Fraction(101, 100)

        assert not parity.loss_row(parity.LossCase("sharper", greedy, Fraction(1), 4))["holds"]

    def test_a_loss_that_is_not_all_of_epsilon(self) -> None:
        case = parity.LossCase("sharper", even_keeping, Fraction(1), 4)
        assert not parity.loss_row(case)["holds"]

    def test_failures_of_too_few_examples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parity, "examples_needed", lambda *_: 60)
        row = parity.failure_row(16, 1, 60, Seed.of(1))
        assert row["measured"] > 0.5
        assert not row["holds"]
