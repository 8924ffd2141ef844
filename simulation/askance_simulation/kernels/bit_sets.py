"""Sets of up to 64 cells or signed values as one word per user, item 0 in its highest bit.

A block's users draw their members together, one draw after another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from askance_simulation.kernels.blocks import (
    AT_ONCE,
    column_of,
    store_numbers,
    store_pairs,
    users_at_once,
)
from askance_simulation.kernels.byte_counts import add_bits
from askance_simulation.kernels.compiling import compiled, inlined, scaled

_TOP = np.uint64(1 << 63)
_ONE = np.uint64(1)
_LOW = np.uint64(63)
_WORD = np.uint64(64)
_HALF = np.uint64(32)
_LOWER = np.uint64((1 << 32) - 1)


class SignedSets(NamedTuple):
    """Constants of signed sets.

    Args:
        values: 1..64.
        size: number of members of a set.
        last: the last of the coins, less than 2^64, by which the own value is in.
        plus: number of coins by which the own value has its own sign.
        neutral_last: `last` of a neutral user.
        neutral_plus: `plus` of a neutral user.
    """

    values: int
    size: int
    last: np.uint64
    plus: np.uint64
    neutral_last: np.uint64
    neutral_plus: np.uint64


@compiled
def _first_member(coins: Any, own_in: Any, sets: Any, j: Any) -> None:
    """Draw the first item of a set, where the own one does not take its place."""
    for row in range(len(sets)):
        sets[row] = (_TOP >> scaled(coins[row], j)) * (_ONE - own_in[row])


@compiled
def _next_member(coins: Any, sets: Any, j: Any) -> None:
    """Add an item below j + 1 to sets, or item j if it is there."""
    last, items = _TOP >> j, j + _ONE
    for row in range(len(sets)):
        members = sets[row]
        drawn = _TOP >> scaled(coins[row], items)
        sets[row] = members | (last if members & drawn else drawn)


@compiled
def _draw_members(
    words: Any, each: int, own_in: Any, column: Any, sets: Any, cells: int, size: int
) -> None:
    """Draw sets as `randomizers.floyd.draw_members` does, all but the own item."""
    # `words` are the coins of the users of a block, `each` per user, in a row. `own_in`, shape
    # (n,), uint64, is 1 if the own item is in, else 0; `column` has room for one coin per user.
    # There are 2..64 cells, more than `size`.
    j = np.uint64(cells - size)
    _first_member(column_of(words, each, 1, column), own_in, sets, j)
    for draw in range(2, size + 1):
        _next_member(column_of(words, each, draw, column), sets, j)
        j += _ONE


@inlined
def _with_own(members: Any, own_in: Any, own: Any, cells: Any) -> Any:
    """Return a set with the last item under the own one's number, and the own one if it is in."""
    place = _LOW - own
    taken = (members >> place) & _ONE
    members ^= taken << place
    return members | (taken << (_WORD - cells)) | (own_in << place)


@compiled
def _are_below(coins: Any, threshold: Any, below: Any) -> None:
    for row in range(len(coins)):
        below[row] = np.uint64(coins[row] < threshold)


@compiled
def _add_own(levels: Any, own_in: Any, sets: Any, cells: Any) -> None:
    for row in range(len(sets)):
        sets[row] = _with_own(sets[row], own_in[row], np.uint64(levels[row]), cells)


@compiled
def _shift(words: Any, spare: Any, numbers: Any) -> None:
    for row in range(len(words)):
        numbers[row] = words[row] >> spare


@compiled
def draw_sets(
    levels: Any, coins: Any, reports: Any, sums: Any, cells: int, size: int, threshold: Any
) -> None:
    """Draw reports that are bitmaps, and count the reports that contain each cell."""
    users, each = coins.shape
    width, flat, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    room, inside = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    spare, wide = np.uint64(64 - 8 * width), np.uint64(cells)
    sets = np.empty(users, np.uint64)
    at_once = users_at_once(each)
    for start in range(0, users, at_once):
        stop = min(start + at_once, users)
        column, own_in, ours = room[: stop - start], inside[: stop - start], sets[start:stop]
        words = flat[start * each : stop * each]
        _are_below(column_of(words, each, 0, column), threshold, own_in)
        _draw_members(words, each, own_in, column, ours, cells, size)
        _add_own(levels[start:stop], own_in, ours, wide)
        _shift(ours, spare, column)
        store_numbers(octets[start * width : stop * width], column, width)
    add_bits(sets, sums)


