"""Hypercube response: draws for columns, statements, the best lie, and entries of `verify`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import HypercubeFamily, hypercube_response
from askance_client.randomizers import COIN_BITS, COIN_SPACE, HypercubeResponse
from askance_client.randomizers.hypercube_draws import patterns_within, rank_words
from askance_simulation.families import dispatch
from askance_simulation.families.drawing import CELLS_AT_ONCE, scaled
from askance_simulation.families.favouring import Draw, Weights, favour, index
from askance_simulation.families.fused import Kernel, Loaded, kernel


@dispatch.draw.register
def _(
    randomizer: HypercubeResponse, levels: dispatch.Levels, coins: dispatch.Coins
) -> dispatch.Reports:
    rows = max(1, CELLS_AT_ONCE // randomizer.components)
    blocks = [
        _patterns(randomizer, levels[start : start + rows], coins[start : start + rows])
        for start in range(0, len(levels), rows)
    ]
    return np.concatenate(blocks) if blocks else np.zeros((0, randomizer.width), np.uint8)


@kernel.register
def _(randomizer: HypercubeResponse) -> Kernel | None:
    components, radius = randomizer.components, randomizer.radius
    if components > COIN_BITS:
        return None

    def load() -> Loaded:
        from askance_simulation.kernels import sign_patterns  # numba is imported when it is used

        within, words = patterns_within(components), rank_words(components)
        near = _edge_words(_edges(within[: radius + 1], 0, words), words)
        far = _edge_words(_edges(within[radius + 1 :], randomizer.near, words), words)
        threshold = np.uint64(randomizer.threshold)
        constants = sign_patterns.Distances(
            threshold, radius + 1, words, randomizer.coins, near, far
        )
        return sign_patterns.draw, (constants,)

    return Kernel(load, components)


def _patterns(
    randomizer: HypercubeResponse, patterns: dispatch.Levels, coins: dispatch.Coins
) -> dispatch.Reports:
    """Draw differing signs: their number by a rank, themselves by Floyd's algorithm."""
    components, half = randomizer.components, randomizer.components // 2
    distances = _distances(randomizer, coins)
    more = distances > components - distances  # of these the kept ones are drawn
    sizes = np.where(more, components - distances, distances)
    reported = np.zeros((len(patterns), 8 * randomizer.width), np.bool_)
    flips = reported[:, 8 * randomizer.width - components :]  # after the bits to spare
    for j in range(components - half, components):
        rows = np.flatnonzero(sizes >= components - j)
        drawn = scaled(coins[rows, j - components], j + 1)
        flips[rows, np.where(flips[rows, drawn], j, drawn)] = True
    flips ^= more[:, np.newaxis]
    flips ^= patterns.astype(np.bool_)
    return np.packbits(reported, axis=1)


def _distances(randomizer: HypercubeResponse, coins: dispatch.Coins) -> dispatch.Levels:
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
    """Compute the least joined coins per next distance, ceil(t 2^bits / R)."""
    # (U R) >> bits is at least t from there on, U the joined coins.
    # within: how many patterns there are up to each distance of one side.
    # before: how many there are before this side.
    # words: number of coins that are joined, 64 bits each.
    patterns = within[-1] - before
    return [-(-((reached - before) << (64 * words)) // patterns) for reached in within[:-1]]


def _edge_words(edges: Sequence[int], words: int) -> NDArray[np.uint64]:
    """Divide edges into words, the highest first; shape (edges, words)."""
    shifts = range(COIN_BITS * (words - 1), -1, -COIN_BITS)
    rows = [[edge >> shift & (COIN_SPACE - 1) for shift in shifts] for edge in edges]
    return np.array(rows, np.uint64).reshape(len(edges), words)


def _joined(words: list[int]) -> int:
    joined = 0
    for word in words:
        joined = joined << 64 | word
    return joined


@dispatch.of_many.register
def _(randomizer: HypercubeResponse, law: dispatch.Law) -> dispatch.Statements:
    components, width = randomizer.components, randomizer.width
    rates = HypercubeFamily(randomizer).rates
    spare = 8 * width - components
    shares = np.zeros(8 * width)
    for component in range(components):
        plus = sum(
            (p for level, p in law.items() if level >> (components - 1 - component) & 1), Fraction()
        )
        shares[spare + component] = float(rates.other + plus * (rates.own - rates.other))

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        rows = np.frombuffer(b"".join(s for s in symbols if len(s) == width), np.uint8)
        counts = np.unpackbits(rows.reshape(-1, width), axis=1).sum(axis=0, dtype=np.int64)
        return np.append(counts, sum(len(symbol) == width for symbol in symbols))

    return dispatch.Statements(
        np.append(shares, 1.0),
        count,
        lambda place: f"component {place - spare}" if place < 8 * width else f"{width} bytes",
    )


@favour.register
def _(randomizer: HypercubeResponse, weights: Weights, draw: Draw) -> bytes:
    """Return the heaviest pattern itself."""
    most = max(weight for _, weight in weights)
    patterns = [level for level, weight in weights if weight == most]
    return patterns[index(draw(1), len(patterns))].to_bytes(randomizer.width, "big")


dispatch.verified(
    HypercubeResponse,
    "hypercube_response",
    {f"hypercube({s})": partial(hypercube_response, s) for s in (1, 2, 4, 16, 64, 1024)},
)
