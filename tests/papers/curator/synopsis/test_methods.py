"""Methods beside boosting: Laplace, Gaussian, Gaussian and a fit, MWEM."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, kstest
from scipy.stats import laplace as laplace_law

from askance_aggregator.composition import BoundedRange, Concentrated, Pure
from askance_aggregator.sampling import Words
from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis import (
    Answered,
    Histogram,
    MarginalFamily,
    MatrixQueries,
    Universe,
    concentrated_within,
    gaussian,
    gaussian_fit,
    laplace_by_sums,
    laplace_by_theorem,
    mwem,
)
from askance_simulation.randomness import SeededWords

BITS = Universe.of_bits(6)
PAIRS = MarginalFamily(BITS, 2)
DELTA = Fraction(1, 10**6)
ALPHA = 1e-6

Method = Callable[[Histogram, MarginalFamily, object, Words], Answered]
METHODS: dict[str, Method] = {
    "laplace (sums)": lambda h, f, e, w: laplace_by_sums(h, f, e, w),  # type: ignore[arg-type]  # bad input too
    "laplace (III.3)": lambda h, f, e, w: laplace_by_theorem(h, f, e, DELTA, w),  # type: ignore[arg-type]  # bad input too
    "gaussian": lambda h, f, e, w: gaussian(h, f, e, DELTA, w),  # type: ignore[arg-type]  # bad input too
    "gaussian + fit": lambda h, f, e, w: gaussian_fit(h, f, e, DELTA, w),  # type: ignore[arg-type]  # bad input too
    "mwem": lambda h, f, e, w: mwem(h, f, e, w),  # type: ignore[arg-type]  # bad input too
}


def skewed(n: int) -> Histogram:
    rng = np.random.default_rng(5)
    table = (rng.random((n, 6)) < np.where(rng.random((n, 1)) < 0.4, 0.2, 0.8)).astype(np.int64)
    return Histogram.of(BITS, table)


@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    def test_much_data_are_answered_well(
        self, method: str, words: Callable[[str], SeededWords]
    ) -> None:
        histogram = skewed(1_000_000)
        truth = PAIRS.counts(histogram) / histogram.n
        release = METHODS[method](histogram, PAIRS, 1, words(method))
        assert release.method == method
        assert np.abs(release.answers - truth).max() < 0.01
        assert 0 <= release.answers.min() <= release.answers.max() <= 1

    @pytest.mark.parametrize("epsilon", [0, -1, "x", float("nan")])
    def test_epsilon_is_checked_before_a_word_is_drawn(
        self, method: str, epsilon: object, no_words: SeededWords
    ) -> None:
        with pytest.raises(InvalidParameter, match="epsilon"):
            METHODS[method](skewed(10), PAIRS, epsilon, no_words)

    def test_the_universe_is_checked_before_a_word_is_drawn(
        self, method: str, no_words: SeededWords
    ) -> None:
        other = MarginalFamily(Universe.of_bits(5), 2)
        with pytest.raises(InvalidParameter, match="histogram: expected one over"):
            METHODS[method](skewed(10), other, 1, no_words)


class TestWhatIsSpent:
    def test_sums(self, words: Callable[[str], SeededWords]) -> None:
        release = laplace_by_sums(skewed(100), PAIRS, 1, words("sums"))
        assert release.events == (Pure(Fraction(1, 60)),) * 60

    def test_one_gaussian(self, words: Callable[[str], SeededWords]) -> None:
        expected = (Concentrated(concentrated_within(Fraction(1), DELTA)),)
        for method in (gaussian, gaussian_fit):
            assert method(skewed(100), PAIRS, 1, DELTA, words("g")).events == expected

    def test_mwem(self, words: Callable[[str], SeededWords]) -> None:
        release = mwem(skewed(100), PAIRS, 1, words("mwem"), rounds=5)
        tenth = Fraction(1, 10)
        assert release.events == (BoundedRange(tenth), Pure(tenth)) * 5

    def test_mwem_with_too_little_to_draw_is_refused_before_its_first_choice(
        self, no_words: SeededWords
    ) -> None:
        thirds = MatrixQueries(BITS, np.full((2, BITS.cells), 1 / 3))  # a scale of 2^15
        with pytest.raises(InvalidParameter, match="epsilon: expected more"):
            mwem(skewed(100), thirds, "1e-9", no_words)

    @pytest.mark.parametrize("rounds", [0, 1001, 2.5, True])
    def test_mwem_has_rounds(self, rounds: Any, no_words: SeededWords) -> None:
        with pytest.raises(InvalidParameter, match=r"rounds: expected a whole number 1 \.\. 1000"):
            mwem(skewed(100), PAIRS, 1, no_words, rounds=rounds)

    @pytest.mark.parametrize("delta", [0, 1, "x"])
    def test_delta_is_checked(self, delta: object, no_words: SeededWords) -> None:
        for method in (gaussian, gaussian_fit, laplace_by_theorem):
            with pytest.raises(InvalidParameter, match="delta"):
                method(skewed(10), PAIRS, 1, delta, no_words)  # type: ignore[arg-type]  # the point


class TestSpread:
    """400 copies of one query, so that an error's distribution is seen in one release."""

    HISTOGRAM = Histogram(Universe((2,)), np.array([500_000, 500_000]))

    def test_of_laplace_is_that_of_its_budget(self, words: Callable[[str], SeededWords]) -> None:
        copies = MatrixQueries(Universe((2,)), np.tile([0, 1], (400, 1)))
        release = laplace_by_sums(self.HISTOGRAM, copies, 1, words("laplace"))
        scale = float(np.abs(release.answers - 0.5).mean()) * 1_000_000 / 400
        assert scale == pytest.approx(1, abs=6 / sqrt(400))

    def test_of_values_is_that_of_predicates(self, words: Callable[[str], SeededWords]) -> None:
        """The scale of a query cancels out: a third is no nearer to its neighbours than a half."""
        copies = MatrixQueries(Universe((2,)), np.tile([1 / 3, 1], (400, 1)))
        release = gaussian(self.HISTOGRAM, copies, 1, DELTA, words("gaussian"))
        rho = float(concentrated_within(Fraction(1), DELTA))
        deviation = float(np.sqrt(((release.answers - 2 / 3) ** 2).mean())) * 1_000_000
        assert deviation == pytest.approx(sqrt(400 / (2 * rho)), rel=6 / sqrt(800))

    def test_a_fit_takes_noise_away(self, words: Callable[[str], SeededWords]) -> None:
        """Answers to that many queries have far less freedom than their number."""
        histogram = skewed(3000)
        triples = MarginalFamily(BITS, 3)
        truth = triples.counts(histogram) / histogram.n
        plain, fitted = (
            np.abs(method(histogram, triples, 1, DELTA, words("same")).answers - truth).max()
            for method in (gaussian, gaussian_fit)
        )
        assert fitted < 0.7 * plain
        assert log(1 / fitted) > 1  # and is an answer at all


