"""Tables of integers: draws for columns, the tally's law, and entries of `verify`.

Users at a level are multinomial over the symbols.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from askance_aggregator.families import randomized_response
from askance_client.randomizers import COIN_SPACE, Channel
from askance_simulation.families import dispatch
from askance_simulation.families.drawing import big_endian
from askance_simulation.families.fused import Kernel, Loaded, kernel

_ONE = np.uint64(1)


@dispatch.draw.register
def _(
    randomizer: Channel, levels: dispatch.Levels | dispatch.Truths, coins: dispatch.Coins
) -> dispatch.Reports:
    edges = _table_edges(randomizer)
    if randomizer.levels == randomizer.symbols == 2 and edges[1, 0] <= edges[0, 0]:
        # No look-ups: what level 0 answers, level 1 does too, and more. An edge is never 0, and >
        # is faster than >=.
        zero: dispatch.Truths = coins[:, 0] > edges[0, 0] - _ONE
        one: dispatch.Truths = coins[:, 0] > edges[1, 0] - _ONE
        one &= levels.astype(np.bool_, copy=False)
        one |= zero
        return one.view(np.uint8)[:, np.newaxis]
    levels = levels.astype(np.int64, copy=False)
    if randomizer.symbols == 2:  # one comparison, without going level by level
        symbols = np.zeros(len(levels), np.uint8)
        symbols[:] = coins[:, 0] >= edges[levels, 0]
        return symbols[:, np.newaxis]
    drawn = np.zeros(len(levels), np.int64)
    for level, row in enumerate(edges):
        here = levels == level
        drawn[here] = np.searchsorted(row, coins[here, 0], side="right")
    return big_endian(drawn, randomizer.width)


@kernel.register
def _(randomizer: Channel) -> Kernel:
    def load() -> Loaded:
        from askance_simulation.kernels import tables  # numba is imported when it is used

        edges = _table_edges(randomizer)
        if randomizer.symbols == 2:
            return tables.draw_bits, (edges[:, 0].copy(),)
        return tables.draw_symbols, (tables.symbols_of(edges),)

    return Kernel(load, randomizer.symbols)


@lru_cache(maxsize=1024)
def _table_edges(randomizer: Channel) -> dispatch.Coins:
    """Compute the ends of each level's symbols, shape (levels, symbols - 1)."""
    return np.array([row[:-1] for row in randomizer.table], dtype=np.uint64).cumsum(axis=1)


@dispatch.draw_tally.register
def _(
    channel: Channel, counts: dispatch.TallyCounts, rng: np.random.Generator
) -> dispatch.TallyCounts:
    """Return the users at a level are multinomial over the symbols."""
    tally = np.zeros((len(counts), channel.symbols), dtype=np.int64)
    for level, row in enumerate(channel.table):
        tally += rng.multinomial(counts[:, level], [entry / COIN_SPACE for entry in row])
    return tally


dispatch.verified(Channel, "table", {"randomized-response": randomized_response})
