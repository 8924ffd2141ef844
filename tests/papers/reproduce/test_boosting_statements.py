"""Tests of *Boosting and Differential Privacy*: the statements, and parts of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from askance_papers.curator.synopsis import (
    QueryWeights,
    Schedule,
)
from askance_papers.reproduce import Effort, Setting
from askance_papers.reproduce.drv10 import (
    claim_iv_2,
    lemma_iii_2,
    rates,
    theorem_iii_3,
    theorem_v_2,
    theorem_v_3,
)
from askance_simulation.randomness import Seed

QUICK = Setting(Effort.QUICK, Seed.of(1))


class TestFigures:
    def test_randomized_response_attains_the_divided_bound(self) -> None:
        rows = list(lemma_iii_2.enumerated(Fraction(1), QUICK))
        assert rows[0]["divergence"] == pytest.approx(np.tanh(0.5), rel=1e-12)
        assert rows[0]["eps (e^eps - 1)"] == pytest.approx(np.e - 1)

    def test_the_optimum_of_pure_releases_is_known(self) -> None:
        """Ten releases of .1 at delta 1e-6: ALGORITHMS' and the convolution's .99937."""
        law = theorem_iii_3.WorstReleases.of({(Fraction(1, 10), Fraction(0)): 10})
        assert law.epsilon(Fraction(1, 10**6), 1.0) == pytest.approx(0.99937, abs=5e-6)

    def test_one_leaking_release_leaks_its_delta(self) -> None:
        law = theorem_iii_3.WorstReleases.of({(Fraction(1), Fraction(1, 100)): 1})
        assert float(law.delta(1.0)) == pytest.approx(0.01)
        assert float(law.delta(0.0)) == pytest.approx(1 - 0.99 * (1 - np.tanh(0.5)))

    def test_neighbours_differ_in_one_record(self) -> None:
        found = claim_iv_2.neighbours(np.array([2, 0, 1]))
        assert {tuple(one) for one in found} == {(1, 1, 1), (1, 0, 2), (3, 0, 0), (2, 1, 0)}

    def test_an_exponent_is_found(self) -> None:
        xs = [1.0, 2.0, 8.0]
        row = rates.exponent_row("V", "case", xs, [3 * x**-0.5 for x in xs], -0.5, 0.01)
        assert row["exponent"] == pytest.approx(-0.5)
        assert row["holds"]
        assert not rates.exponent_row("V", "case", xs, [3 / x for x in xs], -0.5, 0.01)["holds"]


@pytest.mark.parametrize("module", [theorem_v_2, theorem_v_3])
def test_a_generator_holds_at_one_number_of_records(module: Any) -> None:
    boosted = module.boosted_errors(module.SIZES[0], module.EPSILONS[0], QUICK)
    assert boosted.row()["holds"]


def test_weights_start_uniform_and_grow_with_errors() -> None:
    schedule = Schedule(3, 10, accurate=2, slack=4, unit=Fraction(1, 100))
    weights = QueryWeights(3, schedule)
    assert np.exp(weights.log_probabilities()) == pytest.approx(np.full(3, 1 / 3))
    weights.reweight(np.array([2, 4, 99]))
    logs = weights.log_probabilities()
    assert logs[1] - logs[0] == pytest.approx(np.log(5) / 2)
    assert logs[2] - logs[0] == pytest.approx(np.log(5))
