"""Random rounding of columns, as of `round_to_levels`: by a table of all values, if they are few.

A value's level below and the threshold of its coin depend on the value alone, so that a table takes
the place of the divisions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_simulation.families.division import round_by_division
from askance_simulation.families.fused import has_kernels

_MOST_VALUES = 1 << 12  # of a table: it stays in a core's first caches

Values = NDArray[np.signedinteger[Any]]
Levels = NDArray[np.integer[Any]]
Coins = NDArray[np.uint64]
Steps = tuple[NDArray[np.unsignedinteger[Any]], Coins]
"""By value, from the lowest on: the level below, and the number of coins that lead above it."""


class Rounding(Protocol):
    """Random rounding of values onto equally spaced levels."""

    def __call__(self, values: Values, low: int, high: int, levels: int, words: Coins) -> Levels:
        """Return what `round_to_levels` returns, in any integer type.

        Args:
            values: in low..high, one per user, or several in a row.
            low: the first point.
            high: the last point.
            levels: number of points, 2..2^16.
            words: the users' coins, shape (users, coins); the last ones round, one per value.
        """
        ...


def rounding(users: int) -> Rounding:
    """Return the rounding for a population: compiled from 10^6 users on, if numba is installed."""
    if not has_kernels(users):
        return round_columns
    try:
        from askance_simulation.kernels import rounding as kernels
    except ImportError:
        return round_columns

    def compiled(values: Values, low: int, high: int, levels: int, words: Coins) -> Levels:
        rounded = np.empty(values.shape, np.uint8 if levels <= 1 << 8 else np.uint16)
        words, lowest = np.ascontiguousarray(words), np.int64(low)
        steps = _steps(high - low, levels)
        points = lowest, np.uint64(high - low), np.uint64(levels - 1)
        if values.ndim == 1:
            last = words.shape[1] - 1
            if steps is not None:
                kernels.round_by_table(values, words, last, rounded, lowest, *steps)
            else:
                kernels.round_array(values, words, last, rounded, *points)
            return rounded
        values, first = np.ascontiguousarray(values), words.shape[1] - values.shape[1]
        if steps is not None:
            kernels.round_matrix_by_table(values, words, first, rounded, lowest, *steps)
        else:
            kernels.round_matrix(values, words, first, rounded, *points)
        return rounded

    return compiled


def round_columns(values: Values, low: int, high: int, levels: int, words: Coins) -> Levels:
    """Round without compiled code (see `Rounding`)."""
    coins = words[:, -1] if values.ndim == 1 else words[:, -values.shape[1] :]
    steps = _steps(high - low, levels)
    if steps is None:
        wide = values.astype(np.int64, copy=False)
        return round_by_division(wide, low, high, levels, np.ascontiguousarray(coins))
    below, thresholds = steps
    places = values.astype(np.int64) - low
    rounded: Levels = below[places] + (coins < thresholds[places])
    return rounded


@lru_cache(maxsize=64)
def _steps(span: int, levels: int) -> Steps | None:
    """Compute a table of all values; None if they are many."""
    if span >= _MOST_VALUES:
        return None
    steps = np.arange(span + 1) * (levels - 1)
    below, rest = np.divmod(steps, span)
    first, rest = np.divmod(rest << 32, span)
    second = (rest << 32) // span
    thresholds = (first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64)
    return below.astype(np.uint8 if levels <= 1 << 8 else np.uint16), thresholds
