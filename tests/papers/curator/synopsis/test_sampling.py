"""Draws are of exactly the distribution that privacy is computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_aggregator.sampling import exp_minus
from askance_papers.curator.synopsis.sampling import exponential_draws
from askance_simulation.randomness import SeededWords

ALPHA = 1e-6


class Script:
    """Source of chosen words."""

    def __init__(self, words: Sequence[int]) -> None:
        self.left = list(words)

    def take(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


def test_they_are_distributed_as_they_say(words: Callable[[str], SeededWords]) -> None:
    scores = np.array([0, 3, 3, 7, 12])
    rate = Fraction(1, 5)
    drawn = exponential_draws(words("law"), scores, rate, 100_000)
    weights = np.exp(float(rate) * scores)
    expected = weights / weights.sum() * drawn.size
    assert stats.chisquare(np.bincount(drawn), expected).pvalue > ALPHA


def test_what_is_proposed_is_kept_exactly_as_often_as_it_must_be() -> None:
    """Candidate 1's true weight is e^-1 2^40; words on both sides of the threshold decide by it.

    The first word proposes candidate 1, the second is the 64 first bits of the threshold, the third
    is the 64 that follow, a little less or more.
    """
    scores, rate = np.array([1, 0]), Fraction(1)
    proposed = int(np.floor(exp(-1) * 2.0**40)) + 2
    low, _ = exp_minus(Fraction(1))(128 + 40)
    threshold = low // proposed
    ends = (1 << 40) + 2  # candidate 0 comes first
    second, third = threshold >> 64, threshold & ((1 << 64) - 1)
    kept = Script([ends, second, third - 3])
    assert exponential_draws(kept, scores, rate, 1).tolist() == [1]
    refused = Script([ends, second, third + 3, 0, 0])  # then candidate 0, kept
    assert exponential_draws(refused, scores, rate, 1).tolist() == [0]
    assert not kept.left
    assert not refused.left


def test_scores_far_below_the_best_are_never_drawn(words: Callable[[str], SeededWords]) -> None:
    scores = np.array([0, 10**9])
    assert exponential_draws(words("far"), scores, Fraction(1), 1000).tolist() == [1] * 1000


@pytest.mark.parametrize("moves", [(1, -1, 0), (1, 1, 1), (-1, 0, 1)])
def test_neighbours_move_log_probabilities_by_a_range_of_two_rates(
    moves: tuple[int, ...],
) -> None:
    rate, scores = 0.3, np.array([4, 0, 9])
    other = scores + np.array(moves)
    law, neighbour = (np.exp(rate * s) / np.exp(rate * s).sum() for s in (scores, other))
    ratios = [log(p / q) for p, q in zip(law, neighbour, strict=True)]
    assert max(ratios) - min(ratios) <= 2 * rate + 1e-12
