"""Random rounding: how a number on a fine grid becomes one of a few levels without bias."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE

MAX_SPAN = 1 << 31
MAX_ROUNDING_LEVELS = 1 << 16


def round_to_levels(value: int, low: int, high: int, levels: int, coin: int) -> int:
    """Round a grid value at random onto equally spaced points of [low, high].

    The value's position among the points is (value - low) (levels - 1) / (high - low); it goes to
    the point above with the probability that is its fractional part, else to the one below.

    Privacy: the coin must be independent of the randomizer's: the report then follows a mixture of
    the randomizer's rows, and its epsilon is kept.
    Utility: the expected position is exact to within 2^-64, downward.

    Args:
        value: in low..high.
        low: the first point.
        high: the last point; high - low is in 1..2^31-1.
        levels: how many points, 2..2^16.
        coin: uniform in 0..2^64-1.

    Returns:
        A level in 0..levels-1.

    Raises:
        InvalidParameter: an argument is not of that form.
    """
    span = high - low
    if not 0 < span < MAX_SPAN:
        raise InvalidParameter(f"a range spans 1..2^31-1 grid units, found {span}")
    if not 2 <= levels <= MAX_ROUNDING_LEVELS:
        raise InvalidParameter(f"rounding is onto 2..{MAX_ROUNDING_LEVELS} levels, found {levels}")
    value, coin = _checked(value, low, high, coin)
    below, rest = divmod((value - low) * (levels - 1), span)
    return below + (coin < (rest << COIN_BITS) // span)


def sign_pattern(values: Sequence[int], low: int, high: int, coins: Sequence[int]) -> int:
    """Round every component to one of the two ends: the pattern that is + where it is the high.

    Privacy: as of `round_to_levels`: a mixture of the patterns' rows.

    There is a value, in low..high, and a coin for each component. Bit s-1-j of the pattern stands
    for component j of s.
    """
    if not len(values) == len(coins) > 0:
        raise InvalidParameter(f"{len(values)} components have as many coins, found {len(coins)}")
    pattern = 0
    for value, coin in zip(values, coins, strict=True):
        pattern = pattern << 1 | round_to_levels(value, low, high, 2, coin)
    return pattern


def _checked(value: object, low: int, high: int, coin: object) -> tuple[int, int]:
    try:
        value, coin = index(value), index(coin)  # type: ignore[arg-type]  # any other type is the TypeError
    except TypeError:
        raise InvalidParameter(
            "a grid value and its coin are integers, found another type"
        ) from None
    if not low <= value <= high:
        raise InvalidParameter("a grid value lies in its range, found one outside")
    if not 0 <= coin < COIN_SPACE:
        raise InvalidParameter("a coin lies in 0..2^64-1, found one outside")
    return value, coin
