"""Calibrations: one factor suffices for the change of variables; each one's rest for the noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from askance_client.errors import InvalidParameter
from askance_papers.curator.logistic import LogisticCalibration, calibrate

EPSILONS = [Fraction(1, 100), Fraction(1, 5), Fraction(1), Fraction(8), Fraction(2000)]
STRENGTHS = [Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 10), Fraction(10)]


def test_hessians_of_neighbours_differ_by_one_factor_at_most() -> None:
    """The bound holds and is attained, for H >= floor I.

    It is det(H + c x x^T) / det(H + c' x' x'^T) <= 1 + 1 / (4 floor).
    """
    rng = np.random.default_rng(2)
    greatest = 0.0
    for _ in range(2000):
        floor = 10 ** rng.uniform(-2, 1)
        others, row, instead = (rng.standard_normal((k, 3)) for k in (4, 1, 1))
        others, row, instead = (
            part / np.linalg.norm(part, axis=1, keepdims=True) for part in (others, row, instead)
        )
        weights = rng.uniform(0, 0.25, 4) * rng.integers(0, 2)  # often the others weigh nothing
        common = floor * np.eye(3) + (others * weights[:, None]).T @ others
        one = common + 0.25 * row.T @ row
        other = common + rng.choice([0, 0.25]) * instead.T @ instead
        excess = np.linalg.det(one) / np.linalg.det(other) / (1 + 0.25 / floor)
        greatest = max(greatest, excess)
        assert excess <= 1 + 1e-12
    assert greatest == pytest.approx(1)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("count", [1, 1000])
class TestWhatIsSpent:
    def test_noise_and_one_factor_spend_epsilon_exactly(
        self, epsilon: Fraction, strength: Fraction, count: int
    ) -> None:
        found = calibrate(LogisticCalibration.RANK_ONE, epsilon, count, strength)
        factor = math.log1p(0.25 / (count * (float(strength) + found.added)))
        assert found.noise_epsilon + factor <= float(epsilon)
        assert found.noise_epsilon + factor == pytest.approx(float(epsilon), rel=1e-9)
        assert found.added >= 0
        assert found.noise_epsilon >= float(epsilon) / 2 * (1 - 1e-9)

    def test_jmlr_spends_the_factor_twice(
        self, epsilon: Fraction, strength: Fraction, count: int
    ) -> None:
        found = calibrate(LogisticCalibration.JMLR, epsilon, count, strength)
        factor = math.log1p(0.25 / (count * (float(strength) + found.added)))
        assert found.noise_epsilon + 2 * factor == pytest.approx(float(epsilon), rel=1e-9)
        assert (found.added > 0) == (2 * math.log1p(0.25 / (count * strength)) > epsilon)

    def test_jointly_all_is_for_the_noise_and_the_strength_suffices(
        self, epsilon: Fraction, strength: Fraction, count: int
    ) -> None:
        """The loss g(s) = eps' (1 + s)/2 + ln(1 + s (1 - s)/N) never passes epsilon.

        A strength that is a tenth less than the required one would not suffice.
        """
        found = calibrate(LogisticCalibration.JOINT, epsilon, count, strength)
        assert found.noise_epsilon == pytest.approx(float(epsilon), rel=1e-9)
        assert found.noise_epsilon < float(epsilon)
        share = np.linspace(0, 1, 10_001)
        for part, holds in ((1.0, True), (0.9, False)):
            floor = count * (float(strength) + found.added) * part
            noise = found.noise_epsilon * (1 + share) / 2
            loss = (noise + np.log1p(share * (1 - share) / floor)).max()
            assert bool(loss <= float(epsilon)) is (holds or found.added == 0)

    def test_jmlr_has_never_less_noise_or_less_regularisation(
        self, epsilon: Fraction, strength: Fraction, count: int
    ) -> None:
        ours = calibrate(LogisticCalibration.RANK_ONE, epsilon, count, strength)
        theirs = calibrate(LogisticCalibration.JMLR, epsilon, count, strength)
        assert theirs.noise_epsilon <= ours.noise_epsilon or theirs.added > ours.added


def test_ours_are_continuous_and_jmlrs_is_not() -> None:
    """JMLR's noise has a pole where 2 ln(1 + 1/(4 n lambda)) reaches epsilon from below."""
    edge = 0.25 / math.expm1(0.5) / 100  # the lambda of that pole, for epsilon 1 and n = 100
    kinds = {kind: kind is not LogisticCalibration.JMLR for kind in LogisticCalibration}
    for kind, bounded in kinds.items():
        ratios = []
        for there in (edge, 0.25 / math.expm1(1) / 100, 0.02):
            below, above = (
                calibrate(kind, Fraction(1), 100, Fraction(there * (1 + tiny))).noise_epsilon
                for tiny in (-1e-6, 1e-6)
            )
            ratios.append(max(below / above, above / below))
        assert (max(ratios) < 1.001) is bounded


def test_a_known_value() -> None:
    """At eps = .2, n = 1000, lambda = .01: 2 ln 1.025 and ln 1.025 less."""
    arguments = (Fraction(1, 5), 1000, Fraction(1, 100))
    ours, theirs, joint = (calibrate(kind, *arguments) for kind in LogisticCalibration)
    assert ours.added == theirs.added == 0
    assert joint.added == pytest.approx(0, abs=1e-9)  # n lambda is 2/eps just so
    assert joint.noise_epsilon == pytest.approx(0.2)
    assert ours.noise_epsilon == pytest.approx(0.175307387, abs=1e-9)
    assert theirs.noise_epsilon == pytest.approx(0.150614775, abs=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "count", "strength"), [(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, -1)]
)
def test_everything_is_above_0(epsilon: int, count: int, strength: int) -> None:
    for kind in LogisticCalibration:
        with pytest.raises(InvalidParameter, match="calibration: expected"):
            calibrate(kind, Fraction(epsilon), count, Fraction(strength))
