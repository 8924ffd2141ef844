"""A random sign pattern near or far from one's own, from a fixed number of coins."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.floyd import draw_subset

_RATIO_BITS = 256  # of a certified ratio: thousands would make its logarithm slow


@lru_cache(maxsize=64)
def patterns_within(components: int) -> tuple[int, ...]:
    """Return the numbers of patterns at a Hamming distance of at most 0, 1, ..., components."""
    binomials, binomial = [], 1
    for distance in range(components + 1):
        binomials.append(binomial)
        binomial = binomial * (components - distance) // (distance + 1)
    return tuple(accumulate(binomials))


def rank_words(components: int, coin_bits: int = COIN_BITS) -> int:
    """Return the number of coins for a rank among patterns: at least one coin's bits to spare.

    One component has one pattern near and one far: there is nothing to draw.
    """
    return -(-components // coin_bits) + 1 if components > 1 else 0


def draw_flips(
    components: int, radius: int, threshold: int, coins: Sequence[int], coin_bits: int = COIN_BITS
) -> int:
    """Draw the components that differ: within radius with probability threshold / 2^coin_bits.

    coins[0] decides whether the pattern is near. The next coins, joined to one number U, give it a
    rank (U R) >> (bits of U) among the R near or far patterns ordered by distance, hence the
    distance. So many components are drawn by Floyd's algorithm, or, of more than half of them,
    those that are kept: coins are left unread then, their number depends on nothing.

    Args:
        components: >= 1.
        radius: 0..components-1.
        threshold: 0..2^coin_bits.
        coins: 1 + rank_words(components, coin_bits) + components // 2 words below 2^coin_bits.
        coin_bits: bits of a coin; fewer than 64 only in tests.

    Returns:
        The set as bits: component j is bit components - 1 - j.
    """
    within = patterns_within(components)
    near, total = within[radius], within[-1]
    words = rank_words(components, coin_bits)
    rank = 0
    for word in coins[1 : 1 + words]:
        rank = rank << coin_bits | word
    if coins[0] < threshold:
        rank = (rank * near) >> (coin_bits * words)
    else:
        rank = near + ((rank * (total - near)) >> (coin_bits * words))
    distance = bisect_right(within, rank)
    kept = components - distance
    drawn = int(draw_subset(components, min(distance, kept), coins, coin_bits), 2)
    return drawn if distance <= kept else total - 1 - drawn


def certified_ratio(
    components: int, radius: int, threshold: int, coin_space: int = COIN_SPACE
) -> tuple[int, int]:
    """Bounds from above how much likelier one own pattern makes a report than another does.

    Let M = coin_space, s = components, h = s // 2, N near and F far patterns. With uniform draws a
    near pattern has the probability t / (M N) and a far one (M - t) / (M F). A draw (U R) >> w of a
    w-bit word yields each of its R outcomes with probability (1/R)(1 + d), |d| < R / 2^w. The rank
    has R < 2^s and w such that 2^w >= 2^s M, so |d| < 1/M; a distance's probability is a sum over
    ranks. The draws for i <= h components have ranges s-i+1..s. As at `floyd.certified_ratio`, the
    quotient of two products of such factors is at most M / (M - 2S), with S the sum of the ranges,
    the rank's counted as 1: 2S = 2 + h (2s - h + 1). One component draws nothing: S = 0. Terms of
    thousands of bits are cut to 256, outward.

    Returns:
        (numerator, denominator), where M must exceed 2S for the bound to exist.
    """
    within = patterns_within(components)
    near, half = within[radius], components // 2
    inside = threshold * (within[-1] - near)
    outside = (coin_space - threshold) * near
    bias = 2 + half * (2 * components - half + 1) if components > 1 else 0
    greater, less = max(inside, outside) * coin_space, min(inside, outside) * (coin_space - bias)
    excess = max(less.bit_length() - _RATIO_BITS, 0)  # outward: what is cut off changes nothing
    return -(-greater >> excess), less >> excess
