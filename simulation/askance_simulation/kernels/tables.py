"""Tables of integers: reports, and the number of each symbol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.compiling import compiled, store

_GUIDE_BITS = 8  # leading bits of a coin that a guide is looked up by
_ENTRIES = 1 << 18  # most entries of a guide


class SymbolEdges(NamedTuple):
    """Ends of each level's symbols.

    Args:
        edges: first coin of each symbol but the first; shape (levels, symbols - 1).
        guide: the symbol of the first coin with given leading bits; shape (levels, 2^bits).
        down: 64 less the number of these bits.
    """

    edges: NDArray[np.uint64]
    guide: NDArray[np.uint32]
    down: np.uint64


def symbols_of(edges: NDArray[np.uint64]) -> SymbolEdges:
    """Compute the guide of a table from the ends of its symbols."""
    bits = 1
    while bits < _GUIDE_BITS and len(edges) << (bits + 1) <= _ENTRIES:
        bits += 1
    starts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    guide = [row.searchsorted(starts, side="right") for row in edges]
    return SymbolEdges(edges, np.array(guide, np.uint32), np.uint64(64 - bits))


@compiled
def draw_bits(levels: Any, coins: Any, reports: Any, sums: Any, edges: Any) -> None:
    """Draw reports of one bit and count them.

    Args:
        levels: shape (n,).
        coins: shape (n, 1) of words that may be apart.
        reports: shape (n, 1).
        sums: shape (2,).
        edges: first coin of symbol 1, shape (levels,).
    """
    ones = 0
    for row in range(len(levels)):
        bit = coins[row, 0] >= edges[np.uint64(levels[row])]
        reports[row, 0] = bit
        ones += bit
    sums[0] += len(levels) - ones
    sums[1] += ones


@compiled
def draw_symbols(levels: Any, coins: Any, reports: Any, sums: Any, symbols: Any) -> None:
    """Draw reports of any number of symbols and count them."""
    last = np.uint64(symbols.edges.shape[1])
    for row in range(len(levels)):
        level, coin = np.uint64(levels[row]), coins[row, 0]
        symbol = np.uint64(symbols.guide[level, coin >> symbols.down])
        while symbol < last and coin >= symbols.edges[level, symbol]:
            symbol += np.uint64(1)
        store(reports, row, symbol)
        sums[symbol] += 1
