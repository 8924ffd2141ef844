"""Random rounding of values onto levels by multiplications, equal to a device's of each value.

A value is `below` whole steps and `rest` of `span` parts of one more above the lowest. The level
above is taken if coin < floor(rest 2^64 / span), that is, (coin + 1) span <= rest 2^64. Comparisons
are added up, since a branch would be taken by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.blocks import AT_ONCE, column_of, users_at_once
from askance_simulation.kernels.compiling import compiled, inlined, product, product_high

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_LOWER = np.uint64((1 << 32) - 1)


@compiled
def round_array(
    values: Any, words: Any, place: int, levels: Any, low: Any, span: Any, steps: Any
) -> None:
    """Round values at random onto equally spaced levels (see `round_to_levels`).

    Args:
        values: shape (n,), each in low..low + span.
        words: coins, shape (n, each).
        place: which of a user's coins rounds.
        levels: shape (n,), to be filled.
        low: the lowest value.
        span: length of the range, uint64, 1..2^31 - 1.
        steps: number of levels less 1, uint64, below 2^16.
    """
    users, each = words.shape
    flat, column = words.reshape(-1), np.empty(AT_ONCE, np.uint64)
    narrow = span * steps < _ONE << _HALF
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        coins = column_of(flat[start * each : stop * each], each, place, column[: stop - start])
        if narrow:
            _round_narrow(values[start:stop], coins, levels[start:stop], low, span, steps)
        else:
            _round_wide(values[start:stop], coins, levels[start:stop], low, span, steps)


@compiled
def round_by_table(
    values: Any, words: Any, place: int, levels: Any, low: Any, below: Any, thresholds: Any
) -> None:
    """Round by a table of all values.

    Arguments are as of `round_array`. By value, from the lowest on, `below` is the level below it
    and `thresholds` the number of coins that lead above that level.
    """
    each, coin, flat = np.uint64(words.shape[1]), np.uint64(place), words.reshape(-1)
    for row in range(len(values)):
        value = np.uint64(np.int64(values[row]) - low)
        levels[row] = below[value] + np.uint8(flat[coin] < thresholds[value])
        coin += each


@compiled
def round_matrix(
    values: Any, words: Any, first: int, levels: Any, low: Any, span: Any, steps: Any
) -> None:
    """Round several values per user.

    `values` and `levels` have the shape (n, components), contiguous. Of a user's coins `first`
    rounds the first component, and the next ones follow. Else as of `round_array`.
    """
    users, components = values.shape
    given, rounded = values.reshape(-1), levels.reshape(-1)
    at_once = users_at_once(components)
    room = np.empty((at_once, components), np.uint64)
    narrow = span * steps < _ONE << _HALF
    for start in range(0, users, at_once):
        stop = min(start + at_once, users)
        for row in range(stop - start):
            for place in range(components):
                room[row, place] = words[start + row, first + place]
        block = slice(start * components, stop * components)
        coins = room.reshape(-1)[: (stop - start) * components]
        if narrow:
            _round_narrow(given[block], coins, rounded[block], low, span, steps)
        else:
            _round_wide(given[block], coins, rounded[block], low, span, steps)


@compiled
def round_matrix_by_table(
    values: Any, words: Any, first: int, levels: Any, low: Any, below: Any, thresholds: Any
) -> None:
    """Round several values per user by a table of all values.

    Arguments are as of `round_matrix`, and the table as of `round_by_table`.
    """
    for row in range(values.shape[0]):
        for place in range(values.shape[1]):
            value = np.uint64(np.int64(values[row, place]) - low)
            above = np.uint8(words[row, first + place] < thresholds[value])
            levels[row, place] = below[value] + above


@compiled
def _round_narrow(values: Any, coins: Any, levels: Any, low: Any, span: Any, steps: Any) -> None:
    """Round where parts are below 2^32; `below` is at first at most one too small."""
    inverse = _LOWER // span
    for row in range(len(coins)):
        parts = product(np.uint64(np.int64(values[row]) - low), steps)
        below = product(parts, inverse) >> _HALF
        below += np.uint64(parts - product(below, span) >= span)
        levels[row] = below + _is_above(coins[row], parts - product(below, span), span)


@compiled
def _round_wide(values: Any, coins: Any, levels: Any, low: Any, span: Any, steps: Any) -> None:
    """Round where parts are below 2^47; `below` is at first at most one too great."""
    inverse = (_NONE - _ONE) // span + _ONE  # 0, for 2^64, where the span is 1
    whole = np.uint64(span == _ONE)
    for row in range(len(coins)):
        parts = np.uint64(np.int64(values[row]) - low) * steps
        below = product_high(parts, inverse) + parts * whole
        below -= np.uint64(below * span > parts)
        levels[row] = below + _is_above(coins[row], parts - below * span, span)


@inlined
def _is_above(coin: Any, rest: Any, span: Any) -> Any:
    """Return 1 if (coin + 1) span <= rest 2^64, else 0."""
    # With coin = 2^32 h + l, the left side is 2^64 `head` + `tail`, and head has one more if tail
    # overflows.
    lower, upper = product(coin & _LOWER, span), product(coin >> _HALF, span)
    head = (upper + (lower >> _HALF)) >> _HALF
    tail = (upper << _HALF) + lower + span
    return np.uint64(head + np.uint64(tail < span) + np.uint64(tail != _NONE) <= rest)
