"""Bets on a mean: they hold by the exact law of a tally, and are not far from the least width."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy.stats import binom, norm

from askance_aggregator.estimation.designed import Bets

ALPHA = 0.05
BIT = np.array([0.0, 1.0])


def misses(n: int, chance: float, stake: float) -> tuple[float, float]:
    """Compute the exact chance that the true mean is outside, by a bet on more and one on less."""
    bets, counts = Bets(BIT, n), np.arange(n + 1)
    law = binom.pmf(counts, n, chance)
    sides = []
    for side in (stake, -stake):
        won = counts * np.log1p(side * (1 - chance)) + (n - counts) * np.log1p(-side * chance)
        sides.append(float(law[won >= bets.threshold(side, chance, ALPHA / 2)].sum()))
    return sides[0], sides[1]


@pytest.mark.parametrize("n", [1, 2, 10, 50, 400, 3000, 50_000])
def test_no_law_is_missed_more_often_than_stated(n: int) -> None:
    """Also where the stake was chosen for another law: of 16 times or a 16th of the variance."""
    for chance in (0.5, 0.2, 0.05, 0.01, 3 / (n + 3), 1 / (n + 1)):
        for stake in np.geomspace(1e-3, 0.9, 12).tolist():
            assert max(misses(n, chance, stake)) <= ALPHA / 2


def test_a_stake_for_the_law_misses_nearly_as_often_as_stated() -> None:
    """Wealth of 1 / alpha (Markov) would be missed by .0033 on a side, half of it by .009."""
    for chance in (0.5, 0.2, 0.05):
        stake = Bets(BIT, 50_000).stake(chance, chance * (1 - chance), ALPHA)
        assert min(misses(50_000, chance, stake)) > 0.7 * ALPHA / 2


@pytest.mark.parametrize("chance", [0.5, 0.05, 0.002])
def test_the_width_is_near_the_normal_one_and_about_what_was_promised(chance: float) -> None:
    n = 50_000
    bets, variance = Bets(BIT, n), chance * (1 - chance)
    stake = bets.stake(chance, variance, ALPHA)
    low, high = bets.interval(np.array([n - n * chance, n * chance]), stake, ALPHA)
    half = float(norm.ppf(1 - ALPHA / 2)) * sqrt(variance / n)
    assert low < chance < high
    assert 1 < (high - low) / 2 / half < 1.25
    promised = bets.promised(stake, chance, variance, ALPHA)
    assert (high - low) / 2 == pytest.approx(promised, rel=0.05)


@pytest.mark.parametrize("counts", [(10, 0, 0), (0, 0, 10), (4, 3, 3), (0, 10, 0), (1, 0, 0)])
def test_an_interval_has_the_means_that_no_bet_rejects(counts: tuple[int, int, int]) -> None:
    """By a grid of means; the ends are the greatest and the least value where all is possible."""
    values, tally = np.array([-1.0, 0.25, 2.0]), np.array(counts, dtype=np.float64)
    bets, stake = Bets(values, sum(counts)), 0.25
    low, high = bets.interval(tally, stake, ALPHA)
    assert -1 <= low <= tally @ values / sum(counts) <= high <= 2
    for mean in np.linspace(-0.999, 1.999, 200).tolist():
        rejected = [
            tally @ np.log1p(side * (values - mean)) >= bets.threshold(side, mean, ALPHA / 2)
            for side in (stake, -stake)
        ]
        if min(abs(mean - low), abs(mean - high)) > 1e-6:
            assert (low < mean < high) == (not any(rejected))
