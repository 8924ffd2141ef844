"""Confidence intervals that hold for every n: Clopper-Pearson, Hoeffding, Bernstein.

All hold for the population that users were drawn from. Clopper-Pearson is also kept for the
sample at hand: given their records, users answer with different probabilities, and such a count
strays less from its mean, beyond the nearest integers, than a binomial one (Hoeffding, Annals of
Mathematical Statistics 27, 1956, Theorem 5).
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from numpy.typing import NDArray


def clopper_pearson(
    counts: NDArray[np.int64], n: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two-sided intervals for the probability behind each count, alpha/2 on each side.

    Args:
        counts: each in 0..n.
        n: >= 1.
        alpha: the chance that one interval misses, in (0, 1).

    Returns:
        The low and the high ends, of the shape of counts.
    """
    from askance_aggregator.special_functions import betainccinv, betaincinv

    hits = np.asarray(counts, dtype=np.float64)
    misses = n - hits
    # 1.0 stands in where the formula does not apply, and is replaced.
    low = betaincinv(np.where(hits == 0, 1.0, hits), misses + 1, alpha / 2)
    high = betainccinv(hits + 1, np.where(misses == 0, 1.0, misses), alpha / 2)
    return np.where(hits == 0, 0.0, low), np.where(misses == 0, 1.0, high)


def hoeffding(span: float, n: int, alpha: float) -> float:
    """Half the width of a two-sided interval for the mean of n terms, each in a range of `span`."""
    return span * sqrt(log(2 / alpha) / (2 * n))


def bernstein(variance: float, reach: float, n: int, alpha: float) -> float:
    """Half the width of a two-sided interval for the mean of n terms of a known variance.

    Source: Bernstein's inequality, P[|mean - truth| >= t] <= 2 exp(-n t^2 / (2 (v + reach t / 3))).
    """
    each = log(2 / alpha) / n
    linear = each * reach / 3
    return linear + sqrt(linear * linear + 2 * each * variance)
