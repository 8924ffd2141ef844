"""Checks of the reproductions: correct laws pass, and laws that are off either way fail."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from askance_aggregator.sampling import discrete_laplace
from askance_papers.reproduce.checks import (
    Floats,
    bit_noise,
    counts_agree,
    directions_agree,
    events_agree,
    laplace_noise,
    law_agrees,
    normal_noise,
    rate_agrees,
    rate_between,
    rate_exceeded,
    repeats_agree,
    spherical_noise,
)
from askance_simulation.randomness import Seed, SeededWords

N = 400  # draws of each test: a factor of 1.6 either way is seen by all of them


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(15)


def vectors(rng: np.random.Generator, d: int, scale: float, count: int = N) -> Floats:
    """Draw vectors with density e^(-length/scale)."""
    normal = rng.normal(size=(count, d))
    lengths = rng.gamma(d, scale, (count, 1))
    return np.asarray(lengths * normal / np.linalg.norm(normal, axis=1, keepdims=True))


def turned(found: Floats, onto: Floats) -> Floats:
    """Turn vectors to other directions, their lengths kept."""
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(lengths * onto / np.linalg.norm(onto, axis=1, keepdims=True))


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
        found = spherical_noise(factor * vectors(rng, 5, 2.0), 5, 2.0)
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


class TestLaw:
    def test_a_sample_of_it_is_possible_and_one_of_another_is_not(
        self, rng: np.random.Generator
    ) -> None:
        assert law_agrees(rng.random(N))
        assert not law_agrees(rng.random(N) ** 2)
        assert not law_agrees(np.sqrt(rng.random(N)))
        assert not law_agrees(np.full(N, 0.5))

    def test_the_distance_is_that_of_both_sides_of_a_step(self) -> None:
        """Let the sample's function jump from 0 to 1 at one half: by a half on either side."""
        assert law_agrees(np.array([0.5]), 2 * np.exp(-2 * 0.51**2))
        assert not law_agrees(np.array([0.5]), 2 * np.exp(-2 * 0.49**2))


class TestDirections:
    """Vectors whose lengths have the right law, in one to twenty dimensions."""

    @pytest.mark.parametrize("d", [1, 2, 3, 20])
    def test_uniform_ones_are_possible(self, rng: np.random.Generator, d: int) -> None:
        found = vectors(rng, d, 2.0)
        assert spherical_noise(found, d, 2.0, rng.normal(size=(N, d))).possible

    @pytest.mark.parametrize("d", [1, 3])
    def test_the_false_alarms_are_no_more_than_stated(self, d: int) -> None:
        rng = np.random.default_rng(d)
        refused = sum(not directions_agree(vectors(rng, d, 1.0, 40), alpha=0.1) for _ in range(100))
        assert refused <= 10 + 4 * 3

    @pytest.mark.parametrize("d", [1, 2, 5])
    def test_nowhere_negative(self, rng: np.random.Generator, d: int) -> None:
        assert not spherical_noise(np.abs(vectors(rng, d, 1.0)), d, 1.0).possible

    def test_one_sign_for_all_coordinates(self, rng: np.random.Generator) -> None:
        found = vectors(rng, 3, 1.0)
        assert not directions_agree(np.abs(found) * rng.choice([-1, 1], (N, 1)))

    def test_along_the_axes(self, rng: np.random.Generator) -> None:
        found = vectors(rng, 3, 1.0)
        axes = np.eye(3)[rng.integers(0, 3, N)] * rng.choice([-1, 1], (N, 1))
        assert not directions_agree(turned(found, axes))

    def test_in_a_plane(self, rng: np.random.Generator) -> None:
        found = vectors(rng, 3, 1.0)
        assert not directions_agree(turned(found, found * np.array([1, 1, 0])))

    def test_each_used_twice(self, rng: np.random.Generator) -> None:
        found = vectors(rng, 3, 1.0)
        for shift in (0, 1):
            assert not directions_agree(np.roll(np.repeat(found[::2], 2, axis=0), shift, axis=0))

    def test_a_length_used_twice(self, rng: np.random.Generator) -> None:
        found = vectors(rng, 3, 1.0)
        lengths = np.linalg.norm(found, axis=1)
        found *= (np.repeat(lengths[::2], 2) / lengths)[:, np.newaxis]
        assert not spherical_noise(found, 3, 1.0).possible

    def test_always_to_the_side_of_the_data(self, rng: np.random.Generator) -> None:
        found, data = vectors(rng, 3, 1.0), rng.normal(size=(N, 3))
        beside = np.where((found * data).sum(axis=1, keepdims=True) > 0, data, -data)
        assert not directions_agree(found, beside)
        assert directions_agree(found, data)

    def test_long_ones_on_one_side(self, rng: np.random.Generator) -> None:
        found = vectors(rng, 3, 1.0)
        lengths = np.linalg.norm(found, axis=1)
        found[:, 0] = np.copysign(found[:, 0], lengths - np.median(lengths))
        assert directions_agree(found)
        assert not spherical_noise(found, 3, 1.0).possible


class TestWhatElseIsImpossible:
    def test_a_shifted_mean(self, rng: np.random.Generator) -> None:
        assert not normal_noise(rng.normal(0.5, 1, N), 1.0).possible

    def test_a_one_sided_laplace_draw(self) -> None:
        draws = discrete_laplace(SeededWords(Seed.of(1)), Fraction(10), N)
        assert not laplace_noise(np.abs(draws), 10).possible

    def test_a_draw_between_two_whole_numbers(self) -> None:
        draws = discrete_laplace(SeededWords(Seed.of(1)), Fraction(10), N)
        assert not laplace_noise(draws + 0.5, 10).possible

    def test_a_laplace_draw_used_twice(self) -> None:
        draws = discrete_laplace(SeededWords(Seed.of(1)), Fraction(10), N)
        for shift in (0, 1):
            assert not laplace_noise(np.roll(np.repeat(draws[::2], 2), shift), 10).possible

    def test_an_error_used_twice(self, rng: np.random.Generator) -> None:
        assert not normal_noise(np.repeat(rng.normal(size=N // 2), 2), 1.0).possible

    def test_means_of_few_values_are_possible_although_many_are_exact(
        self, rng: np.random.Generator
    ) -> None:
        """Full run of theorem-6 at 12 coins: a quarter of the errors is 0, and the row said no."""
        means = rng.binomial(12, 0.5, 20_000) / 12 - 0.5
        assert normal_noise(means, 0.5 / 12**0.5).possible
        assert not normal_noise(np.repeat(means[:10_000], 2), 0.5 / 12**0.5).possible

    def test_choices_that_are_repeated_more_often_or_less(self) -> None:
        """Let an outcome have one in ten: 0.82 of the pairs are equal then."""
        fresh = np.random.default_rng(1).random(2000) < 0.1
        assert repeats_agree(fresh, 0.82)
        assert not repeats_agree(np.repeat(fresh[:1000], 2), 0.82)
        assert not repeats_agree(np.arange(2000) % 2, 0.82)

    def test_no_draws_but_zeros(self) -> None:
        assert not laplace_noise(np.zeros(N), 1).possible

    def test_one_outcome_of_three_is_too_frequent(self) -> None:
        assert counts_agree([330, 340, 330], [1 / 3] * 3)
        assert not counts_agree([300, 500, 200], [1 / 3] * 3)
