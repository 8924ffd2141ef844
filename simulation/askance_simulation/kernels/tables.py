"""Tables of integers: reports, and the number of each symbol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.blocks import AT_ONCE, column_of, count_numbers, store_numbers
from askance_simulation.kernels.byte_counts import add_bytes
from askance_simulation.kernels.compiling import compiled

_MOST_BITS = 12  # leading bits of a coin that a guide is looked up by
_ENTRIES = 1 << 16  # most entries of a guide by which one comparison decides
_ALL_ENTRIES = 1 << 18  # most entries of another, of 8 bits if they fit


Symbols = NDArray[np.int64]


class SymbolEdges(NamedTuple):
    """Ends of each level's symbols.

    Args:
        edges: first coin of each symbol but the first; shape (levels, symbols - 1).
        guide: the symbol of the first coin with given leading bits; levels one after another.
        ends: the last coin with this symbol and these bits, 2^64 - 1 if all with these bits have
            it; none if there may be more than two symbols.
        bits: number of these bits.
    """

    edges: NDArray[np.uint64]
    guide: NDArray[np.uint32]
    ends: NDArray[np.uint64]
    bits: np.uint64


def symbols_of(edges: NDArray[np.uint64]) -> SymbolEdges:
    """Compute the guide of a table, of as many bits as it takes for one comparison to decide."""
    levels = len(edges)
    for bits in range(1, _MOST_BITS + 1):
        if levels << bits > _ENTRIES:
            break
        first, last = _first_and_last(edges, bits)
        if (last - first).max() <= 1:
            padded = np.pad(edges - np.uint64(1), ((0, 0), (0, 1)))
            ends = np.take_along_axis(padded, first, axis=1)
            ends[first == last] = (1 << 64) - 1
            return SymbolEdges(
                edges, first.astype(np.uint32).ravel(), ends.ravel(), np.uint64(bits)
            )
    bits = max(1, min(8, (_ALL_ENTRIES // levels).bit_length() - 1))
    first, _ = _first_and_last(edges, bits)
    none = np.zeros(0, np.uint64)
    return SymbolEdges(edges, first.astype(np.uint32).ravel(), none, np.uint64(bits))


def _first_and_last(edges: NDArray[np.uint64], bits: int) -> tuple[Symbols, Symbols]:
    """Return the symbols of the first and the last coin with leading bits, by level."""
    starts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    ends = starts + np.uint64((1 << (64 - bits)) - 1)
    first = np.array([row.searchsorted(starts, side="right") for row in edges])
    last = np.array([row.searchsorted(ends, side="right") for row in edges])
    return first, last


@compiled
def draw_bits(levels: Any, coins: Any, reports: Any, sums: Any, edges: Any) -> None:
    """Draw reports of one bit and count them.

    `edges` has the first coin of symbol 1, shape (levels,).
    """
    users, each = coins.shape
    words, octets, ones = coins.reshape(-1), reports.reshape(-1), 0
    column = np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        ours = words[start * each : stop * each]
        chosen = column_of(ours, each, 0, column[: stop - start])
        if len(edges) == 2:
            ones += _bits_of_two(levels[start:stop], chosen, octets[start:stop], edges)
        else:
            ones += _bits_of_many(levels[start:stop], chosen, octets[start:stop], edges)
    sums[0] += users - ones
    sums[1] += ones


@compiled
def _bits_of_two(levels: Any, coins: Any, bits: Any, edges: Any) -> Any:
    zero, one = edges[0], edges[1]
    ones: Any = 0
    for row in range(len(coins)):
        edge = one if levels[row] else zero
        bit = np.uint8(coins[row] >= edge)
        bits[row] = bit
        ones += bit
    return ones


@compiled
def _bits_of_many(levels: Any, coins: Any, bits: Any, edges: Any) -> Any:
    ones: Any = 0
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
    rooms = np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        ours, drawn = words[start * each : stop * each], numbers[: stop - start]
        mine, places = levels[start:stop], rooms[: stop - start]
        chosen = column_of(ours, each, 0, column[: stop - start])
        _find(mine, chosen, symbols.bits, places)
        if len(symbols.ends):
            _look_up(chosen, places, symbols.guide, symbols.ends, drawn)
        else:
            _search(mine, chosen, places, symbols, drawn)
        store_numbers(octets[start * width : stop * width], drawn, width)
        if width > 1:
            count_numbers(drawn, sums)
    if width == 1:
        add_bytes(octets, sums)


@compiled
def _find(levels: Any, coins: Any, bits: Any, places: Any) -> None:
    """Compute the places of users in the guide."""
    down = np.uint64(64) - bits
    for row in range(len(coins)):
        places[row] = (np.uint64(levels[row]) << bits) + (coins[row] >> down)


@compiled
def _look_up(coins: Any, places: Any, guide: Any, ends: Any, drawn: Any) -> None:
    """Compute symbols by the guide and one comparison."""
    for row in range(len(coins)):
        place = places[row]
        drawn[row] = np.uint64(guide[place]) + np.uint64(coins[row] > ends[place])


@compiled
def _search(levels: Any, coins: Any, places: Any, symbols: Any, drawn: Any) -> None:
    """Compute symbols from the guide's on."""
    edges, guide = symbols.edges, symbols.guide
    last = np.uint64(edges.shape[1])
    for row in range(len(coins)):
        level, coin = np.uint64(levels[row]), coins[row]
        symbol = np.uint64(guide[places[row]])
        while symbol < last and coin >= edges[level, symbol]:
            symbol += np.uint64(1)
        drawn[row] = symbol