@compiled
def draw_signed_sets(levels: Any, coins: Any, reports: Any, sums: Any, sets: Any) -> None:
    """Draw reports that are bitmaps of (value, +) and (value, -), and count each item's."""
    values, size = sets.values, sets.size
    users, each = coins.shape
    width, flat, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    room, inside = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    same = np.empty(AT_ONCE, np.uint64)
    plus, minus = np.empty(users, np.uint64), np.empty(users, np.uint64)
    at_once = users_at_once(each)
    for start in range(0, users, at_once):
        stop = min(start + at_once, users)
        ours, words = levels[start:stop], flat[start * each : stop * each]
        column, own_in, signs = room[: stop - start], inside[: stop - start], same[: stop - start]
        _are_own(ours, column_of(words, each, 0, column), own_in, signs, sets)
        members, others = plus[start:stop], minus[start:stop]
        if size < values:
            _draw_members(words, each, own_in, column, members, values, size)
        coins_of_signs = column_of(words, each, 1 + size, column)
        _add_signs(ours, coins_of_signs, own_in, signs, members, others, sets)
        _interleave(members, others, own_in, signs)
        if width <= 8:
            _shift(own_in, np.uint64(64 - 8 * width), column)
            store_numbers(octets[start * width : stop * width], column, width)
        else:
            store_pairs(octets[start * width : stop * width], own_in, signs, width)
    counts = np.zeros((2, values), np.int64)
    add_bits(plus, counts[0])
    add_bits(minus, counts[1])
    for value in range(values):
        sums[2 * value] += counts[0, value]
        sums[2 * value + 1] += counts[1, value]


@compiled
def _are_own(levels: Any, coins: Any, own_in: Any, same: Any, sets: Any) -> None:
    """Compute whether the own value is in, and whether with its own sign."""
    last, most = sets.last, sets.plus
    neutral_last, neutral_most = sets.neutral_last, sets.neutral_plus
    neutral = np.uint64(2 * sets.values)
    for row in range(len(coins)):
        coin, at_none = coins[row], np.uint64(levels[row]) == neutral
        own_in[row] = np.uint64(coin <= (neutral_last if at_none else last))
        same[row] = np.uint64(coin < (neutral_most if at_none else most))


@compiled
def _add_signs(
    levels: Any, signs: Any, own_in: Any, same: Any, plus: Any, minus: Any, sets: Any
) -> None:
    """Divide sets by their items' signs."""
    # levels: shape (n,).
    # signs: coins whose bits are the signs, the own one's excepted.
    # own_in: 1 if the own value is in.
    # same: 1 if with its own sign.
    # plus: the sets without the own value, if they have fewer items than there are; then those
    # with +.
    # minus: to be filled with those with -.
    # sets: the constants.
    cells, neutral = np.uint64(sets.values), np.uint64(2 * sets.values)
    whole, every = ~np.uint64(0) << (_WORD - cells), sets.size == sets.values
    for row in range(len(plus)):
        level = np.uint64(levels[row])
        own = np.uint64(0) if level == neutral else level >> _ONE
        members = whole if every else _with_own(plus[row], own_in[row], own, cells)
        bit = own_in[row] << (_LOW - own)
        sign = (same[row] ^ (level & _ONE)) << (_LOW - own)
        word = (signs[row] & ~bit) | (sign & bit)
        plus[row], minus[row] = members & word, members & ~word


@compiled
def _interleave(plus: Any, minus: Any, high: Any, low: Any) -> None:
    """Compute the words of the bits of two words in turn, from the highest down."""
    for row in range(len(plus)):
        one, other = plus[row], minus[row]
        high[row] = (_spread(one >> _HALF) << _ONE) | _spread(other >> _HALF)
        low[row] = (_spread(one & _LOWER) << _ONE) | _spread(other & _LOWER)


@inlined
def _spread(half: Any) -> Any:
    """Return 32 bits at every other place, the lowest of them at place 0."""
    half = (half | (half << np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    half = (half | (half << np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    half = (half | (half << np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    half = (half | (half << np.uint64(2))) & np.uint64(0x3333333333333333)
    return (half | (half << _ONE)) & np.uint64(0x5555555555555555)
