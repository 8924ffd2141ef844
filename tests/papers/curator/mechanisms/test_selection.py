"""The exponential mechanism and permute-and-flip: private by enumeration, drawn as enumerated."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product
from math import exp, log
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.composition import BoundedRange, Pure
from askance_client.errors import AskanceError, InvalidParameter
from askance_papers.curator.mechanisms.selection import (
    Candidates,
    Exponential,
    PermuteAndFlip,
    ScoredCandidates,
)
from askance_simulation.randomness import Seed, SeededWords

ALPHA = 1e-6
BOTH: list[type[Exponential] | type[PermuteAndFlip]] = [Exponential, PermuteAndFlip]
VOTES = list(product(range(3), repeat=4))
"""All data sets of four records, each a vote for one of three candidates."""


class Untouched:
    """Source of words that fails on use."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"expected nothing to be drawn, found {count} words asked for")


def tally(votes: tuple[int, ...]) -> NDArray[np.int64]:
    return np.bincount(votes, minlength=3).astype(np.int64)


def neighbours(votes: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [(*votes[:i], v, *votes[i + 1 :]) for i in range(4) for v in range(3)]


def loss(probabilities: Callable[[NDArray[np.int64]], tuple[Decimal, ...]]) -> float:
    """Return the greatest log-ratio over all candidates and neighbouring data sets."""
    law = {votes: probabilities(tally(votes)) for votes in VOTES}
    return max(
        float((p / q).ln())
        for votes in VOTES
        for other in neighbours(votes)
        for p, q in zip(law[votes], law[other], strict=True)
    )


class TestPrivacy:
    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
    @pytest.mark.parametrize("kind", BOTH)
    def test_the_enumerated_loss_is_at_most_epsilon(
        self, kind: type[Exponential] | type[PermuteAndFlip], epsilon: Fraction
    ) -> None:
        found = loss(kind.of(epsilon).probabilities)
        assert 0.4 * epsilon < found <= epsilon

    def test_the_exponential_mechanisms_ratios_range_over_at_most_epsilon(self) -> None:
        mechanism = Exponential.of(2)
        law = {votes: mechanism.probabilities(tally(votes)) for votes in VOTES}
        for votes in VOTES:
            for other in neighbours(votes):
                logs = [float((p / q).ln()) for p, q in zip(law[votes], law[other], strict=True)]
                assert max(logs) - min(logs) <= 2 + 1e-12

    def test_without_the_half_it_would_not_be_private(self) -> None:
        """The enumeration sees it: a vote that changes sides moves two scores apart."""
        assert loss(Exponential.of(2, Fraction(1, 2)).probabilities) > 2

    def test_events(self) -> None:
        assert Exponential.of(1).event == BoundedRange(Fraction(1))
        assert PermuteAndFlip.of(1).event == Pure(Fraction(1))


class TestTheLaw:
    def test_the_exponential_mechanisms_is_its_definition(self) -> None:
        found = Exponential.of(3, 2).probabilities(np.array([5, 1, 4]))
        weights = [exp(3 * score / 4) for score in (5, 1, 4)]
        assert [float(p) for p in found] == pytest.approx([w / sum(weights) for w in weights])

    def test_permute_and_flips_is_its_definition(self) -> None:
        """All orders of four candidates."""
        scores = [3, 0, 2, 2]
        coins = [exp(-(3 - score)) for score in scores]
        expected = np.zeros(4)
        for order in permutations(range(4)):
            alive = 1.0
            for place in order:
                expected[place] += alive * coins[place] / 24
                alive *= 1 - coins[place]
        found = PermuteAndFlip.of(2).probabilities(np.array(scores))
        assert [float(p) for p in found] == pytest.approx(expected)
        assert abs(sum(found, Decimal(0)) - 1) < Decimal(10) ** -40

    @pytest.mark.parametrize(
        "scores", [[0], [2, 2, 2], [7, 7, 1, 0, 5, 6], [0, -30, -2], [8, *[0] * 40]]
    )
    @pytest.mark.parametrize("kind", BOTH)
    def test_what_is_drawn_follows_it(
        self, kind: type[Exponential] | type[PermuteAndFlip], scores: list[int]
    ) -> None:
        mechanism, values = kind.of(1), np.array(scores)
        words = SeededWords(Seed.of(1) / kind.__name__ / len(scores))
        drawn = [mechanism.choose(ScoredCandidates(values), words) for _ in range(4000)]
        law = np.array([float(p) for p in mechanism.probabilities(values)])
        common = law * 4000 >= 5
        observed = np.bincount(drawn, minlength=len(scores))
        rare = observed[~common].sum()
        assert stats.binom.sf(rare - 1, 4000, law[~common].sum()) > ALPHA
        if common.sum() > 1:
            kept = observed[common]
            assert stats.chisquare(kept, law[common] / law[common].sum() * kept.sum())[1] > ALPHA

    def test_permute_and_flip_is_never_worse(self) -> None:
        for votes in VOTES:
            scores = tally(votes)
            losses = [
                sum(p * int(scores.max() - s) for p, s in zip(law, scores, strict=True))
                for law in (kind.of(2).probabilities(scores) for kind in BOTH)
            ]
            assert losses[1] <= losses[0]


class Line:
    """Sequence of a hundred and fifty thousand candidates, scored on demand."""

    size = 150_000

    def __init__(self) -> None:
        self.most = 0

    def scores(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        self.most = max(self.most, chosen.size)
        return -np.abs(chosen - 70_000)


@pytest.mark.parametrize("kind", BOTH)
def test_a_large_class_is_scored_by_the_chunk(
    kind: type[Exponential] | type[PermuteAndFlip],
) -> None:
    line: Candidates = Line()
    words = SeededWords(Seed.of(2) / kind.__name__)
    chosen = [kind.of("0.01").choose(line, words) for _ in range(5)]
    assert isinstance(line, Line)
    assert line.most <= 1 << 16
    allowed = 2 / 0.01 * log(Line.size * 5 / ALPHA)
    assert max(abs(one - 70_000) for one in chosen) < allowed
    assert len(set(chosen)) > 1


class Empty:
    """No candidates."""

    size = 0

    def scores(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return chosen


class Crooked:
    """Scorer that returns fewer scores than requested."""

    size = 3

    def scores(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return chosen[:1]


class TestRefusals:
    @pytest.mark.parametrize("kind", BOTH)
    @pytest.mark.parametrize("bad", [Empty(), Crooked()])
    def test_candidates_without_scores(self, kind: Any, bad: Candidates) -> None:
        with pytest.raises(AskanceError, match=r"candidates|scores"):
            kind.of(1).choose(bad, Untouched())

    @pytest.mark.parametrize(
        "bad",
        [np.array([0.5]), np.array([1 << 53]), np.array([], dtype=np.int64), np.zeros((2, 2))],
    )
    def test_scores_are_a_vector_of_whole_numbers(self, bad: Any) -> None:
        with pytest.raises(AskanceError, match="scores"):
            ScoredCandidates(bad)

    @pytest.mark.parametrize("kind", BOTH)
    def test_numbers(self, kind: Any) -> None:
        for epsilon in (0, -1, float("nan")):
            with pytest.raises(InvalidParameter, match="epsilon"):
                kind.of(epsilon)
        for sensitivity in (0, -1, "x"):
            with pytest.raises(InvalidParameter, match="sensitivity"):
                kind.of(1, sensitivity)

    def test_only_a_few_are_enumerated(self) -> None:
        with pytest.raises(InvalidParameter, match="at most 64"):
            PermuteAndFlip.of(1).probabilities(np.zeros(65, dtype=np.int64))
