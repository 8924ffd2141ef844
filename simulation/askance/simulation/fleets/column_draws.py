"""The randomizers' draws for columns of users: the same reports from the same coins, all at once.

Each function says of a column what `Randomizer.randomize` says of one level and its coins; a test
compares them report by report.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from askance.client.errors import InvalidParameter
from askance.client.randomizers import Channel, KaryResponse, Randomizer, SubsetSelection

Levels = NDArray[np.int64]
Coins = NDArray[np.uint64]
Reports = NDArray[np.uint8]

_CELLS_AT_ONCE = 1 << 22  # rows x cells of a block of sets
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)


@singledispatch
def draw(randomizer: Randomizer, levels: Levels, coins: Coins) -> Reports:
    """Reports of users with these levels.

    Args:
      randomizer: one of the wire's.
      levels: shape (n,).
      coins: shape (n, randomizer.coins), as each device would draw them.

    Returns:
      Shape (n, randomizer.width).
    """
    raise InvalidParameter(f"columns: expected a randomizer of the wire, found {randomizer.name}")


@draw.register
def _(randomizer: Channel, levels: Levels, coins: Coins) -> Reports:
    symbols = np.zeros(len(levels), np.uint8)
    edges = np.array([row[:-1] for row in randomizer.table], dtype=np.uint64).cumsum(axis=1)
    if randomizer.symbols == 2:  # one comparison, without going level by level
        symbols[:] = coins[:, 0] >= edges[levels, 0]
        return symbols[:, np.newaxis]
    for level, row in enumerate(edges):
        here = levels == level
        symbols[here] = np.searchsorted(row, coins[here, 0], side="right")
    return symbols[:, np.newaxis]


@draw.register
def _(randomizer: KaryResponse, levels: Levels, coins: Coins) -> Reports:
    coin, own = coins[:, 0], np.uint64(randomizer.own)
    rank = ((coin - own) // np.uint64(randomizer.other)).astype(np.int64)  # garbage where own
    cells = np.where(coin < own, levels, rank + (rank >= levels))
    if randomizer.width == 1:
        return cells.astype(np.uint8)[:, np.newaxis]
    return cells.astype(">u2").view(np.uint8).reshape(-1, 2)


@draw.register
def _(randomizer: SubsetSelection, levels: Levels, coins: Coins) -> Reports:
    rows = max(1, _CELLS_AT_ONCE // randomizer.cells)
    blocks = [
        _sets(randomizer, levels[start : start + rows], coins[start : start + rows])
        for start in range(0, len(levels), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, randomizer.width), np.uint8)


def _sets(randomizer: SubsetSelection, levels: Levels, coins: Coins) -> Reports:
    """Floyd's algorithm, a draw at a time for all rows (see `randomizers.floyd.draw_members`)."""
    last = randomizer.cells - 1
    everyone = np.arange(len(levels))
    own_in = coins[:, 0] < np.uint64(randomizer.threshold)
    members = np.zeros((len(levels), randomizer.cells), np.bool_)
    for step, j in enumerate(range(last - randomizer.size, last), start=1):
        rows = everyone[~own_in] if step == 1 else everyone  # one draw fewer with the own item in
        drawn = _scaled(coins[rows, step], j + 1)
        taken = members[rows, drawn]
        members[rows, np.where(taken, j, drawn)] = True
    swapped = members[everyone, levels]
    members[everyone[swapped], last] = True
    members[everyone, levels] = own_in
    return np.packbits(members, axis=1)


def _scaled(coins: Coins, outcomes: int) -> Levels:
    """floor(coin * outcomes / 2^64) for outcomes below 2^32, in two digits."""
    factor = np.uint64(outcomes)
    carried = ((coins & _LOW) * factor) >> _HALF
    return (((coins >> _HALF) * factor + carried) >> _HALF).astype(np.int64)
