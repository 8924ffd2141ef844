"""Random rounding of columns, as of `round_to_levels`: by a table of all values, if they are few.

A value's level below and the threshold of its coin depend on the value alone, so that a table takes
the place of the divisions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.randomizers.rounding import round_to_levels
from askance_simulation.families.fused import has_kernels

_DIGIT = np.uint64((1 << 32) - 1)
_HALF = np.uint64(32)


def round_by_division(
    values: NDArray[np.int64], low: int, high: int, levels: int, coins: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Round many values at random onto levels, as `round_to_levels`, in digits that fit int64."""
    round_to_levels(low, low, high, levels, 0)  # checks the range and the levels
    _check_columns(values, low, high, coins)
    span = high - low
    parts = (values - low) * (levels - 1)  # below 2^47
    below = parts // span
    rest = (parts - below * span).astype(np.uint64)
    # coin < floor(rest 2^64 / span), that is (coin + 1) span <= rest 2^64, by digits of 32 bits:
    # no product of a digit and the span has more than 63 bits.
    width = np.uint64(span)
    low_digit = (coins & _DIGIT) * width + width
    high_digits = (coins >> _HALF) * width + (low_digit >> _HALF)
    past = ((low_digit | high_digits) & _DIGIT) != 0  # a part of 2^64 more
    rounded: NDArray[np.int64] = below + ((high_digits >> _HALF) + past <= rest)
    return rounded


def _check_columns(
    values: NDArray[np.int64], low: int, high: int, coins: NDArray[np.uint64]
) -> None:
    dtypes = getattr(values, "dtype", None), getattr(coins, "dtype", None)
    if dtypes != (np.int64, np.uint64):
        raise InvalidParameter(
            f"columns: expected int64 values and uint64 coins, got {dtypes[0]} and {dtypes[1]}"
        )
    if values.shape != coins.shape:
        raise InvalidParameter(
            f"every value has a coin, got shapes {values.shape} and {coins.shape}"
        )
    if values.size and not (values.min() >= low and values.max() <= high):
        raise InvalidParameter("grid values lie in their range, got some outside")


_MOST_VALUES = 1 << 12  # of a table: it stays in a core's first caches

Values = NDArray[np.signedinteger[Any]]
Levels = NDArray[np.integer[Any]]
Coins = NDArray[np.uint64]
Steps = tuple[NDArray[np.unsignedinteger[Any]], Coins]
"""By value, from the lowest on: the level below, and the number of coins that lead above it."""


class Rounding(Protocol):
    """Random rounding of values onto equally spaced levels."""

    def __call__(self, values: Values, low: int, high: int, levels: int, words: Coins) -> Levels:
        """Return what `round_to_levels` returns, in any integer type."""
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
