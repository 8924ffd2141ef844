"""Sign patterns of up to 64 components as one word per user.

A block's users draw the components that differ together, one draw after another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.blocks import column_of, store_numbers, users_at_once
from askance_simulation.kernels.byte_counts import add_bits
from askance_simulation.kernels.compiling import compiled, inlined, scaled

_ONE = np.uint64(1)


class Distances(NamedTuple):
    """Constants of the number of signs that differ.

    Args:
        threshold: coins below it make the pattern a near one.
        least: least distance of a far pattern.
        words: number of coins of a rank.
        coins: number of coins per user.
        near: first rank of each distance of a near pattern but the first, as words, the highest
            first; shape (distances - 1, words).
        far: the same of a far pattern.
    """

    threshold: np.uint64
    least: int
    words: int
    coins: int
    near: NDArray[np.uint64]
    far: NDArray[np.uint64]


@inlined
def _passed(edges: Any, coins: Any, first: Any) -> Any:
    """Count the edges that are at most the number of which the coins from `first` on are words."""
    head, passed = coins[first], 0
    for edge in range(edges.shape[0]):
        passed += edges[edge, 0] < head
    undecided = passed < edges.shape[0] and edges[passed, 0] == head
    while undecided:
        order, word = 0, 1
        while order == 0 and word < edges.shape[1]:
            order = int(coins[first + word] > edges[passed, word]) - int(
                coins[first + word] < edges[passed, word]
            )
            word += 1
        passed += order >= 0
        undecided = order >= 0 and passed < edges.shape[0] and edges[passed, 0] == head
    return passed


@inlined
def _add_passed(coins: Any, edges: Any, passed: Any) -> Any:
    """Count the edges whose first words are below coins; return how many are equal to one."""
    equal: Any = np.uint64(0)
    for edge in range(len(edges)):
        head = edges[edge, 0]
        for row in range(len(coins)):
            passed[row] += np.uint64(head < coins[row])
            equal += np.uint64(head == coins[row])
    return equal


@compiled
def _find_distances(
    words: Any, each: int, near: Any, room: Any, other: Any, found: Any, distances: Any
) -> None:
    """Compute how many signs differ."""
    # `near`, `room` and `other` are work space, shape (n,): 1 where the pattern is a near one, else
    # 0; a coin per user; and distances of far patterns. `found` is filled with the distances.
    threshold, least = distances.threshold, np.uint64(distances.least)
    decisive = column_of(words, each, 0, room)
    for row in range(len(found)):
        near[row] = np.uint64(decisive[row] < threshold)
    found[:] = 0
    other[:] = least
    if distances.words:
        heads = column_of(words, each, 1, room)
        equal = _add_passed(heads, distances.near, found)
        equal += _add_passed(heads, distances.far, other)
        if equal:  # one in 2^64 users: the first word does not decide
            for row in range(len(found)):
                first = row * each + 1
                found[row] = _passed(distances.near, words, first)
                other[row] = least + np.uint64(_passed(distances.far, words, first))
    for row in range(len(found)):
        found[row] = found[row] if near[row] else other[row]


@compiled
def _flip(coins: Any, left: Any, distances: Any, components: Any, flips: Any) -> None:
    """Draw one of the components that differ, of the users who have as many left to draw."""
    top, last = components - _ONE, _ONE << (left - _ONE)
    items = components - left + _ONE
    for row in range(len(flips)):
        bit = _ONE << (top - scaled(coins[row], items))
        drawn = min(distances[row], components - distances[row])
        bit = last if flips[row] & bit else bit
        flips[row] |= bit if left <= drawn else np.uint64(0)


@compiled
def _apply(levels: Any, distances: Any, flips: Any, patterns: Any) -> None:
    """Compute the reported patterns; of more than half the signs those were drawn that are kept."""
    components = levels.shape[1]
    every, half = ~np.uint64(0) >> np.uint64(64 - components), np.uint64(components // 2)
    for row in range(len(patterns)):
        pattern = np.uint64(0)
        for component in range(components):
            pattern = (pattern << _ONE) | np.uint64(levels[row, component])
        patterns[row] = pattern
    for row in range(len(patterns)):
        patterns[row] ^= flips[row] ^ (every if distances[row] > half else np.uint64(0))


@compiled
def draw(levels: Any, coins: Any, reports: Any, sums: Any, distances: Any) -> None:
    """Draw reports, and count those that have each component at +.

    Args:
        levels: 1 for +, shape (n, components).
        coins: shape (n, each), each at least `distances.coins`.
        reports: component j at bit components - 1 - j, big-endian.
        sums: shape (components,).
        distances: the constants.
    """
    users, components = levels.shape
    each, flat, octets = coins.shape[1], coins.reshape(-1), reports.reshape(-1)
    width, wide = reports.shape[1], np.uint64(components)
    at_once, patterns = users_at_once(each), np.empty(users, np.uint64)
    rooms = np.empty((5, at_once), np.uint64)
    for start in range(0, users, at_once):
        stop = min(start + at_once, users)
        count = stop - start
        words, ours = flat[start * each : stop * each], patterns[start:stop]
        near, room, other = rooms[0, :count], rooms[1, :count], rooms[2, :count]
        found, flips = rooms[3, :count], rooms[4, :count]
        _find_distances(words, each, near, room, other, found, distances)
        flips[:] = 0
        for left in range(components // 2, 0, -1):
            drawn = column_of(words, each, distances.coins - left, room)
            _flip(drawn, np.uint64(left), found, wide, flips)
        _apply(levels[start:stop], found, flips, ours)
        store_numbers(octets[start * width : stop * width], ours, width)
    for row in range(users):
        patterns[row] <<= np.uint64(64 - components)
    add_bits(patterns, sums)
