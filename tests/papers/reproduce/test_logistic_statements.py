"""Tests of *Privacy-preserving logistic regression*: the statements, and parts of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from askance_papers.curator.logistic import (
    LOGISTIC,
    LogisticCalibration,
    MarginLoss,
    ObjectivePerturbation,
    minimise,
)
from askance_papers.reproduce import Effort, Setting
from askance_papers.reproduce.cm08 import losses, sensitivity, utility
from askance_simulation.randomness import Seed

QUICK = Setting(Effort.QUICK, Seed.of(1))


class TestLaws:
    def test_a_density_of_one_row_integrates_to_a_constant(self) -> None:
        """In one dimension, for any row: densities of neighbours have the same integral."""
        law = losses.TiltedLaw(LOGISTIC, 0.5, 2.0, laplace=False)
        axis = np.linspace(-60, 60, 240_001)[:, None]
        masses = [
            np.exp(law.log_densities(data, axis)).sum() * 0.0005
            for pair in losses.neighbours(1, 2)
            for data in pair
        ]
        assert masses == pytest.approx([masses[0]] * len(masses), rel=1e-4)

    def test_tilts_are_of_the_minimiser(self) -> None:
        data = sensitivity.pulled(1.2, 0.5)
        point = minimise(data, 0.01, np.array([3.0, -2.0]), LOGISTIC)
        law = losses.TiltedLaw(LOGISTIC, 0.01, 1.0, laplace=False)
        assert law.tilts(data, point[None])[0] == pytest.approx([3, -2], abs=1e-5)

    def test_half_the_scale_passes_epsilon(self) -> None:
        """The search finds it, for every loss."""
        for loss, kind in losses.CASES:
            mechanism = ObjectivePerturbation(losses.EPSILONS[1], losses.REGULARISATION, kind, loss)
            strength = float(losses.REGULARISATION) + mechanism.calibrated(4).added
            halved = losses.TiltedLaw(loss, strength, mechanism.scale(4) / 2, laplace=False)
            assert halved.worst_loss(2, 3) > float(losses.EPSILONS[1])


@pytest.mark.parametrize("epsilon", losses.EPSILONS)
@pytest.mark.parametrize(("loss", "kind"), losses.CASES[:2])
def test_rows_hold_at_every_epsilon_of_a_full_run(
    loss: MarginLoss, kind: LogisticCalibration, epsilon: Fraction
) -> None:
    """Full run at epsilon 2, d = 1: neither the print's loss nor the share of epsilon was met."""
    assert all(row["holds"] for row in losses.measured(loss, kind, epsilon, QUICK))


def test_theorem_4s_examples_grow_with_the_dimension() -> None:
    counts = [
        utility.Goal(dimension, losses.EPSILONS[0], 0.3).corrected_count()
        for dimension in (2, 8, 32)
    ]
    assert counts[2] / counts[1] == pytest.approx(4, rel=0.3)
    printed = {utility.Goal(d, losses.EPSILONS[0], 0.3).printed_count() for d in (2, 8, 32)}
    assert len(printed) == 1
