"""Sets of any number of cells: bitmaps of several words, or sorted indices.

A block's users draw their members together, one draw after another, so that no draw waits for what
the one before has written. Which items a user has is marked in words of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.blocks import column_of, count_numbers, users_at_once
from askance_simulation.kernels.byte_counts import add_bits
from askance_simulation.kernels.compiling import compiled, inlined, product_high

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_SIX = np.uint64(6)
_BYTE = np.uint64(8)
_LOW = np.uint64(63)
_ABSENT = np.uint32((1 << 32) - 1)
_COMPARED = 64  # items of a set up to which comparing all pairs takes less time than marks
_MARKS = 1 << 14  # most words of marks of a block: they stay in the second cache


@compiled
def _users_of_block(each: int, wide: int) -> int:
    """Return the users whose coins, `each` per user, and marks, `wide` words, stay in a cache."""
    return max(1, min(users_at_once(each), _MARKS // wide))


@compiled
def _are_below(coins: Any, threshold: Any, below: Any) -> None:
    for row in range(len(coins)):
        below[row] = np.uint64(coins[row] < threshold)


@inlined
def _items_below(coins: Any, each: int, draw: int, limit: Any, items: Any) -> None:
    """Compute the items that the coins of a draw choose from those below a limit."""
    # `draw` is the number of the draw, from 0 on; the coin before the first is the own item's.
    # `items`, shape (n,), is filled.
    stride, coin = np.uint64(each), np.uint64(draw + 1)
    for row in range(len(items)):
        items[row] = product_high(coins[coin], limit)
        coin += stride


@inlined
def _find(items: Any, marks: Any, taken: Any) -> None:
    """Find out which items are marked."""
    # `marks` has bits by item, item 0 in a user's first word's highest, users one after another;
    # `taken` is filled with 1 or 0.
    wide, at = np.uint64(len(marks) // len(items)), _NONE
    for row in range(len(items)):
        item = np.uint64(items[row])
        taken[row] = (marks[at + (item >> _SIX)] >> (~item & _LOW)) & _ONE
        at += wide


@inlined
def _replace(items: Any, taken: Any, j: Any) -> None:
    """Replace items that are taken. This loop has no look-ups, so that nothing is a branch."""
    last = np.uint32(j)
    for row in range(len(items)):
        items[row] = last if taken[row] else items[row]


@inlined
def _mark(items: Any, marks: Any) -> None:
    """Mark one item per user."""
    wide, at = np.uint64(len(marks) // len(items)), _NONE
    for row in range(len(items)):
        item = np.uint64(items[row])
        marks[at + (item >> _SIX)] |= _ONE << (~item & _LOW)
        at += wide


@compiled
def _draw_first(coins: Any, each: int, own_in: Any, marks: Any, items: Any, j: Any) -> None:
    """Draw the first item of sets from those below j, unless the own one takes its place."""
    _items_below(coins, each, 0, j, items)
    wide, at = np.uint64(len(marks) // len(items)), _NONE
    for row in range(len(items)):
        item = np.uint64(items[row])
        marks[at + (item >> _SIX)] |= (_ONE - own_in[row]) << (~item & _LOW)
        at += wide
    for row in range(len(items)):
        items[row] = _ABSENT if own_in[row] else items[row]


@compiled
def _draw_next(
    coins: Any, each: int, draw: int, marks: Any, items: Any, taken: Any, j: Any
) -> None:
    """Add an item below j + 1 to sets, or item j if it is there."""
    _items_below(coins, each, draw, j + _ONE, items)
    _find(items, marks, taken)
    _replace(items, taken, j)
    _mark(items, marks)


@compiled
def _draw_compared(coins: Any, each: int, own_in: Any, items: Any, taken: Any, j: Any) -> None:
    """Draw sets of few items: each is compared with those before, and none is marked."""
    _items_below(coins, each, 0, j, items[0])
    for row in range(len(own_in)):
        items[0, row] = _ABSENT if own_in[row] else items[0, row]
    for draw in range(1, len(items)):
        ours = items[draw]
        _items_below(coins, each, draw, j + _ONE, ours)
        taken[:] = 0
        for before in range(draw):
            theirs = items[before]
            for row in range(len(taken)):
                taken[row] |= np.uint32(theirs[row] == ours[row])
        _replace(ours, taken, j)
        j += _ONE


@compiled
def _draw_marked(
    coins: Any, each: int, own_in: Any, marks: Any, items: Any, taken: Any, j: Any
) -> None:
    """Draw sets of many items; the marks are clear before and after."""
    _draw_first(coins, each, own_in, marks, items[0], j)
    for draw in range(1, len(items)):
        _draw_next(coins, each, draw, marks, items[draw], taken, j)
        j += _ONE
    wide = np.uint64(len(marks) // len(taken))
    for draw in range(len(items)):
        at, ours = _NONE, items[draw]
        for row in range(len(taken)):
            item = np.uint64(0) if ours[row] == _ABSENT else np.uint64(ours[row])
            marks[at + (item >> _SIX)] = _NONE
            at += wide


@compiled
def _mark_own(levels: Any, own_in: Any, marks: Any, cells: int) -> None:
    """Put the last item under the own one's number, and the own one in if it is."""
    wide, last = np.uint64(len(marks) // len(levels)), np.uint64(cells - 1)
    at = _NONE
    for row in range(len(levels)):
        own = np.uint64(levels[row])
        here, down = at + (own >> _SIX), _LOW - (own & _LOW)
        taken = (marks[here] >> down) & _ONE
        marks[here] ^= taken << down
        marks[at + (last >> _SIX)] |= taken << (_LOW - (last & _LOW))
        marks[here] |= own_in[row] << down
        at += wide


@compiled
def _store_marks(marks: Any, octets: Any, users: int, width: int) -> None:
    """Write marks as reports, big-endian."""
    wide = len(marks) // users
    tail = np.uint64(width - 8 * (wide - 1))
    word, place = _NONE, _NONE
    for _ in range(users):
        for _word in range(1, wide):
            for byte in range(8):
                octets[place + np.uint64(byte)] = marks[word] >> np.uint64(56 - 8 * byte)
            word, place = word + _ONE, place + _BYTE
        for byte in range(tail):
            octets[place + byte] = marks[word] >> (_BYTE * (np.uint64(7) - byte))
        word, place = word + _ONE, place + tail


@compiled
def draw_bitmaps(
    levels: Any, coins: Any, reports: Any, sums: Any, cells: Any, size: Any, threshold: Any
) -> None:
    """Draw reports that are bitmaps, and count the reports that contain each cell."""
    users, each = coins.shape
    width, flat, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    wide = (cells + 63) // 64
    at_once = _users_of_block(each, wide)
    room, inside = np.empty(at_once, np.uint64), np.empty(at_once, np.uint64)
    marks, rooms = np.zeros(users * wide, np.uint64), np.empty((2, at_once), np.uint32)
    for start in range(0, users, at_once):
        stop = min(start + at_once, users)
        count = stop - start
        words, own_in = flat[start * each : stop * each], inside[:count]
        ours, items, taken = marks[start * wide : stop * wide], rooms[0, :count], rooms[1, :count]
        _are_below(column_of(words, each, 0, room[:count]), threshold, own_in)
        j = np.uint64(cells - size)
        _draw_first(words, each, own_in, ours, items, j)
        for draw in range(1, size):
            _draw_next(words, each, draw, ours, items, taken, j)
            j += _ONE
        _mark_own(levels[start:stop], own_in, ours, cells)
        _store_marks(ours, octets[start * width : stop * width], count, width)
    for word in range(wide):
        add_bits(marks[word::wide], sums[64 * word : min(cells, 64 * word + 64)])


@compiled
def _place_own(levels: Any, own_in: Any, items: Any, cells: int) -> None:
    """Replace the own item by the last one, and the first one by the own item if it is in."""
    last = np.uint32(cells - 1)
    for draw in range(len(items)):
        ours = items[draw]
        for row in range(len(ours)):
            ours[row] = last if ours[row] == np.uint32(levels[row]) else ours[row]
    ours = items[0]
    for row in range(len(ours)):
        ours[row] = np.uint32(levels[row]) if own_in[row] else ours[row]


@compiled
def _sort(items: Any) -> None:
    """Sort each user's items by a network, the same comparisons for all users."""
    # Source: Batcher, Sorting networks and their applications (1968): odd-even merges.
    size, run = items.shape[0], 1
    while run < size:
        gap = run
        while gap > 0:
            for start in range(gap % run, size - gap, 2 * gap):
                for one in range(start, min(start + gap, size - gap)):
                    if one // (2 * run) == (one + gap) // (2 * run):
                        _exchange(items[one], items[one + gap])
            gap //= 2
        run *= 2


@inlined
def _exchange(ones: Any, others: Any) -> None:
    """Put the lesser of two numbers first, of each user."""
    for row in range(len(ones)):
        one, other = ones[row], others[row]
        ones[row], others[row] = min(one, other), max(one, other)


@compiled
def _store_items(items: Any, octets: Any, index_bytes: int) -> None:
    """Write sorted items as reports, big-endian."""
    place = _NONE
    for row in range(items.shape[1]):
        for draw in range(items.shape[0]):
            item = items[draw, row]
            if index_bytes == 2:
                octets[place], octets[place + _ONE] = item >> np.uint32(8), item
                place += np.uint64(2)
                continue
            for byte in range(index_bytes):
                octets[place] = item >> np.uint32(8 * (index_bytes - 1 - byte))
                place += _ONE


@compiled
def draw_indices(
    levels: Any, coins: Any, reports: Any, sums: Any, cells: Any, size: Any, threshold: Any
) -> None:
    """Draw reports that are sorted indices, and count the reports that contain each cell."""
    users, each = coins.shape
    width, flat, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    wide = (cells + 63) // 64 if size > _COMPARED else 0
    at_once = _users_of_block(each, max(1, wide))
    room, inside = np.empty(at_once, np.uint64), np.empty(at_once, np.uint64)
    marks, taken = np.zeros(at_once * wide, np.uint64), np.empty(at_once, np.uint32)
    rooms = np.empty(size * at_once, np.uint32)
    for start in range(0, users, at_once):
        stop = min(start + at_once, users)
        count = stop - start
        words, own_in = flat[start * each : stop * each], inside[:count]
        items = rooms[: size * count].reshape(size, count)
        _are_below(column_of(words, each, 0, room[:count]), threshold, own_in)
        j = np.uint64(cells - size)
        if size <= _COMPARED:
            _draw_compared(words, each, own_in, items, taken[:count], j)
        else:
            ours = marks[: count * wide]
            _draw_marked(words, each, own_in, ours, items, taken[:count], j)
        _place_own(levels[start:stop], own_in, items, cells)
        _sort(items)
        _store_items(items, octets[start * width : stop * width], width // size)
        for draw in range(size):
            count_numbers(items[draw], sums)
