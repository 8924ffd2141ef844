"""Bisection: the place on a line at which a condition turns from false to true."""

from __future__ import annotations

from collections.abc import Callable


def least_whole(
    enough: Callable[[int], bool], low: int, high: int, apart: int = 1, part: int = 0
) -> int:
    """Return the least whole number above `low` that is enough, where all larger ones are too.

    Args:
        enough: the condition; it is not asked of the ends.
        low: not enough, or below all that count.
        high: enough.
        apart: width at which the search ends; the result is too great by less than that.
        part: of the result, 1 / `part` is such a width too; 0: none.
    """
    while high - low > max(1, apart, high // part if part else 0):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def halved(
    enough: Callable[[float], bool], low: float, high: float, halvings: int, part: float = 0.0
) -> tuple[float, float]:
    """Return the ends of a stretch of `low` .. `high`, halved so often, where `enough` turns true.

    The lower end is not enough and the upper one is, as far as that is true of `low` and `high`.
    A stretch of at most a `part` of its upper end is halved no more.
    """
    for _ in range(halvings):
        if part and high - low <= part * high:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return low, high
