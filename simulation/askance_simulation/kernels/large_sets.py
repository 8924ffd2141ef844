"""Sets of any number of cells: bitmaps of several words, or sorted indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.byte_counts import add_bits
from askance_simulation.kernels.compiling import compiled, inlined, product_high

_TOP = np.uint64(1 << 63)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_LOW = np.uint64(63)
_INSERTED = 32  # items of a set up to which they are sorted by insertion


@inlined
def _draw_set(
    words: Any, at: Any, items: Any, coins: Any, first: Any, own: Any, cells: Any, threshold: Any
) -> None:
    """Draw a set as `randomizers.floyd.draw_members` does, as bits and in the order of the draws.

    Args:
        words: bits by item, item 0 in the first word's highest; cleared.
        at: position of the user's first word, uint64.
        items: to be filled, shape (size,).
        coins: of all users, in a row.
        first: position of the first of the user's coins, uint64.
        own: the own item, uint64.
        cells: number of items there are.
        threshold: coins below it put the own item in.
    """
    size, last = len(items), np.uint64(cells - 1)
    own_in = coins[first] < threshold
    skipped = np.uint64(own_in)  # with the own item in, one draw fewer
    j = np.uint64(cells - size) + skipped
    for draw in range(size - own_in):
        place = np.uint64(draw) + skipped
        item = product_high(coins[first + place + _ONE], j)
        taken = (words[at + (item >> _SIX)] << (item & _LOW)) >> _LOW
        item = j - _ONE if taken else item
        words[at + (item >> _SIX)] |= _TOP >> (item & _LOW)
        items[place] = item
        j += _ONE
    here, bit = at + (own >> _SIX), _TOP >> (own & _LOW)
    if words[here] & bit:  # the last item stands under the own one's number
        words[here] ^= bit
        words[at + (last >> _SIX)] |= _TOP >> (last & _LOW)
        for draw in range(size - own_in):
            place = np.uint64(draw) + skipped
            items[place] = last if items[place] == own else items[place]
    if own_in:
        items[0] = own
        words[here] |= bit


@compiled
def draw_bitmaps(
    levels: Any, coins: Any, reports: Any, sums: Any, cells: Any, size: Any, threshold: Any
) -> None:
    """Draw reports that are bitmaps, and count the reports that contain each cell."""
    users, width = len(levels), reports.shape[1]
    wide, each = (cells + 63) // 64, np.uint64(coins.shape[1])
    words, items = np.zeros(users * wide, np.uint64), np.empty(size, np.uint64)
    flat = coins.reshape(-1)
    for row in range(users):
        own, at, first = np.uint64(levels[row]), np.uint64(row * wide), np.uint64(row) * each
        _draw_set(words, at, items, flat, first, own, cells, threshold)
    for row in range(users):
        for byte in range(width):
            word = words[row * wide + (byte >> 3)]
            reports[row, byte] = word >> np.uint64(56 - 8 * (byte & 7))
    for word in range(wide):
        add_bits(words[word::wide], sums[64 * word : min(cells, 64 * word + 64)])


@compiled
def draw_indices(
    levels: Any, coins: Any, reports: Any, sums: Any, cells: Any, size: Any, threshold: Any
) -> None:
    """Draw reports that are sorted indices, and count the reports that contain each cell."""
    users, index_bytes, each = len(levels), reports.shape[1] // size, np.uint64(coins.shape[1])
    words, flat = np.zeros((cells + 63) // 64, np.uint64), coins.reshape(-1)
    items = np.empty(size, np.uint64)
    for row in range(users):
        own, first = np.uint64(levels[row]), np.uint64(row) * each
        _draw_set(words, np.uint64(0), items, flat, first, own, cells, threshold)
        _sort(items)
        for place in range(size):
            item = items[place]
            words[item >> _SIX] = 0
            sums[item] += 1
            for byte in range(index_bytes):
                shift = np.uint64(8 * (index_bytes - 1 - byte))
                reports[row, place * index_bytes + byte] = item >> shift


@compiled
def _sort(items: Any) -> None:
    if len(items) > _INSERTED:
        items.sort()
        return
    for place in range(1, len(items)):
        item, here = items[place], place
        while here > 0 and items[here - 1] > item:
            items[here] = items[here - 1]
            here -= 1
        items[here] = item