class TestMWEMsChances:
    """Every round's choice and answer have half of the round's epsilon, at any scale."""

    COLUMNS = Universe((2, 2))

    @pytest.mark.parametrize("scale", [1, 1 << 15])
    def test_a_query_is_chosen_with_the_exponential_mechanisms_probability(
        self, scale: int, words: Callable[[str], SeededWords]
    ) -> None:
        """Only the chosen column's answer moves from one half.

        A column's share is off one half by 45 users of 100, or by 5.
        """
        values = np.array([[0.0, 0, 1, 1], [0, 1, 0, 1]])
        if scale > 1:
            values = values * (1 - 1 / scale)  # no predicate any more, and all but the same
        family = MatrixQueries(self.COLUMNS, values)
        assert family.scale == scale
        people = Histogram(self.COLUMNS, np.array([0, 5, 45, 50]))
        drawn, epsilon, runs = words(f"choice {scale}"), Fraction(1, 10), 300
        first = 0
        for _ in range(runs):
            moved = np.abs(mwem(people, family, epsilon, drawn, rounds=1).answers - 0.5)
            first += bool(moved[0] > moved[1])
        gap = float(epsilon / 2) / 2 * (45 - 5)
        assert binomtest(first, runs, 1 / (1 + exp(-gap))).pvalue > ALPHA

    @pytest.mark.parametrize("scale", [1, 1 << 15])
    def test_its_answer_has_laplace_noise_of_half_the_rounds_epsilon(
        self, scale: int, words: Callable[[str], SeededWords]
    ) -> None:
        universe = Universe((2,))
        value = 1 if scale == 1 else 1 - 1 / scale
        family = MatrixQueries(universe, np.array([[0, value]]))
        assert family.scale == scale
        people = Histogram(universe, np.array([5_000, 5_000]))
        drawn, epsilon = words(f"noise {scale}"), Fraction(1, 10)
        found = [
            mwem(people, family, epsilon, drawn, rounds=1).answers[0] - value / 2
            for _ in range(150)
        ]
        noise = laplace_law(scale=float(2 / epsilon))
        assert kstest(np.array(found) * people.n, noise.cdf).pvalue > ALPHA
