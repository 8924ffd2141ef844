"""Two-sided tests of drawn values against their claimed law, at `ALPHA`.

A noise that is smaller than claimed disagrees as one that is larger does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_simulation.reproduce.counting import ALPHA

_LEAST_EXPECTED = 5.0  # of a cell of the chi-square test; smaller ones are merged


def lengths_agree(vectors: NDArray[np.float64], scale: float) -> bool:
    """Return whether vectors' lengths may be Gamma(d, scale): density exp(-||v|| / scale).

    Args:
      vectors: shape (draws, d).
      scale: above 0.
    """
    from scipy import stats

    lengths = np.linalg.norm(vectors, axis=1)
    found = stats.kstest(lengths, "gamma", args=(vectors.shape[1], 0, scale)).pvalue
    return bool(found >= ALPHA)


def variance_agrees(draws: ArrayLike, variance: float) -> bool:
    """Return whether draws may be Gaussian around 0 with this variance; shape (draws,)."""
    from scipy import stats

    noise = np.asarray(draws, dtype=np.float64)
    total = float(noise @ noise) / variance
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], noise.size)
    return bool(low <= total <= high)


def rate_agrees(happened: int, trials: int, rate: float) -> bool:
    """Return whether that many of the trials may have happened at exactly this rate."""
    from scipy.stats import binomtest

    return bool(binomtest(happened, trials, rate).pvalue >= ALPHA)


def counts_agree(counts: Sequence[int] | NDArray[np.int64], law: NDArray[np.float64]) -> bool:
    """Return whether counts may be multinomial with these probabilities, by a chi-square test."""
    from scipy import stats

    seen = np.asarray(counts, dtype=np.float64)
    expected = law * seen.sum()
    order = np.argsort(expected)
    rare = np.cumsum(expected[order]) < 2 * _LEAST_EXPECTED
    rare |= expected[order] < _LEAST_EXPECTED
    few, many = order[rare], order[~rare]
    observed, wanted = list(seen[many]), list(expected[many])
    if expected[few].sum() > 0:
        observed.append(seen[few].sum())
        wanted.append(expected[few].sum())
    if len(wanted) < 2:
        return bool(seen[law == 0].sum() == 0)
    statistic = sum((o - w) ** 2 / w for o, w in zip(observed, wanted, strict=True))
    return bool(stats.chi2.sf(statistic, len(wanted) - 1) >= ALPHA and not seen[law == 0].any())
