"""The reproduction of PARITY would not hold if something were wrong."""

from __future__ import annotations

from fractions import Fraction

import pytest

from askance_papers.curator.parity import even_keeping, sharper_keeping
from askance_papers.reproduce.klnrs08 import parity
from askance_simulation.randomness import Seed


def test_a_loss_that_is_not_private_is_said() -> None:
    (case,) = (case for case in parity.LOSSES if not case.private)
    row = parity.loss_row(case)
    assert (row["keeping"], row["epsilon"], row["private"]) == ("printed", 3.9, False)
    assert row["measured"] == pytest.approx(4.36945, abs=1e-5)


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
