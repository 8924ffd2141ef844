"""The randomizers' draws for columns of users: the same reports from the same coins, all at once.

Each function computes for a column what `Randomizer.randomize` computes for one level and its
coins; a test compares them report by report.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache, singledispatch

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.randomizers import (
    COIN_BITS,
    COIN_SPACE,
    Channel,
    HadamardSign,
    HypercubeResponse,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)
from askance_client.randomizers.hypercube_draws import patterns_within, rank_words
from askance_simulation.fleets.linear_hashes import hash_values

Levels = NDArray[np.int64]
Truths = NDArray[np.bool_]
Coins = NDArray[np.uint64]
Reports = NDArray[np.uint8]

_CELLS_AT_ONCE = 1 << 22  # rows x cells of a block of sets
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)


@singledispatch
def draw(randomizer: Randomizer, levels: Levels | Truths, coins: Coins) -> Reports:
    """Report of users with these levels.

    Args:
      randomizer: one of the wire's.
      levels: shape (n,), of two levels booleans will do; of sign patterns (n, components), 1 for +.
      coins: shape (n, randomizer.coins), as each device would draw them.

    Returns:
      Shape (n, randomizer.width).
    """
    raise InvalidParameter(f"columns: expected a randomizer of the wire, found {randomizer.name}")


@draw.register
def _(randomizer: Channel, levels: Levels | Truths, coins: Coins) -> Reports:
    edges = _table_edges(randomizer)
    if randomizer.levels == randomizer.symbols == 2 and edges[1, 0] <= edges[0, 0]:
        # No look-ups: what level 0 answers, level 1 does too, and more. An edge is never 0, and >
        # is faster than >=.
        zero: Truths = coins[:, 0] > edges[0, 0] - _ONE
        one: Truths = coins[:, 0] > edges[1, 0] - _ONE
        one &= levels.astype(np.bool_, copy=False)
        one |= zero
        return one.view(np.uint8)[:, np.newaxis]
    levels = levels.astype(np.int64, copy=False)
    symbols = np.zeros(len(levels), np.uint8)
    if randomizer.symbols == 2:  # one comparison, without going level by level
        symbols[:] = coins[:, 0] >= edges[levels, 0]
        return symbols[:, np.newaxis]
    for level, row in enumerate(edges):
        here = levels == level
        symbols[here] = np.searchsorted(row, coins[here, 0], side="right")
    return symbols[:, np.newaxis]


@lru_cache(maxsize=1024)
def _table_edges(randomizer: Channel) -> Coins:
    """Compute the ends of each level's symbols, shape (levels, symbols - 1)."""
    return np.array([row[:-1] for row in randomizer.table], dtype=np.uint64).cumsum(axis=1)


@draw.register
def _(randomizer: KaryResponse, levels: Levels, coins: Coins) -> Reports:
    cells = _responses(randomizer, levels, coins[:, 0])
    return _big_endian(cells, randomizer.width)


