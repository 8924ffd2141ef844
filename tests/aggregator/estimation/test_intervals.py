"""Clopper-Pearson intervals against the definition, by exact tails."""

from __future__ import annotations

from math import comb, exp, log

import numpy as np
import pytest

from askance_aggregator.estimation import clopper_pearson, hoeffding
from askance_aggregator.estimation.intervals import bernstein


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
