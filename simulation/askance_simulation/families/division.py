"""Random rounding of columns by a division of each value, equal to a device's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.randomizers.rounding import round_to_levels

_DIGIT = np.uint64((1 << 32) - 1)
_HALF = np.uint64(32)


def round_by_division(
    values: NDArray[np.int64], low: int, high: int, levels: int, coins: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Round many values at random onto levels (see `round_to_levels`).

    Args:
        values: each in low..high, of any shape.
        low: the first point.
        high: the last point.
        levels: how many points.
        coins: uniform in 0..2^64-1, of the shape of `values`.

    Returns:
        Levels of the same shape, by the same formula in digits that fit int64.

    Raises:
        InvalidParameter: an argument is not of that form.
    """
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
            f"every value has a coin, found shapes {values.shape} and {coins.shape}"
        )
    if values.size and not (values.min() >= low and values.max() <= high):
        raise InvalidParameter("grid values lie in their range, found some outside")