def _responses(
    randomizer: KaryResponse | LinearHashing, own: Levels, coin: NDArray[np.uint64]
) -> Levels:
    """Draw k-ary responses about each user's own value."""
    kept = np.uint64(randomizer.own)
    rank = ((coin - kept) // np.uint64(randomizer.other)).astype(np.int64)  # garbage where own
    return np.where(coin < kept, own, rank + (rank >= own))


@draw.register
def _(randomizer: LinearHashing, levels: Levels, coins: Coins) -> Reports:
    vectors = randomizer.vectors
    hashes = _scaled(coins[:, 0], vectors - 1) + 1
    own = hash_values(randomizer.modulus, vectors, hashes, levels)
    codes = hashes * randomizer.modulus + _responses(randomizer, own, coins[:, 1])
    return _big_endian(codes, randomizer.width)


@draw.register
def _(randomizer: HadamardSign, levels: Levels, coins: Coins) -> Reports:
    rows = np.zeros(len(levels), np.int64)
    if randomizer.row_bits:
        rows = (coins[:, 0] >> np.uint64(COIN_BITS - randomizer.row_bits)).astype(np.int64)
    minus = (np.bitwise_count(rows & (levels >> 1)) ^ levels) & 1
    kept = np.uint64(randomizer.threshold)
    plus = np.array([kept, COIN_SPACE - randomizer.threshold], dtype=np.uint64)[minus]
    plus[levels == 2 * randomizer.values] = COIN_SPACE // 2
    return _big_endian(2 * rows + (coins[:, 1] >= plus), randomizer.width)


@draw.register
def _(randomizer: SignedSubsetSelection, levels: Levels, coins: Coins) -> Reports:
    width = 2 * randomizer.values
    items = np.zeros((len(levels), randomizer.width * 8), np.bool_)
    neutral = levels == width
    for rows, level in ((np.flatnonzero(neutral), width), (np.flatnonzero(~neutral), 0)):
        if not len(rows):
            continue
        _, plus, either = randomizer.own_coins(level)
        own, drawn = np.where(neutral, 0, levels >> 1)[rows], coins[rows]
        members = _values_in(randomizer, either, own, drawn[:, : 1 + randomizer.size])
        words = drawn[:, 1 + randomizer.size :].astype(">u8").view(np.uint8)
        signs = np.unpackbits(words.reshape(len(rows), -1), axis=1)[:, : randomizer.values] == 1
        # own_coins' last may be 2^64, one more than a coin can be compared to
        own_in = np.flatnonzero(drawn[:, 0] <= np.uint64(either - 1))
        kept = drawn[own_in, 0] < np.uint64(plus)
        signs[own_in, own[own_in]] = kept != (levels[rows[own_in]] & 1 == 1)
        items[rows, 0:width:2] = members & signs
        items[rows, 1:width:2] = members & ~signs
    return np.packbits(items, axis=1)


def _values_in(
    randomizer: SignedSubsetSelection, either: int, own: Levels, coins: Coins
) -> NDArray[np.bool_]:
    """Return which values are in each user's set: those of a subset selection, signs aside."""
    values, size = randomizer.values, randomizer.size
    if size == values:
        return np.ones((len(own), values), np.bool_)
    sets = draw(SubsetSelection(values, size, either), own, coins)
    members: NDArray[np.bool_] = np.unpackbits(sets, axis=1)[:, :values] == 1
    return members


@draw.register
def _(randomizer: SubsetSelection, levels: Levels | Truths, coins: Coins) -> Reports:
    levels = levels.astype(np.int64, copy=False)  # truths would choose rows, not cells
    rows = max(1, _CELLS_AT_ONCE // randomizer.cells)
    blocks = [
        _sets(randomizer, levels[start : start + rows], coins[start : start + rows])
        for start in range(0, len(levels), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, randomizer.width), np.uint8)


def _sets(randomizer: SubsetSelection, levels: Levels, coins: Coins) -> Reports:
    """Run Floyd's algorithm, draw by draw for all rows (see `randomizers.floyd.draw_members`)."""
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


@draw.register
def _(randomizer: HypercubeResponse, levels: Levels, coins: Coins) -> Reports:
    rows = max(1, _CELLS_AT_ONCE // randomizer.components)
    blocks = [
        _patterns(randomizer, levels[start : start + rows], coins[start : start + rows])
        for start in range(0, len(levels), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, randomizer.width), np.uint8)


def _patterns(randomizer: HypercubeResponse, patterns: Levels, coins: Coins) -> Reports:
    """Draw differing signs: their number by a rank, themselves by Floyd's algorithm."""
    components, half = randomizer.components, randomizer.components // 2
    distances = _distances(randomizer, coins)
    more = distances > components - distances  # of these the kept ones are drawn
    sizes = np.where(more, components - distances, distances)
    reported = np.zeros((len(patterns), 8 * randomizer.width), np.bool_)
    flips = reported[:, 8 * randomizer.width - components :]  # after the bits to spare
    for j in range(components - half, components):
        rows = np.flatnonzero(sizes >= components - j)
        drawn = _scaled(coins[rows, j - components], j + 1)
        flips[rows, np.where(flips[rows, drawn], j, drawn)] = True
    flips ^= more[:, np.newaxis]
    flips ^= patterns.astype(np.bool_)
    return np.packbits(reported, axis=1)


def _distances(randomizer: HypercubeResponse, coins: Coins) -> Levels:
    """Compute the number of differing signs (see `randomizers.hypercube_draws.draw_flips`)."""
    near = coins[:, 0] < np.uint64(randomizer.threshold)
    words, within = rank_words(randomizer.components), patterns_within(randomizer.components)
    if not words:
        return np.where(near, 0, 1)
    first = randomizer.radius + 1
    near_edges = _edges(within[:first], 0, words)
    far_edges = _edges(within[first:], randomizer.near, words)
    distances = np.zeros(len(coins), np.int64)
    for side, edges, least in ((near, near_edges, 0), (~near, far_edges, first)):
        rows = np.flatnonzero(side)
        # An edge with the same first word cannot be ordered against the coins by that word alone.
        heads = np.array([edge >> (64 * words - 64) for edge in edges], dtype=np.uint64)
        below = heads.searchsorted(coins[rows, 1], side="left")
        undecided = np.flatnonzero(heads.searchsorted(coins[rows, 1], side="right") > below)
        for row in undecided.tolist():
            below[row] = bisect_right(edges, _joined(coins[rows[row], 1 : 1 + words].tolist()))
        distances[rows] = least + below
    return distances


def _edges(within: Sequence[int], before: int, words: int) -> list[int]:
    """Compute the least joined coins per next distance: (U R) >> bits >= t from ceil(t 2^bits / R).

    Args:
      within: how many patterns there are up to each distance of one side.
      before: how many there are before this side.
      words: number of coins that are joined, 64 bits each.
    """
    patterns = within[-1] - before
    return [-(-((reached - before) << (64 * words)) // patterns) for reached in within[:-1]]


def _joined(words: list[int]) -> int:
    joined = 0
    for word in words:
        joined = joined << 64 | word
    return joined


def _scaled(coins: Coins, outcomes: int) -> Levels:
    """Compute floor(coin * outcomes / 2^64) for outcomes below 2^32, in two digits."""
    factor = np.uint64(outcomes)
    carried = ((coins & _LOW) * factor) >> _HALF
    return (((coins >> _HALF) * factor + carried) >> _HALF).astype(np.int64)


def _big_endian(codes: Levels, width: int) -> Reports:
    """Encode each number as `width` bytes, big-endian."""
    if width == 1:
        return codes.astype(np.uint8)[:, np.newaxis]
    if width == 2:
        return codes.astype(">u2").view(np.uint8).reshape(-1, 2)
    octets = codes.astype(">u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(octets[:, 8 - width :])
