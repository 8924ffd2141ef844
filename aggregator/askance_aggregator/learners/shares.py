"""Shares of cells as a distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def nearest_distribution(estimates: ArrayLike) -> NDArray[np.float64]:
    """The point of the simplex that is nearest to raw estimates, in Euclidean distance."""
    # Raw estimates of shares are unbiased and may be negative or have a sum other than 1. The truth
    # lies in the simplex, a convex set, so no projected estimate is farther from it than the raw
    # one, taken over all cells.
    #
    # The result has the shape of the estimates; no share is negative, and their sum is 1.
    raw = np.asarray(estimates, dtype=np.float64)
    falling = np.sort(raw, axis=None)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, falling.size + 1)
    kept = np.count_nonzero(falling > excess)  # the greatest cells; all others become 0
    return np.asarray(np.maximum(raw - excess[kept - 1], 0.0))
