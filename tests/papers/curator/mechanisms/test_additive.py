"""Laplace and Gaussian: exactly private on whole numbers, by enumeration; intervals that hold."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.composition import Concentrated, Pure
from askance_client.errors import AskanceError, InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms import Gaussian, Laplace, gaussian, laplace
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6


class Untouched:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"expected nothing to be drawn, found {count} words asked for")


def words(name: str) -> SeededWords:
    return SeededWords(Seed.of(1) / name)


def laplace_tail(mechanism: Laplace, reach: int) -> Decimal:
    """Compute P[|k| > reach], by summing the rest of the probabilities."""
    with localcontext(prec=60):
        scale = Decimal(mechanism.scale.numerator) / mechanism.scale.denominator
        weights = [(-abs(Decimal(k)) / scale).exp() for k in range(-3000, 3001)]
        inside = sum(weights[3000 - reach : 3001 + reach], Decimal(0))
        return 1 - inside / sum(weights, Decimal(0))


class TestLaplace:
    def test_the_loss_of_any_two_neighbours_is_at_most_epsilon_and_reaches_it(self) -> None:
        """Loss ln P[k - a] / P[k - b] over all outputs k, for all a, b at most 4 steps apart."""
        mechanism = Laplace(Fraction(3, 2), 4)
        losses = {
            (abs(k - b) - abs(k - a)) / mechanism.scale
            for a in range(-4, 5)
            for b in range(a - 4, a + 5)
            for k in range(-20, 21)
        }
        assert max(losses) == mechanism.epsilon == Fraction(3, 2)
        assert mechanism.event == Pure(Fraction(3, 2))

    @pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999999"])
    @pytest.mark.parametrize("sensitivity", [1, 7])
    def test_an_interval_is_the_shortest_that_holds(
        self, confidence: str, sensitivity: int
    ) -> None:
        mechanism = Laplace(Fraction(1, 2), sensitivity)
        reach = mechanism.half_width(confidence)
        allowed = 1 - Decimal(confidence)
        assert laplace_tail(mechanism, reach) <= allowed
        assert reach == 0 or laplace_tail(mechanism, reach - 1) > allowed

    def test_no_reach_is_needed_where_nothing_is_drawn_but_zero(self) -> None:
        assert Laplace(Fraction(50), 1).half_width("0.99") == 0

    def test_a_joint_interval_holds_for_all(self) -> None:
        mechanism = Laplace(Fraction(1), 1)
        reach = mechanism.half_width("0.95", answers=100)
        assert (1 - laplace_tail(mechanism, reach)) ** 100 >= Decimal("0.95")
        assert (1 - laplace_tail(mechanism, reach - 1)) ** 100 < Decimal("0.95")

    def test_a_real_answer_is_rounded_before_the_draw(self) -> None:
        """The same words and answers that round alike: what is released is the same."""
        one, other = (
            laplace(value, sensitivity=1, epsilon=1, words=words("same"), step="1/8", rounded=1)
            for value in (0.99, 1.01)
        )
        assert one.steps.tolist() == other.steps.tolist()
        assert one.mechanism == Laplace(Fraction(1), 8)
        assert one.unit == Fraction(1, 8)

    def test_answers_are_integers_beside_their_draws(self) -> None:
        found = laplace([5, -3], sensitivity=2, epsilon="0.5", words=words("beside"))
        drawn = Laplace(Fraction(1, 2), 2).draws(words("beside"), 2)
        assert found.steps.tolist() == (np.array([5, -3]) + drawn).tolist()
        assert found.values.tolist() == found.steps.tolist()

    def test_intervals_hold_as_often_as_they_say(self) -> None:
        """20,000 answers, joint misses not counted: each interval misses 5 % or a little less."""
        truth = np.linspace(0, 100, 20_000)
        found = laplace(
            truth, sensitivity=1, epsilon=1, words=words("cover"), step="1/64", rounded=1
        )
        lows, highs = found.intervals("0.95")
        misses = int(((truth < lows) | (truth > highs)).sum())
        assert stats.binomtest(misses, 20_000, 0.05, alternative="greater").pvalue > ALPHA
        assert stats.binomtest(misses, 20_000, 0.045, alternative="less").pvalue > ALPHA


class TestGaussian:
    def test_its_budget_is_the_squared_sensitivity_over_twice_the_variance(self) -> None:
        mechanism = Gaussian(Fraction(1, 8), 2)
        assert mechanism.variance == 8
        assert mechanism.event == Concentrated(Fraction(1, 8))

    @pytest.mark.parametrize("order", [2, 5, 20])
    def test_the_divergence_of_neighbours_is_at_most_rho_times_the_order(self, order: int) -> None:
        """Renyi divergence of two discrete Gaussians 3 steps apart, summed."""
        mechanism = Gaussian(Fraction(1, 3), 9)
        k = np.arange(-400, 401)
        log_p, log_q = (-((k - a) ** 2) / (2 * float(mechanism.variance)) for a in (0, 3))
        log_p, log_q = (one - np.logaddexp.reduce(one) for one in (log_p, log_q))
        divergence = np.logaddexp.reduce(order * log_p - (order - 1) * log_q) / (order - 1)
        assert divergence <= order * float(mechanism.rho) * (1 + 1e-12)

    @pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.9999"])
    @pytest.mark.parametrize("rho", [Fraction(1, 2), Fraction(1, 5000)])
    def test_an_interval_holds_and_is_nearly_the_shortest(
        self, confidence: str, rho: Fraction
    ) -> None:
        mechanism = Gaussian(rho, 1)
        k = np.arange(-5000, 5001)
        weights = np.exp(-(k**2) / (2 * float(mechanism.variance)))
        weights /= weights.sum()
        reach = mechanism.half_width(confidence)
        assert weights[np.abs(k) <= reach].sum() >= float(confidence)
        assert weights[np.abs(k) <= reach - 3].sum() < float(confidence)

    def test_a_vector_pays_for_each_rounded_entry(self) -> None:
        found = gaussian([0.5, 0.25], squared=1, rho=1, words=words("v"), step="1/100", rounded=2)
        assert isinstance(found.mechanism, Gaussian)
        assert 101.4**2 < found.mechanism.squared <= 101.5**2
        assert found.rounding == Fraction(1, 200)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"answers": [1], "epsilon": 0}, "epsilon"),
    ({"answers": [1], "epsilon": float("nan")}, "epsilon"),
    ({"answers": [1], "sensitivity": 0}, "sensitivity"),
    ({"answers": [1], "sensitivity": float("inf")}, "sensitivity"),
    ({"answers": [1], "step": 0}, "step"),
    ({"answers": [1], "step": "x"}, "step"),
    ({"answers": [1], "step": 2}, "step"),
    ({"answers": [1], "step": Fraction(1, 2**60), "epsilon": "0.001"}, "step"),
    ({"answers": [1.5]}, "whole numbers of steps"),
    ({"answers": [1.5], "rounded": 2}, "rounded"),
    ({"answers": []}, "answers"),
    ({"answers": [[1]]}, "answers"),
    ({"answers": [float("nan")], "rounded": 1}, "answers"),
    ({"answers": "many"}, "answers"),
]


@pytest.mark.parametrize(("given", "what"), BAD)
def test_bad_input_is_one_clear_error_and_nothing_is_drawn(
    given: dict[str, Any], what: str
) -> None:
    good = {"sensitivity": 1, "epsilon": 1, "words": Untouched()}
    with pytest.raises(AskanceError, match=what):
        laplace(**{**good, **given})


@pytest.mark.parametrize("rho", [0, -1, "x", float("nan")])
def test_a_rho_is_a_number_above_nought(rho: Any) -> None:
    with pytest.raises(InvalidParameter, match="rho"):
        gaussian(1, squared=1, rho=rho, words=Untouched())


def test_an_answer_off_the_grid_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="between two"):
        gaussian(0.3, squared=1, rho=1, words=Untouched())


@pytest.mark.parametrize("confidence", [0, 1, "x", 2])
def test_a_confidence_is_between_nought_and_one(confidence: Any) -> None:
    for mechanism in (Laplace(Fraction(1), 1), Gaussian(Fraction(1), 1)):
        with pytest.raises(InvalidParameter, match="confidence"):
            mechanism.half_width(confidence)
        with pytest.raises(InvalidParameter, match="answers"):
            mechanism.half_width("0.9", answers=0)
