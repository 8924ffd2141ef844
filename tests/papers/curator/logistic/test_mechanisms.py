"""Both mechanisms say what they cost, add the noise they say, and refuse before they draw."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.composition import Pure
from askance_client.errors import InvalidParameter
from askance_papers.curator.logistic import (
    Examples,
    LogisticCalibration,
    ObjectivePerturbation,
    OutputPerturbation,
    minimise,
)
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6
MECHANISMS: list[Any] = [OutputPerturbation, ObjectivePerturbation]


class NoWords:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("a word was drawn")


def words(name: str) -> SeededWords:
    return SeededWords(Seed.of(1) / name)


def data(count: int = 50, dimension: int = 20) -> Examples:
    rows = np.random.default_rng(3).uniform(-1, 1, (count, dimension)) / dimension**0.5
    return Examples.of(rows, np.where(rows[:, 0] > 0, 1, -1))


@pytest.mark.parametrize("kind", MECHANISMS)
class TestBoth:
    def test_a_release_is_pure(self, kind: Any) -> None:
        assert kind.of("0.1", 0.01).event == Pure(Fraction(1, 10))

    @pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "x", None, True])
    def test_an_epsilon_is_above_0(self, kind: Any, epsilon: Any) -> None:
        with pytest.raises(InvalidParameter, match="epsilon"):
            kind.of(epsilon, 0.01)

    @pytest.mark.parametrize("strength", [0, -1, float("nan"), 1e-10, 1e7, "x"])
    def test_a_regularisation_is_in_its_range(self, kind: Any, strength: Any) -> None:
        with pytest.raises(InvalidParameter, match="regularisation"):
            kind.of(1, strength)

    def test_the_same_words_release_the_same(self, kind: Any) -> None:
        one, two = (kind.of(1, 0.01).release(data(), words("same")) for _ in range(2))
        assert one.tolist() == two.tolist()

    def test_much_epsilon_finds_the_minimiser(self, kind: Any) -> None:
        found = kind.of(10**5, 0.1).release(data(), words("much"))
        assert np.allclose(found, minimise(data(), 0.1), atol=1e-3)


def gamma_lengths(noise: NDArray[np.float64], scale: float) -> float:
    lengths = np.linalg.norm(noise, axis=1)
    return float(stats.kstest(lengths, "gamma", args=(noise.shape[1], 0, scale)).pvalue)


def test_the_output_is_moved_by_a_gamma_length() -> None:
    """Scale 2 / (n lambda eps) = .4; 500 draws find a scale that is off by a tenth."""
    mechanism, source = OutputPerturbation.of(1, "0.1"), words("output")
    assert mechanism.scale(50) == pytest.approx(0.4)
    drawn = np.array([mechanism.release(data(), source) for _ in range(500)])
    noise = drawn - minimise(data(), 0.1)
    assert gamma_lengths(noise, 0.4) > ALPHA
    assert gamma_lengths(noise, 0.44) < ALPHA
    assert abs(noise.mean(axis=0)).max() < 6 * noise.std() / 500**0.5


def test_the_scale_covers_the_minimisers_tolerance() -> None:
    """A gradient of 1e-10 leaves the minimiser 1e-10 / lambda away, on either side."""
    scale = OutputPerturbation.of(1, "1e-6").scale(10)
    assert scale >= (2 / (10 * 1e-6)) * (1 + 10 * 1e-10)


@pytest.mark.parametrize("kind", LogisticCalibration)
def test_the_objective_is_tilted_by_a_gamma_length(kind: LogisticCalibration) -> None:
    mechanism, source = ObjectivePerturbation.of(1, "0.1", kind), words(f"objective {kind}")
    chosen, examples = mechanism.calibrated(50), data()
    drawn = np.array([mechanism.release(examples, source) for _ in range(500)])
    pulls = (1 / (1 + np.exp(drawn @ examples.signed.T))) @ examples.signed
    tilts = pulls - 50 * (0.1 + chosen.added) * drawn
    assert gamma_lengths(tilts, 2 / chosen.noise_epsilon) > ALPHA
    assert gamma_lengths(tilts, 2.2 / chosen.noise_epsilon) < ALPHA


def test_objective_perturbation_is_the_better_one_where_lambda_is_small() -> None:
    source, right = words("better"), {}
    for kind in MECHANISMS:
        drawn = [kind.of(2, "0.001").release(data(2000), source) for _ in range(20)]
        right[kind] = np.mean([(data(2000).signed @ point > 0).mean() for point in drawn])
    assert right[ObjectivePerturbation] > 0.9
    assert right[OutputPerturbation] < right[ObjectivePerturbation] - 0.05


def test_output_perturbation_draws_nothing_without_a_minimiser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("askance_papers.curator.logistic.mechanisms._STEPS", 1)
    with pytest.raises(ArithmeticError, match="the minimiser: expected a gradient"):
        OutputPerturbation.of(1, "0.01").release(data(), NoWords())
