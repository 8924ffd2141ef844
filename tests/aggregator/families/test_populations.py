"""Every population of a small batch of each family, listed, beside the ends of the accountant."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from math import factorial, log, prod

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.amplification import delta_ends
from askance_aggregator.families import family_of
from askance_client.exact_laws import probability
from askance_client.randomizers import (
    COIN_SPACE,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    RandomCodebook,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

MOST = COIN_SPACE // 3 * 2
RATIO = 1.2  # e^epsilon


def greatest_delta(randomizer: Randomizer, reports: int) -> float:
    """List all multisets of reports, all populations and all pairs of the target's levels."""
    alphabet = list(family_of(randomizer).alphabet())
    rows = np.array(
        [
            [float(probability(randomizer, level, report)) for report in alphabet]
            for level in range(randomizer.levels)
        ]
    )
    batches = list(combinations_with_replacement(range(len(alphabet)), reports))
    symbols = np.array(batches)
    repeats = np.array([prod(map(factorial, Counter(batch).values())) for batch in batches])
    greatest = 0.0
    for others in combinations_with_replacement(range(randomizer.levels), reports - 1):
        laws: NDArray[np.float64] = np.zeros((randomizer.levels, len(batches)))
        for target, *rest in permutations(range(reports)):
            chances = np.ones(len(batches))
            for level, at in zip(others, rest, strict=True):
                chances *= rows[level][symbols[:, at]]
            laws += rows[:, symbols[:, target]] * chances / repeats
        for law in laws:
            greatest = max(greatest, float(np.maximum(law - RATIO * laws, 0).sum(axis=1).max()))
    return greatest


@pytest.mark.parametrize(
    ("randomizer", "most"),
    [
        (KaryResponse(3, COIN_SPACE // 7), 3),
        (SubsetSelection(4, 2, MOST), 3),
        (LinearHashing(4, 3, COIN_SPACE // 8), 3),
        (LinearHashing(5, 2, COIN_SPACE // 5), 2),
        (HadamardSign(2, MOST), 3),
        (SignedSubsetSelection(2, 1, MOST), 3),
        (HypercubeResponse(3, 1, MOST), 3),
        (RandomCodebook(1, 1, 1, 9, MOST, seed_bits=0), 2),
    ],
)
def test_the_worst_population_lies_between_the_ends(randomizer: Randomizer, most: int) -> None:
    for reports in range(1, most + 1):
        # The sums are of floats: an end may lie some units beside them.
        worst = greatest_delta(randomizer, reports)
        ends = delta_ends(randomizer, reports, Fraction(log(RATIO)))
        assert ends.lower <= worst * (1 + 1e-9)
        assert worst * (1 - 1e-9) <= ends.upper
        # At these epsilons the others are best at one level; a codebook's is proved, and not known.
        if not isinstance(randomizer, RandomCodebook):
            assert ends.population
            assert ends.lower == pytest.approx(worst, rel=1e-9)
