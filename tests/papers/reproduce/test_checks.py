"""Checks of the reproductions: correct laws pass, and laws that are off either way fail."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from askance_aggregator.sampling import discrete_laplace
from askance_papers.reproduce.checks import (
    bit_noise,
    counts_agree,
    events_agree,
    gamma_noise,
    laplace_noise,
    normal_noise,
    rate_agrees,
    rate_between,
    rate_exceeded,
)
from askance_simulation.randomness.seeds import Seed
from askance_simulation.randomness.words import SeededWords

N = 400  # draws of each test: a factor of 1.6 either way is seen by all of them


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(15)


class TestRate:
    @pytest.mark.parametrize(("count", "agrees"), [(0, False), (50, True), (100, False)])
    def test_both_tails_are_tested(self, count: int, agrees: bool) -> None:
        assert rate_agrees(count, 1000, 0.05) == agrees

    def test_the_false_alarms_are_at_most_alpha_by_enumeration(self) -> None:
        """Sum of the probabilities of all counts that are rejected."""
        from scipy.stats import binom

        refused = [k for k in range(101) if not rate_agrees(k, 100, 0.3, 0.01)]
        assert 0.002 < sum(binom.pmf(refused, 100, 0.3)) <= 0.01

    @pytest.mark.parametrize(
        ("count", "possible"), [(15, False), (50, True), (100, True), (160, False)]
    )
    def test_a_range_of_rates_has_two_sides(self, count: int, possible: bool) -> None:
        assert rate_between(count, 1000, 0.05, 0.1) == possible

    @pytest.mark.parametrize(("count", "exceeded"), [(0, False), (50, False), (100, True)])
    def test_a_bound_of_a_rate_has_one(self, count: int, exceeded: bool) -> None:
        assert rate_exceeded(count, 1000, 0.05) == exceeded

    @pytest.mark.parametrize(("count", "possible"), [(10, False), (50, True), (90, False)])
    def test_events_of_different_chances(self, count: int, possible: bool) -> None:
        """Test sums of unequal chances; 100 sure events make a count below 100 impossible."""
        assert events_agree(count, [0.01] * 500 + [0.09] * 500) == possible
        assert events_agree(100 + count, [1] * 100 + [0.05] * 1000) == possible
        assert not events_agree(99, [1] * 100 + [0.05] * 1000)

    def test_events_of_equal_chances_are_a_rate(self) -> None:
        found = [events_agree(count, [0.3] * 100, 0.01) for count in range(101)]
        assert found == [rate_agrees(count, 100, 0.3, 0.01) for count in range(101)]


@pytest.mark.parametrize(
    ("factor", "possible"), [(0.25, False), (0.6, False), (1, True), (1.6, False), (4, False)]
)
class TestNoise:
    def test_normal(self, rng: np.random.Generator, factor: float, possible: bool) -> None:
        assert normal_noise(factor * rng.normal(size=N), 1.0).possible == possible

    def test_gamma(self, rng: np.random.Generator, factor: float, possible: bool) -> None:
        found = gamma_noise(factor * rng.gamma(5, 2.0, N), 5, 2.0)
        assert found.possible == possible
        assert found.ratio == pytest.approx(factor, rel=0.1)

    @pytest.mark.parametrize("scale", [1, 10, 1000])
    def test_discrete_laplace(self, scale: int, factor: float, possible: bool) -> None:
        words = SeededWords(Seed.of(scale) / str(factor))
        draws = discrete_laplace(words, Fraction(factor) * scale, N)
        assert laplace_noise(draws, scale).possible == possible

    def test_randomized_response(
        self, rng: np.random.Generator, factor: float, possible: bool
    ) -> None:
        """The number of users is off by the square of the factor."""
        share, users, lie = 0.2, 100_000, 1 / (1 + np.e)
        asked = round(users / factor**2)
        reports = rng.binomial(asked, lie + share * (1 - 2 * lie), N) / asked
        answers = (reports - lie) / (1 - 2 * lie)
        assert bit_noise(answers, share, users, 1.0).possible == possible


class TestWhatElseIsImpossible:
    def test_a_shifted_mean(self, rng: np.random.Generator) -> None:
        assert not normal_noise(rng.normal(0.5, 1, N), 1.0).possible

    def test_a_one_sided_laplace_draw(self) -> None:
        draws = discrete_laplace(SeededWords(Seed.of(1)), Fraction(10), N)
        assert not laplace_noise(np.abs(draws), 10).possible

    def test_a_draw_between_two_whole_numbers(self) -> None:
        draws = discrete_laplace(SeededWords(Seed.of(1)), Fraction(10), N)
        assert not laplace_noise(draws + 0.5, 10).possible

    def test_no_draws_but_zeros(self) -> None:
        assert not laplace_noise(np.zeros(N), 1).possible

    def test_one_outcome_of_three_is_too_frequent(self) -> None:
        assert counts_agree([330, 340, 330], [1 / 3] * 3)
        assert not counts_agree([300, 500, 200], [1 / 3] * 3)
