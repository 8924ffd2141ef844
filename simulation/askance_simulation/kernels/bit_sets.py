"""Sets of up to 64 cells or signed values as one word per user, item 0 in its highest bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from askance_simulation.kernels.byte_counts import add_bits
from askance_simulation.kernels.compiling import compiled, inlined, product_high, store

_TOP = np.uint64(1 << 63)
_ONE = np.uint64(1)
_LOW = np.uint64(63)


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


@inlined
def draw_members(cells: Any, size: Any, own_in: Any, own: Any, coins: Any, first: Any) -> Any:
    """Draw a set as `randomizers.floyd.draw_members` does.

    Args:
        cells: 2..64, more than `size`.
        size: number of items of a set.
        own_in: 1 if the own item is in, else 0; uint64, since a branch would be taken by chance.
        own: the own item, uint64.
        coins: of all users, in a row.
        first: position of the first of the user's coins.
    """
    j = np.uint64(cells - size)
    members = (_TOP >> product_high(coins[first + 1], j)) * (_ONE - own_in)
    for draw in range(2, size + 1):
        drawn = _TOP >> product_high(coins[first + draw], j + _ONE)
        members |= (_TOP >> j) if members & drawn else drawn
        j += _ONE
    place = _LOW - own
    taken = (members >> place) & _ONE  # then the last item stands under the own one's number
    members ^= taken << place
    return members | (taken << (np.uint64(64 - cells))) | (own_in << place)


@compiled
def draw_sets(
    levels: Any, coins: Any, reports: Any, sums: Any, cells: Any, size: Any, threshold: Any
) -> None:
    """Draw reports that are bitmaps, and count the reports that contain each cell."""
    users, each = coins.shape
    words, flat = np.empty(users, np.uint64), np.ascontiguousarray(coins).reshape(-1)
    for row in range(users):
        own_in = np.uint64(flat[row * each] < threshold)
        own = np.uint64(levels[row])
        words[row] = draw_members(cells, size, own_in, own, flat, row * each)
    spare = np.uint64(64 - 8 * reports.shape[1])
    for row in range(users):
        store(reports, row, words[row] >> spare)
    add_bits(words, sums)


@compiled
def draw_signed_sets(levels: Any, coins: Any, reports: Any, sums: Any, sets: Any) -> None:
    """Draw reports that are bitmaps of (value, +) and (value, -), and count each item's."""
    values, size, last, most, neutral_last, neutral_most = sets
    users, each = coins.shape
    plus, minus = np.empty(users, np.uint64), np.empty(users, np.uint64)
    flat, neutral = np.ascontiguousarray(coins).reshape(-1), np.uint64(2 * values)
    whole = ~np.uint64(0) << np.uint64(64 - values)
    for row in range(users):
        first, level = row * each, np.uint64(levels[row])
        coin, signs = flat[first], flat[first + 1 + size]
        at_none = level == neutral
        own_in = np.uint64(coin <= (neutral_last if at_none else last))
        same = np.uint64(coin < (neutral_most if at_none else most))
        own = np.uint64(0) if at_none else level >> _ONE
        members = whole
        if size < values:
            members = draw_members(values, size, own_in, own, flat, first)
        bit = own_in << (_LOW - own)
        sign = (same ^ (level & _ONE)) << (_LOW - own)
        signs = (signs & ~bit) | (sign & bit)
        plus[row], minus[row] = members & signs, members & ~signs
    for row in range(users):
        _store_pairs(reports, row, plus[row], minus[row])
    counts = np.zeros((2, values), np.int64)
    add_bits(plus, counts[0])
    add_bits(minus, counts[1])
    for value in range(values):
        sums[2 * value] += counts[0, value]
        sums[2 * value + 1] += counts[1, value]


@inlined
def _store_pairs(reports: Any, row: Any, plus: Any, minus: Any) -> None:
    """Write the bits of two words in turn, from the highest down, as many as fit the report."""
    width = reports.shape[1]
    for half in range(2):
        pairs = (_spread(plus) << _ONE) | _spread(minus)
        for byte in range(8 * half, min(width, 8 * half + 8)):
            reports[row, byte] = pairs >> np.uint64(56 - 8 * (byte - 8 * half))
        plus, minus = plus << np.uint64(32), minus << np.uint64(32)


@inlined
def _spread(word: Any) -> Any:
    """Return the 32 highest bits at every other place, the lowest of them at place 0."""
    half = word >> np.uint64(32)
    half = (half | (half << np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    half = (half | (half << np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    half = (half | (half << np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    half = (half | (half << np.uint64(2))) & np.uint64(0x3333333333333333)
    return (half | (half << _ONE)) & np.uint64(0x5555555555555555)
