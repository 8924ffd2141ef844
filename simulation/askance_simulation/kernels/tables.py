"""Tables of integers: reports, and the number of each symbol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.blocks import AT_ONCE, count_numbers, read_column, store_numbers
from askance_simulation.kernels.byte_counts import add_bytes
from askance_simulation.kernels.compiling import compiled

_FEWEST_BITS, _MOST_BITS = 8, 12  # leading bits of a coin that a guide is looked up by
_ENTRIES = 1 << 18  # most entries of a guide of more than the fewest


class SymbolEdges(NamedTuple):
    """Ends of each level's symbols.

    Args:
        edges: first coin of each symbol but the first, and after them the last coin there is;
            levels one after another.
        symbols: number of symbols.
        guide: the symbol of the first coin with given leading bits; levels one after another.
        bits: number of these bits.
        most: most symbols that a coin may be beyond the guide's.
    """

    edges: NDArray[np.uint64]
    symbols: np.uint64
    guide: NDArray[np.uint32]
    bits: np.uint64
    most: int


def symbols_of(edges: NDArray[np.uint64]) -> SymbolEdges:
    """Compute the guide of a table from the ends of its symbols.

    It has as many bits as it takes for one comparison to decide, if that many fit.
    """
    levels, ends = edges.shape
    last = np.full((levels, 1), (1 << 64) - 1, np.uint64)
    padded = np.concatenate((edges, last), axis=1).ravel()
    bits = 1
    while bits < _FEWEST_BITS and levels << (bits + 1) <= _ENTRIES:
        bits += 1
    guide, most = _guide(edges, bits)
    while most > 1 and bits < _MOST_BITS and levels << (bits + 1) <= _ENTRIES:
        bits += 1
        guide, most = _guide(edges, bits)
    return SymbolEdges(padded, np.uint64(ends + 1), guide, np.uint64(bits), most)


def _guide(edges: NDArray[np.uint64], bits: int) -> tuple[NDArray[np.uint32], int]:
    """Return a guide by a number of bits, and the most symbols that a coin may be beyond it."""
    starts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    ends = starts + np.uint64((1 << (64 - bits)) - 1)
    first = np.array([row.searchsorted(starts, side="right") for row in edges])
    last = np.array([row.searchsorted(ends, side="right") for row in edges])
    return first.astype(np.uint32).ravel(), int((last - first).max())


@compiled
def draw_bits(levels: Any, coins: Any, reports: Any, sums: Any, edges: Any) -> None:
    """Draw reports of one bit and count them.

    Args:
        levels: shape (n,).
        coins: shape (n, 1 or more).
        reports: shape (n, 1).
        sums: shape (2,).
        edges: first coin of symbol 1, shape (levels,).
    """
    users, each = coins.shape
    words, octets, ones = coins.reshape(-1), reports.reshape(-1), 0
    column = np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        chosen = column[: stop - start]
        read_column(words[start * each : stop * each], each, 0, chosen)
        if len(edges) == 2:
            ones += _bits_of_two(levels[start:stop], chosen, octets[start:stop], edges)
        else:
            ones += _bits_of_many(levels[start:stop], chosen, octets[start:stop], edges)
    sums[0] += users - ones
    sums[1] += ones


@compiled
def _bits_of_two(levels: Any, coins: Any, bits: Any, edges: Any) -> int:
    zero, one, ones = edges[0], edges[1], 0
    for row in range(len(coins)):
        edge = one if levels[row] else zero
        bit = np.uint8(coins[row] >= edge)
        bits[row] = bit
        ones += bit
    return ones


@compiled
def _bits_of_many(levels: Any, coins: Any, bits: Any, edges: Any) -> int:
    ones = 0
    for row in range(len(coins)):
        bit = np.uint8(coins[row] >= edges[np.uint64(levels[row])])
        bits[row] = bit
        ones += bit
    return ones


@compiled
def draw_symbols(levels: Any, coins: Any, reports: Any, sums: Any, symbols: Any) -> None:
    """Draw reports of any number of symbols and count them."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    column, numbers = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        chosen, drawn = column[: stop - start], numbers[: stop - start]
        read_column(words[start * each : stop * each], each, 0, chosen)
        if symbols.most <= 1:
            _symbols_of_one_step(levels[start:stop], chosen, drawn, symbols)
        else:
            _symbols_of_steps(levels[start:stop], chosen, drawn, symbols)
        store_numbers(octets[start * width : stop * width], drawn, width)
        if width > 1:
            count_numbers(drawn, sums)
    if width == 1:
        add_bytes(octets, sums)


@compiled
def _symbols_of_one_step(levels: Any, coins: Any, drawn: Any, symbols: Any) -> None:
    edges, each, guide, bits = symbols.edges, symbols.symbols, symbols.guide, symbols.bits
    down = np.uint64(64) - bits
    for row in range(len(coins)):
        level, coin = np.uint64(levels[row]), coins[row]
        symbol = np.uint64(guide[(level << bits) + (coin >> down)])
        beyond = (coin >= edges[level * each + symbol]) & (symbol + np.uint64(1) < each)
        drawn[row] = symbol + np.uint64(beyond)


@compiled
def _symbols_of_steps(levels: Any, coins: Any, drawn: Any, symbols: Any) -> None:
    edges, each, guide, bits = symbols.edges, symbols.symbols, symbols.guide, symbols.bits
    down, last = np.uint64(64) - bits, each - np.uint64(1)
    for row in range(len(coins)):
        level, coin = np.uint64(levels[row]), coins[row]
        symbol = np.uint64(guide[(level << bits) + (coin >> down)])
        while symbol < last and coin >= edges[level * each + symbol]:
            symbol += np.uint64(1)
        drawn[row] = symbol
