"""Densities of neighbours' releases are within e^epsilon; the printed algorithms fail this.

The same tests for all of them. A printed one is expected to fail, strictly: if it ever passed, the
test would be worth nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.sampling import Words
from askance_papers.curator.logistic import (
    Examples,
    LogisticCalibration,
    ObjectivePerturbation,
    OutputPerturbation,
)
from askance_papers.reproduce.cm08.printed import (
    PrintedObjective,
    PrintedOutput,
    delta_of_a_shift,
)
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6
COMMON = 3
POLE = "printed: the noise's density has a pole in d > 1, so the ratio has no bound"
JACOBIAN = "printed: the change of variables is left out"


class Mechanism(Protocol):
    """Printed or corrected."""

    def release(self, examples: Examples, words: Words) -> NDArray[np.float64]: ...


def made(name: str, epsilon: float, strength: float) -> Any:
    exactly = Fraction(str(epsilon)), Fraction(str(strength))
    if name == "output":
        return OutputPerturbation(*exactly)
    if name == "printed output":
        return PrintedOutput(epsilon, strength)
    if name == "printed objective":
        return PrintedObjective(epsilon, strength)
    return ObjectivePerturbation(*exactly, LogisticCalibration(name))


def failing(name: str, reason: str) -> Any:
    return pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=reason))


CORRECTED = ["output", *LogisticCalibration]
REGIMES = [(0.2, 0.01), (0.2, 5.0), (2.0, 0.05), (2.0, 1.0)]  # epsilon, lambda; n is 4


def outcome(name: str, epsilon: float, strength: float, released: Callable[..., Any]) -> Any:
    """Return the law of a mechanism's release of COMMON + 1 rows."""
    count, mechanism = COMMON + 1, made(name, epsilon, strength)
    if name == "output":
        return released(mechanism.scale(count), False, strength, False)
    if name == "printed output":
        return released(mechanism.scale(count), True, strength, False)
    if name == "printed objective":
        return released(mechanism.scale(), True, strength, True)
    chosen = mechanism.calibrated(count)
    return released(2 / chosen.noise_epsilon, False, strength + chosen.added, True)


class TestTheRatioOfDensities:
    @pytest.mark.parametrize(("epsilon", "strength"), REGIMES)
    @pytest.mark.parametrize(
        "name", [*CORRECTED, failing("printed output", POLE), failing("printed objective", POLE)]
    )
    def test_in_two_dimensions(
        self, name: str, epsilon: float, strength: float, released: Any, worst_loss: Any
    ) -> None:
        law = outcome(name, epsilon, strength, released)
        assert worst_loss(law, 2, COMMON, 400.0) <= epsilon + 1e-9

    @pytest.mark.parametrize(
        "name", [*CORRECTED, "printed output", failing("printed objective", JACOBIAN)]
    )
    def test_in_one_dimension(self, name: str, released: Any, worst_loss: Any) -> None:
        """There a Laplace length is Laplace noise: output perturbation is right as printed."""
        law = outcome(name, 0.2, 0.01, released)
        assert worst_loss(law, 1, COMMON, 400.0) <= 0.2 + 1e-9

    @pytest.mark.parametrize("name", ["rank-one", "joint"])
    @pytest.mark.parametrize(("epsilon", "total"), [("0.2", 10), ("0.2", 20), ("2", 1), ("2", 5)])
    def test_the_argument_is_as_sharp_as_it_can_be(
        self, name: str, epsilon: str, total: int, released: Any
    ) -> None:
        """The loss is below that of the worst s, and there are neighbours that reach it.

        A row that is misclassified with the probability s has a tilt of length s and the curvature
        s (1 - s).

        At w = (0, -400) all common rows are far on the wrong side: they have no curvature, and
        their tilt points along -(1, 0) nearly. One row is half-right, the other far wrong.
        """
        count, far = 40_000, 400.0
        mechanism = made(name, float(epsilon), total / count)
        chosen = mechanism.calibrated(count)
        law = released(
            2 / chosen.noise_epsilon, False, float(mechanism.regularisation) + chosen.added, True
        )
        assert chosen.added == pytest.approx(0, abs=1e-9)
        shares = np.linspace(0.001, 0.999, 999)
        losses = chosen.noise_epsilon / 2 * (1 + shares) + np.log1p(shares * (1 - shares) / total)
        share = float(shares[losses.argmax()])

        def row(margin: float, side: int) -> NDArray[np.float64]:
            sine = -margin / far
            return np.array([side * math.sqrt(1 - sine**2), sine])

        common = np.tile(row(-20, -1), (count - 1, 1))
        one = Examples(np.vstack([common, row(math.log((1 - share) / share), 1)]))
        other = Examples(np.vstack([common, row(-8, -1)]))
        point = np.array([[0, -far]])
        found = float((law.log_density(one, point) - law.log_density(other, point))[0])
        assert 0.96 * losses.max() <= found <= losses.max() + 1e-9
        assert losses.max() <= float(mechanism.epsilon)

    @pytest.mark.parametrize("name", CORRECTED)
    @pytest.mark.parametrize(
        ("dimension", "reach", "step"), [(1, 20.0, 0.02), (2, 9.0, 0.04)], ids=["1", "2"]
    )
    def test_what_is_compared_are_densities(
        self, name: str, dimension: int, reach: float, step: float, released: Any
    ) -> None:
        """The densities integrate to 1: no factor of the change of variables is missing."""
        law = outcome(name, 2.0, 1.0, released)
        data = Examples(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0], [0.5, 0.5]])[:, :dimension])
        axes = [np.arange(-reach, reach, step)] * dimension
        points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, dimension)
        total = np.exp(law.log_density(data, points)).sum() * step**dimension
        assert total == pytest.approx(1, abs=1e-3)

    @pytest.mark.parametrize("name", [*CORRECTED, "printed output", "printed objective"])
    def test_releases_have_that_density(self, name: str, released: Any) -> None:
        """In one dimension, by Kolmogorov's test; 600 draws find a shift of .12 in probability."""
        law = outcome(name, 2.0, 1.0, released)
        data = Examples(np.array([[1.0], [0.6], [-0.3], [0.5]]))
        mechanism: Mechanism = made(name, 2.0, 1.0)
        words = SeededWords(Seed.of(1) / f"density {name}")
        drawn = np.array([mechanism.release(data, words)[0] for _ in range(600)])
        axis = np.arange(-30, 30, 0.005)
        below = np.cumsum(np.exp(law.log_density(data, axis[:, None]))) * 0.005
        assert stats.kstest(drawn, lambda x: np.interp(x, axis, below)).pvalue > ALPHA


