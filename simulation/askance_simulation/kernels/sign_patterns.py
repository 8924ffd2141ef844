"""Sign patterns of up to 64 components as one word per user."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.blocks import store_numbers
from askance_simulation.kernels.byte_counts import add_bits
from askance_simulation.kernels.compiling import compiled, inlined, product_high

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
    threshold, least, words, count, near, far = distances
    users, components = levels.shape
    each, flat = coins.shape[1], coins.reshape(-1)
    patterns, every = np.empty(users, np.uint64), ~np.uint64(0) >> np.uint64(64 - components)
    for row in range(users):
        first, is_near = row * each, flat[row * each] < threshold
        distance = 0 if is_near else least
        if words:
            passed = _passed(near, flat, first + 1) if is_near else _passed(far, flat, first + 1)
            distance += passed
        drawn = min(distance, components - distance)
        flips = np.uint64(0)
        for left in range(drawn, 0, -1):
            j = components - left
            item = product_high(flat[first + count - left], np.uint64(j + 1))
            bit = _ONE << (np.uint64(components - 1) - item)
            flips |= (_ONE << np.uint64(left - 1)) if flips & bit else bit
        pattern = np.uint64(0)
        for component in range(components):
            pattern = (pattern << _ONE) | np.uint64(levels[row, component])
        pattern ^= flips if drawn == distance else flips ^ every
        patterns[row] = pattern
    store_numbers(reports.reshape(-1), patterns, reports.shape[1])
    for row in range(users):
        patterns[row] <<= np.uint64(64 - components)
    add_bits(patterns, sums)
