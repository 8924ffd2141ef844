"""Clopper-Pearson intervals against the definition, by exact tails."""

from __future__ import annotations

from itertools import product
from math import comb, exp, log

import numpy as np
import pytest
from scipy.stats import multinomial

from askance_aggregator.estimation import clopper_pearson, estimate, hoeffding
from askance_aggregator.estimation.intervals import bernstein, joint_shares
from askance_aggregator.families import k_ary_response, randomized_response
from askance_aggregator.learners import Question
from askance_aggregator.queries import category
from askance_client.queries import Integer, Schema
from askance_client.randomizers import COIN_SPACE


def at_least(count: int, n: int, p: float) -> float:
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(count, n + 1))


@pytest.mark.parametrize("alpha", [0.05, 1e-3])
@pytest.mark.parametrize("n", [1, 7, 30])
def test_each_end_leaves_half_of_alpha(n: int, alpha: float) -> None:
    """P[count or more | low] = alpha/2 = P[count or fewer | high]: inverted exact tests."""
    counts = np.arange(n + 1)
    lows, highs = clopper_pearson(counts, n, alpha)
    assert lows[0] == 0
    assert highs[-1] == 1
    for count in range(1, n + 1):
        assert at_least(count, n, lows[count]) == pytest.approx(alpha / 2, rel=1e-9)
        assert 1 - at_least(count, n, highs[count - 1]) == pytest.approx(alpha / 2, rel=1e-9)
    assert (lows <= counts / n).all()
    assert (counts / n <= highs).all()


def test_hoeffding_is_the_two_sided_bound() -> None:
    half = hoeffding(3.0, 50, 0.01)
    assert 2 * np.exp(-2 * 50 * half**2 / 9) == pytest.approx(0.01)
    assert hoeffding(1.0, 1, 2 / np.e) == pytest.approx((log(np.e) / 2) ** 0.5)


@pytest.mark.parametrize("alpha", [0.05, 1e-6])
@pytest.mark.parametrize(("variance", "reach"), [(0.25, 1.0), (0.01, 5.0), (9.0, 0.5)])
def test_bernstein_is_the_half_width_that_its_inequality_gives(
    variance: float, reach: float, alpha: float
) -> None:
    """Neither less, so that it holds, nor more: 2 exp(-n t^2 / (2 (v + reach t / 3))) = alpha."""
    n = 40
    half = bernstein(variance, reach, n, alpha)
    assert 2 * exp(-n * half**2 / (2 * (variance + reach * half / 3))) == pytest.approx(alpha)


RESPONSE = k_ary_response(3, 2 * 10**9)  # Pr[own cell] = e^2 / (e^2 + 2) = .787


@pytest.mark.parametrize("n", [8, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.4])
def test_intervals_of_three_shares_miss_together_no_more_than_alpha(n: int, alpha: float) -> None:
    """The law of all three counts is enumerated, for shares in steps of an eighth."""
    own, other = RESPONSE.own / COIN_SPACE, RESPONSE.other / COIN_SPACE
    counts = np.array([c for c in product(range(n + 1), repeat=3) if sum(c) == n])
    lows, highs = joint_shares(np.arange(n + 1), n, alpha, own, other, 3)
    missed = []
    for one, two in product(range(9), repeat=2):
        if one + two <= 8:
            shares = np.array([one, two, 8 - one - two]) / 8
            law = multinomial.pmf(counts, n, other + shares * (own - other))
            outside = ((lows[counts] > shares) | (shares > highs[counts])).any(axis=1)
            missed.append(law[outside].sum())
    assert alpha / 8 < max(missed) <= alpha


@pytest.mark.parametrize(
    ("own", "other", "cells", "n", "share", "half", "by_each"),
    [
        # A deviation of the first is .0215: 2.3 of them, where each of 1,000 alike takes 4.06.
        (0.5122, 0.0187, 1000, 1734, 0.5, 0.050, 0.087),
        (0.7490, 0.0003, 1000, 868, 0.5, 0.050, 0.089),
        (0.4754, 0.2350, 16, 11_475, 0.9, 0.050, 0.055),
    ],
)
def test_a_large_share_has_a_shorter_interval_than_one_of_many_alike(
    own: float, other: float, cells: int, n: int, share: float, half: float, by_each: float
) -> None:
    count = np.array([round(n * (other + share * (own - other)))])
    low, high = joint_shares(count, n, 0.05, own, other, cells)
    assert (high - low)[0] / 2 == pytest.approx(half, rel=0.05)
    low, high = clopper_pearson(count, n, 0.05 / cells)
    assert (high - low)[0] / 2 / (own - other) == pytest.approx(by_each, rel=0.05)


def test_both_shares_of_one_count_have_the_interval_of_one() -> None:
    """A randomized response of 100 reports, 70 of them yes: Clopper-Pearson's .6003 .. .7876."""
    schema = Schema("s", 1, cell=Integer(0, 1))
    question = Question(category(schema["cell"]))
    answer = estimate(question, randomized_response(10**9), [30, 70], 100, 0.05)
    lie, gap = 1 / (1 + exp(1)), (exp(1) - 1) / (exp(1) + 1)
    assert answer.lows[1] == pytest.approx((0.6002 - lie) / gap, abs=3e-4)
    assert answer.highs[1] == pytest.approx(min((0.7876 - lie) / gap, 1), abs=3e-4)
    assert answer.highs[0] == pytest.approx(1 - answer.lows[1])