class TestFromOutside:
    """A distinguisher that sees releases only: 20 columns, 100 rows of which one differs."""

    EPSILON, STRENGTH, DIMENSION = 0.2, 0.01, 20
    COUNT, RUNS = 100, 450

    def neighbours(self) -> tuple[Examples, Examples]:
        """Two misclassified rows pull fully, and nearly in opposite directions.

        All other rows pull far enough along the second axis for both of these to be misclassified.
        """
        rows = np.zeros((self.COUNT, self.DIMENSION))
        rows[:, 1] = 1
        one, other = rows.copy(), rows
        one[-1, :2], other[-1, :2] = (0.87, -0.49), (-0.87, -0.49)
        return Examples(one), Examples(other)

    @pytest.mark.parametrize(
        "name", [*CORRECTED, failing("printed output", POLE), failing("printed objective", POLE)]
    )
    def test_no_event_is_e_epsilon_times_likelier(self, name: str, released: Any) -> None:
        """The event: the first's noise would be the shorter, so that the first is likelier.

        Both probabilities are bounded by Clopper and Pearson.
        """
        mechanism: Mechanism = made(name, self.EPSILON, self.STRENGTH)
        law, pair = self.law(mechanism, released), self.neighbours()
        hits = []
        for place, data in enumerate(pair):
            words = SeededWords(Seed.of(1) / f"outside {name}" / place)
            drawn = np.array([mechanism.release(data, words) for _ in range(self.RUNS)])
            if law.tilts:
                noises = [law.tilt(candidate, drawn) for candidate in pair]
            else:
                noises = [drawn - law.centre(candidate) for candidate in pair]
            first, second = (np.linalg.norm(noise, axis=1) for noise in noises)
            hits.append(int((first < second).sum()))
        least = stats.beta.ppf(ALPHA / 2, hits[0], self.RUNS - hits[0] + 1)
        most = stats.beta.isf(ALPHA / 2, hits[1] + 1, self.RUNS - hits[1])
        assert least <= math.exp(self.EPSILON) * most

    def law(self, mechanism: Any, released: Callable[..., Any]) -> Any:
        if isinstance(mechanism, ObjectivePerturbation):
            return released(
                1.0, False, self.STRENGTH + mechanism.calibrated(self.COUNT).added, True
            )
        return released(1.0, False, self.STRENGTH, isinstance(mechanism, PrintedObjective))


class TestThePrintedDelta:
    def test_in_the_papers_setting_it_is_half(self) -> None:
        assert 0.49 <= delta_of_a_shift(0.2, 20, 0.2) <= 0.5

    def test_no_shift_costs_nothing(self) -> None:
        assert delta_of_a_shift(0.2, 20, 0.0) == 0

    def test_it_is_the_integral(self) -> None:
        """In two dimensions, over the lengths and angles of v, where the pole weighs little."""
        lengths = np.arange(0, 14, 0.004) + 0.002
        angles = (np.arange(400) + 0.5) * np.pi / 400
        r, angle = np.meshgrid(lengths, angles)
        moved = np.sqrt(r**2 - r * np.cos(angle) + 0.25)  # by 1/2
        gap = np.exp(-r) - math.exp(0.3) * np.exp(-moved) * r / moved
        integral = np.maximum(gap, 0).sum() * 0.004 / 400
        assert delta_of_a_shift(0.3, 2, 0.5) == pytest.approx(float(integral), abs=1e-3)
