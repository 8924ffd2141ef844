"""Mirror descent fits distributions to answers, and synopses answer and emit tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis import (
    Answered,
    Distribution,
    MarginalFamily,
    MedianSynopsis,
    Universe,
)
from askance_papers.curator.synopsis.fitting import Rows, WholeFamily, mirror_descent
from askance_simulation.randomness import SeededWords

BITS = Universe.of_bits(5)
PAIRS = MarginalFamily(BITS, 2)


def lopsided(seed: int) -> Distribution:
    return Distribution(BITS, np.random.default_rng(seed).dirichlet(np.full(BITS.cells, 0.3)))


class TestMirrorDescent:
    def test_true_answers_are_met(self) -> None:
        answers = lopsided(1).answers(PAIRS)
        start = Distribution.uniform(BITS).weights
        for operator in (WholeFamily(PAIRS), Rows(PAIRS.rows(np.arange(PAIRS.size)), 1)):
            fitted = mirror_descent(operator, answers, start, 2000)
            assert fitted.sum() == pytest.approx(1)
            assert operator.forward(fitted) == pytest.approx(answers, abs=2e-3)

    def test_answers_that_no_data_have_are_met_as_nearly_as_can_be(self) -> None:
        """With one query, answered with more than 1, all weight goes to it."""
        rows = Rows(PAIRS.rows(np.array([0])), 1)
        fitted = mirror_descent(rows, np.array([1.4]), Distribution.uniform(BITS).weights, 500)
        assert rows.forward(fitted)[0] == pytest.approx(1, abs=1e-3)

    def test_every_step_leads_down(self) -> None:
        answers = lopsided(2).answers(PAIRS)
        operator = WholeFamily(PAIRS)
        start = Distribution.uniform(BITS).weights
        losses = [
            float(
                np.sum(
                    (operator.forward(mirror_descent(operator, answers, start, k)) - answers) ** 2
                )
            )
            for k in range(12)
        ]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < losses[0] / 10


class TestSynopses:
    def test_they_answer_families_that_they_were_not_made_for(self) -> None:
        synopsis = lopsided(3)
        triples = MarginalFamily(BITS, 3)
        expected = triples.rows(np.arange(triples.size)) @ synopsis.weights
        assert synopsis.answers(triples) == pytest.approx(expected)

    def test_the_median_of_an_even_number_is_the_mean_of_both(self) -> None:
        parts = tuple(lopsided(seed) for seed in range(4))
        found = MedianSynopsis(parts, PAIRS).answers(PAIRS)
        ordered = np.sort([part.answers(PAIRS) for part in parts], axis=0)
        assert found == pytest.approx((ordered[1] + ordered[2]) / 2)

    def test_a_table_is_one_of_the_distribution(self, words: Callable[[str], SeededWords]) -> None:
        synopsis = lopsided(4)
        table = synopsis.table(40_000, words("table"))
        assert table.shape == (40_000, 5)
        cells = np.ravel_multi_index(tuple(table.T), BITS.sizes)
        shares = np.bincount(cells, minlength=BITS.cells) / 40_000
        assert shares == pytest.approx(synopsis.weights, abs=0.015)  # 6 sigma at a share of 1/2

    def test_a_median_table_answers_as_the_medians_do(
        self, words: Callable[[str], SeededWords]
    ) -> None:
        near = tuple(
            Distribution(BITS, (9 * lopsided(5).weights + lopsided(seed).weights) / 10)
            for seed in (6, 7, 8)
        )
        synopsis = MedianSynopsis(near, PAIRS)
        table = synopsis.table(40_000, words("medians"))
        cells = np.ravel_multi_index(tuple(table.T), BITS.sizes)
        made = Distribution(BITS, np.bincount(cells, minlength=BITS.cells) / 40_000)
        assert made.answers(PAIRS) == pytest.approx(synopsis.answers(PAIRS), abs=0.03)

    def test_answers_alone_make_no_table(self, no_words: SeededWords) -> None:
        release = Answered("laplace", np.zeros(3), (), None)
        with pytest.raises(InvalidParameter, match="expected a release with a synopsis"):
            release.table(10, no_words)

    @pytest.mark.parametrize("rows", [0, 10**8])
    def test_a_table_has_rows(self, rows: int, no_words: SeededWords) -> None:
        with pytest.raises(InvalidParameter, match="rows: expected 1"):
            lopsided(1).table(rows, no_words)
