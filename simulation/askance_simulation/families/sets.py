"""Sets of items in columns: Floyd's draws, their reports, and what an audit states of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.sets import count_items
from askance_client.randomizers.sets import SetRandomizer
from askance_simulation.families.dispatch import Coins, Levels, Reports, Statements
from askance_simulation.families.drawing import CELLS_AT_ONCE, big_endian, scaled

_ROWS = 1 << 12  # users drawn at once: their items stay in a processor's cache
_COMPARED = 256  # members of a set whose draws are compared with each other, not marked

Items = NDArray[np.int64]
"""Items of users' sets, a row per user in the order of its draws."""


def draw_items(cells: int, size: int, threshold: int, own: Levels, coins: Coins) -> Items:
    """Draw sets by `floyd.draw_members`, draw by draw for all users; shape (n, size)."""
    items = np.empty((size, len(own)), np.int64)
    rows = _ROWS if size <= _COMPARED else max(1, CELLS_AT_ONCE // cells)
    for start in range(0, len(own), rows):
        block = slice(start, start + rows)
        _draw_block(cells, threshold, own[block], coins[block], items[:, block])
    return items.T


def _draw_block(cells: int, threshold: int, own: Levels, coins: Coins, items: Items) -> None:
    """Fill the items of some users, shape (size, users)."""
    size, last, everyone = len(items), cells - 1, np.arange(len(own))
    own_in = coins[:, 0] < np.uint64(threshold)
    # With the own item in, one draw fewer: -1 stands for none, and marks the last item, not drawn.
    items[0] = np.where(own_in, -1, scaled(coins[:, 1], last - size + 1))
    marks = np.zeros((len(own), cells if size > _COMPARED else 0), np.bool_)
    for step, j in enumerate(range(last - size + 1, last), start=1):
        drawn = scaled(coins[:, step + 1], j + 1)
        if size > _COMPARED:
            marks[everyone, items[step - 1]] = True
            taken = marks[everyone, drawn]
        else:
            taken = (items[:step] == drawn).any(axis=0)
        items[step] = np.where(taken, j, drawn)
    items[items == own] = last  # which stands under the own one's number among the remaining items
    items[0] = np.where(own_in, own, items[0])


def encode_items(randomizer: SetRandomizer, items: Items) -> Reports:
    """Encode each row of items as its report, shape (n, width)."""
    if randomizer.index_bytes:
        indices = np.sort(items, axis=1).ravel()
        return big_endian(indices, randomizer.index_bytes).reshape(len(items), randomizer.width)
    members = np.zeros((len(items), randomizer.items), np.bool_)
    members[np.arange(len(items))[:, np.newaxis], items] = True
    return np.packbits(members, axis=1)


def set_statements(
    randomizer: SetRandomizer, shares: Sequence[Fraction], what: str, signs: int = 1
) -> Statements:
    """Compute the probability of each item of a set, and that a report is in the alphabet."""
    width, size = randomizer.width, randomizer.size

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        rows = np.frombuffer(b"".join(s for s in symbols if len(s) == width), np.uint8)
        counts, valid = count_items(randomizer, rows.reshape(-1, width), signs)
        return np.append(counts, np.count_nonzero(valid))

    return Statements(
        np.array([*map(float, shares), 1.0]),
        count,
        lambda place: f"{what} {place}" if place < len(shares) else f"{size} {what}s",
    )
