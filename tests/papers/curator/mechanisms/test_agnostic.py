"""The agnostic learner: private by enumeration, and as good as its sample size says."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import log
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.composition import BoundedRange, Pure
from askance_client.errors import AskanceError, InvalidParameter
from askance_papers.curator.mechanisms import (
    Exponential,
    Parities,
    PermuteAndFlip,
    learn_agnostically,
    sample_size,
)
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6


class Untouched:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"expected nothing to be drawn, found {count} words asked for")


class TestPrivacy:
    @pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
    def test_the_loss_over_all_data_sets_and_neighbours_is_at_most_epsilon(
        self, kind: type[Exponential] | type[PermuteAndFlip]
    ) -> None:
        """Three labelled examples of one bit each, noise and all; the two parities of one bit."""
        mechanism, family = kind.of("1.5"), Parities(1)
        law = {}
        for data in product(product((0, 1), repeat=2), repeat=3):
            x, y = np.array(data)[:, :1], np.array(data)[:, 1]
            scores = -family.mistakes(x, y)(np.arange(2))
            law[data] = mechanism.probabilities(scores)
        losses = [
            float((p / q).ln())
            for one in law
            for place, record in product(range(3), product((0, 1), repeat=2))
            for p, q in zip(law[one], law[(*one[:place], record, *one[place + 1 :])], strict=True)
        ]
        assert 0.4 < max(losses) <= 1.5


class TestUtility:
    def test_the_sample_size_is_the_proofs(self) -> None:
        found = sample_size(16, alpha="0.1", beta="0.05", epsilon=1)
        assert found == int((log(16) + log(40)) * 450) + 1
        found = sample_size(16, alpha="0.1", beta="0.05", epsilon="0.1")
        assert found == int((log(16) + log(40)) * 600) + 1

    def test_one_hypothesis_still_takes_a_sample(self) -> None:
        assert sample_size(1, alpha="0.5", beta="0.5", epsilon=100) == int(18 * log(4)) + 1

    def test_with_so_many_examples_it_fails_no_more_often_than_beta(self) -> None:
        """Noisy labels: the best parity errs on 10 %, every other on 50 %."""
        n = sample_size(8, alpha="0.3", beta="0.1", epsilon=1)
        rng, words = np.random.default_rng(3), SeededWords(Seed.of(3))
        failed = 0
        for _ in range(200):
            x = rng.integers(0, 2, (n, 3))
            y = (x[:, 0] ^ x[:, 2]) ^ (rng.random(n) < 0.1)
            failed += learn_agnostically(Parities(3), x, y, 1, words).number != 0b101
        assert stats.binom.sf(failed - 1, 200, 0.1) > ALPHA

    def test_with_far_fewer_it_fails(self) -> None:
        rng, words = np.random.default_rng(4), SeededWords(Seed.of(4))
        found = []
        for _ in range(50):
            x = rng.integers(0, 2, (5, 3))
            found.append(learn_agnostically(Parities(3), x, x[:, 0], "0.1", words).number)
        assert found.count(0b100) < 25

    @pytest.mark.parametrize(
        ("selection", "event"),
        [(Exponential.of, BoundedRange(Fraction(1))), (PermuteAndFlip.of, Pure(Fraction(1)))],
    )
    def test_what_was_chosen_is_told(self, selection: Callable[..., Any], event: object) -> None:
        x = np.array([[0, 1], [1, 1]] * 500)
        words = SeededWords(Seed.of(5))
        found = learn_agnostically(Parities(2), x, x[:, 0], 1, words, selection=selection)
        assert (found.number, found.size, found.n, found.event) == (0b10, 4, 1000, event)
        assert found.hypothesis(x).tolist() == x[:, 0].tolist()


class TestRefusals:
    @pytest.mark.parametrize("epsilon", [0, -1, "x", float("nan")])
    def test_epsilon(self, epsilon: Any) -> None:
        with pytest.raises(InvalidParameter, match="epsilon"):
            learn_agnostically(Parities(1), np.ones((2, 1)), np.ones(2), epsilon, Untouched())

    def test_examples(self) -> None:
        for x, y in ((np.ones((0, 1)), np.ones(0)), (np.full((2, 1), np.nan), np.ones(2))):
            with pytest.raises(AskanceError, match=r"labels|features"):
                learn_agnostically(Parities(1), x, y, 1, Untouched())

    @pytest.mark.parametrize(
        ("what", "value"), [("alpha", 0), ("alpha", 1), ("beta", 0), ("beta", "x"), ("epsilon", 0)]
    )
    def test_numbers(self, what: str, value: Any) -> None:
        good: dict[str, Any] = {"alpha": "0.1", "beta": "0.1", "epsilon": 1}
        with pytest.raises(InvalidParameter, match=what):
            sample_size(4, **{**good, what: value})
        with pytest.raises(InvalidParameter, match="size"):
            sample_size(0, **good)
