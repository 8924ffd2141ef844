"""Random rounding: how a number on a fine grid becomes one of a few levels without bias."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_SPACE

MAX_SPAN = 1 << 31
MAX_ROUNDING_LEVELS = 1 << 16

_WORD = (1 << 32) - 1


@overload
def round_to_levels(value: int, low: int, high: int, levels: int, coin: int) -> int: ...


@overload
def round_to_levels(
    value: NDArray[np.int64], low: int, high: int, levels: int, coin: NDArray[np.uint64]
) -> NDArray[np.int64]: ...


def round_to_levels(value: Any, low: int, high: int, levels: int, coin: Any) -> Any:
    """Round a grid value at random onto equally spaced points of [low, high].

    The value's position among the points is (value - low) (levels - 1) / (high - low); it goes to
    the point above with the probability that is its fractional part, else to the one below.

    Privacy: the coin must be independent of the randomizer's: the report then follows a mixture of
    the randomizer's rows, and its epsilon is kept.
    Utility: the expected position is exact to within 2^-64, downward.

    Args:
        value: in low..high; an int, or an int64 array of users.
        low: the first point.
        high: the last point; high - low is in 1..2^31-1.
        levels: how many points, 2..2^16.
        coin: uniform in 0..2^64-1; an int, or a uint64 array of the value's shape.

    Returns:
        A level in 0..levels-1; an int64 array for arrays, by the same formulas.

    Raises:
        InvalidParameter: an argument is not of that form.
    """
    span = high - low
    if not 0 < span < MAX_SPAN:
        raise InvalidParameter(f"a range spans 1..2^31-1 grid units, found {span}")
    if not 2 <= levels <= MAX_ROUNDING_LEVELS:
        raise InvalidParameter(f"rounding is onto 2..{MAX_ROUNDING_LEVELS} levels, found {levels}")
    if isinstance(value, np.ndarray):
        _check_arrays(value, low, high, coin)
    else:
        value, coin = _checked_scalars(value, low, high, coin)
    steps = (value - low) * (levels - 1)  # below 2^47
    below, rest = steps // span, steps % span
    # floor(rest / span * 2^64) by long division in two digits of 32 bits, each of which fits int64;
    # so does a comparison digit by digit, where the whole threshold would need uint64.
    first, rest = (rest << 32) // span, (rest << 32) % span
    second = (rest << 32) // span
    head, tail = coin >> 32, coin & _WORD
    up = (head < first) | ((head == first) & (tail < second))
    return below + up


def sign_pattern(values: Sequence[int], low: int, high: int, coins: Sequence[int]) -> int:
    """Round every component to one of the two ends: the pattern that is + where it is the high.

    Privacy: as of `round_to_levels`: a mixture of the patterns' rows.

    Args:
        values: one a component, each in low..high.
        low: the end of - of every component.
        high: the end of +.
        coins: one a component.

    Returns:
        Bit s-1-j stands for component j of s.

    Raises:
        InvalidParameter: an argument is not of that form.
    """
    if not len(values) == len(coins) > 0:
        raise InvalidParameter(f"{len(values)} components have as many coins, found {len(coins)}")
    try:
        column, words = np.array(values, dtype=np.int64), np.array(coins, dtype=np.uint64)
    except (OverflowError, TypeError, ValueError):
        raise InvalidParameter("components and their coins are integers of 64 bits") from None
    signs = round_to_levels(column, low, high, 2, words)
    spare = -len(values) % 8
    return int.from_bytes(np.packbits(signs.astype(np.bool_)).tobytes(), "big") >> spare


def _checked_scalars(value: Any, low: int, high: int, coin: Any) -> tuple[int, int]:
    try:
        value, coin = index(value), index(coin)
    except TypeError:
        raise InvalidParameter(
            "a grid value and its coin are integers, found another type"
        ) from None
    if not low <= value <= high:
        raise InvalidParameter("a grid value lies in its range, found one outside")
    if not 0 <= coin < COIN_SPACE:
        raise InvalidParameter("a coin lies in 0..2^64-1, found one outside")
    return value, coin


def _check_arrays(value: NDArray[Any], low: int, high: int, coin: Any) -> None:
    if value.dtype != np.int64 or not isinstance(coin, np.ndarray) or coin.dtype != np.uint64:
        raise InvalidParameter("columns are int64 values and uint64 coins, found another dtype")
    if value.shape != coin.shape:
        raise InvalidParameter(
            f"every value has a coin, found shapes {value.shape} and {coin.shape}"
        )
    if value.size and not (value.min() >= low and value.max() <= high):
        raise InvalidParameter("grid values lie in their range, found some outside")
