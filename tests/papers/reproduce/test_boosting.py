"""The reproduction of boosting: what it asks of a row, and that its rows do it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.sampling import Words
from askance_papers.curator.synopsis import MarginalFamily, Universe
from askance_papers.reproduce.drv10 import boosting
from askance_simulation.randomness import Seed

SMALL = MarginalFamily(Universe.of_bits(6), 2)
AS_EXPECTED = {name: figures[2] for name, figures in boosting.EXPECTED.items()}


class TestOrder:
    def test_what_is_expected_is_in_order(self) -> None:
        assert all(boosting.in_order(name, AS_EXPECTED, 2) for name in AS_EXPECTED)

    @pytest.mark.parametrize("error", [0.2, 0.001])
    def test_boosting_as_printed_is_between_laplace_by_sums_and_the_rest(
        self, error: float
    ) -> None:
        assert not boosting.in_order(boosting.PRINTED, AS_EXPECTED | {boosting.PRINTED: error}, 2)

    def test_the_others_rows_say_so_too(self) -> None:
        errors = AS_EXPECTED | {boosting.PRINTED: 0.001}
        assert not boosting.in_order("gaussian", errors, 2)
        assert boosting.in_order("laplace (sums)", errors, 2)


class TestWithoutNoise:
    def test_every_query_is_within_the_bound(self) -> None:
        row = boosting.without_noise(SMALL, 10_000, Seed.of(1))
        assert row["bound"] == pytest.approx(0.02)
        assert row["holds"]

    def test_a_base_generator_that_is_off_does_not_hold(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        honest = boosting.ExactAnswers.answers

        def off(
            answering: boosting.ExactAnswers, chosen: NDArray[np.int64], words: Words
        ) -> NDArray[np.float64]:
            return honest(answering, chosen, words) * 0.8

        monkeypatch.setattr(boosting.ExactAnswers, "answers", off)
        assert not boosting.without_noise(SMALL, 10_000, Seed.of(1))["holds"]


class TestNoise:
    def test_clipping_hides_neither_more_nor_less_laplace_noise_than_claimed(self) -> None:
        rng = np.random.default_rng(1)
        truth = rng.integers(0, 1001, 2000)
        for factor, possible in ((0.5, False), (1, True), (2, False)):
            drawn = np.rint(rng.laplace(0, 300 * factor, 2000)).astype(np.int64)
            answers = np.clip((truth + drawn) / 1000, 0, 1)
            check = boosting.clipped_laplace(answers, truth, 1000, 300)
            assert check.possible == possible
            assert check.ratio == pytest.approx(factor, rel=0.2)

    def test_mwem_gives_a_single_noisy_count_back_and_chooses_by_half_of_epsilon(self) -> None:
        rows = list(boosting.mwem_rows(1000, Seed.of(1)))
        assert [row["method"] for row in rows] == ["noise of mwem", "noise of mwem's choice"]
        assert all(row["holds"] for row in rows)
        assert [row["noise"] for row in rows] == pytest.approx([1, 1], abs=0.3)
