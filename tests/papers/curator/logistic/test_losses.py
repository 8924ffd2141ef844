"""Losses of a margin: their slopes and curvatures are those of their values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_client.errors import InvalidParameter
from askance_papers.curator.logistic import (
    GRADIENT,
    LOGISTIC,
    Examples,
    HuberHinge,
    LogisticCalibration,
    MarginLoss,
    ModifiedHuber,
    ObjectivePerturbation,
    OutputPerturbation,
    calibrate,
    minimise,
)
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6
LOSSES: list[MarginLoss] = [LOGISTIC, HuberHinge(), HuberHinge(Fraction(1, 50)), ModifiedHuber()]
OTHERS = LOSSES[1:]
MARGINS = np.linspace(-8, 8, 3201) + 1e-4  # no point where a piece ends
STEP = 1e-5


@pytest.mark.parametrize("loss", LOSSES, ids=lambda one: one.name)
class TestEach:
    def test_slopes_are_of_the_values(self, loss: MarginLoss) -> None:
        found = (loss.values(MARGINS - STEP) - loss.values(MARGINS + STEP)) / (2 * STEP)
        assert np.allclose(found, loss.slopes(MARGINS), atol=1e-6)

    def test_curvatures_are_of_the_slopes(self, loss: MarginLoss) -> None:
        found = (loss.slopes(MARGINS - STEP) - loss.slopes(MARGINS + STEP)) / (2 * STEP)
        assert np.allclose(found, loss.curvatures(MARGINS), atol=1e-6)

    def test_bounds_are_attained(self, loss: MarginLoss) -> None:
        wide = np.concatenate([MARGINS, [-50.0, 50.0]])
        assert loss.slopes(wide).min() >= 0
        assert loss.slopes(wide).max() == pytest.approx(float(loss.slope_bound), rel=1e-9)
        assert loss.slopes(wide).max() <= loss.slope_bound
        assert loss.curvatures(wide).min() >= 0
        assert loss.curvatures(wide).max() == pytest.approx(float(loss.curvature_bound), rel=1e-6)
        assert loss.curvatures(wide).max() <= loss.curvature_bound

    def test_a_fading_curvature_fades(self, loss: MarginLoss) -> None:
        """No constant bounds curvature / (1 - slope / kappa) where none is stated."""
        inside = MARGINS[loss.curvatures(MARGINS) > 0]
        left = 1 - loss.slopes(inside) / float(loss.slope_bound)
        ratio = float((loss.curvatures(inside) / np.maximum(left, 1e-12)).max())
        if loss.fading_curvature is None:
            assert ratio > 100
        else:
            assert 0.99 * loss.fading_curvature <= ratio <= loss.fading_curvature * (1 + 1e-9)

    @pytest.mark.parametrize("strength", [1e-6, 1e-3, 1.0])
    def test_the_minimisers_gradient_vanishes(self, loss: MarginLoss, strength: float) -> None:
        rng = np.random.default_rng(4)
        rows = rng.standard_normal((200, 5))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        data, tilt = Examples(rows), 3 * rng.standard_normal(5)
        point = minimise(data, strength, tilt, loss)
        pulls = data.signed.T @ loss.slopes(data.signed @ point)
        gradient = strength * point + (tilt - pulls) / data.count
        assert np.linalg.norm(gradient) <= 1.01 * GRADIENT

    def test_noise_is_in_proportion_to_the_slope(self, loss: MarginLoss) -> None:
        """Scales 2 kappa/(n lambda eps) and 2 kappa/eps'; a scale that is off by a half fails."""
        data = Examples(np.full((40, 4), 0.3))
        output = OutputPerturbation.of(1, "0.5", loss)
        tilted = ObjectivePerturbation.of(1, "0.5", LogisticCalibration.RANK_ONE, loss)
        kappa, strength = float(loss.slope_bound), 0.5 + tilted.calibrated(40).added
        assert output.scale(40) == pytest.approx(2 * kappa / 20, rel=1e-6)
        words = SeededWords(Seed.of(1) / loss.name)
        moved = [output.release(data, words) - minimise(data, 0.5, None, loss) for _ in range(400)]
        points = np.array([tilted.release(data, words) for _ in range(400)])
        tilts = loss.slopes(points @ data.signed.T) @ data.signed - 40 * strength * points
        for noise, scale in ((np.array(moved), output.scale(40)), (tilts, tilted.scale(40))):
            lengths = np.linalg.norm(noise, axis=1)
            for factor, holds in ((1.0, True), (1.5, False), (0.67, False)):
                found = stats.kstest(lengths, "gamma", args=(4, 0, factor * scale)).pvalue
                assert bool(found > ALPHA) is holds


@pytest.mark.parametrize("loss", OTHERS, ids=lambda one: one.name)
def test_one_factor_of_the_curvature_is_paid_for(loss: MarginLoss) -> None:
    for epsilon, strength in (
        (Fraction(1, 5), Fraction(1, 100)),
        (Fraction(1), Fraction(1, 10**6)),
    ):
        found = calibrate(LogisticCalibration.RANK_ONE, epsilon, 50, strength, loss)
        factor = np.log1p(float(loss.curvature_bound) / (50 * (float(strength) + found.added)))
        assert found.noise_epsilon + factor == pytest.approx(float(epsilon), rel=1e-9)


@pytest.mark.parametrize("loss", OTHERS, ids=lambda one: one.name)
def test_the_joint_bound_is_for_a_curvature_that_fades(loss: MarginLoss) -> None:
    """At a slope just below kappa the full curvature is still there."""
    with pytest.raises(InvalidParameter, match=r"expected rank-one or jmlr .*got joint"):
        ObjectivePerturbation.of(1, "0.01", loss=loss)


@pytest.mark.parametrize("width", [0, -1, Fraction(1, 10**6), 10**6])
def test_a_hinge_has_a_rounded_corner(width: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"width: expected 0\.001"):
        HuberHinge(Fraction(width))
