"""A random subset of fixed size from a fixed number of coins, and how uniform it is."""

from __future__ import annotations

from collections.abc import Sequence

from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE

ABSENT, PRESENT = b"01"


def draw_members(
    cells: int,
    size: int,
    threshold: int,
    level: int,
    coins: Sequence[int],
    coin_bits: int = COIN_BITS,
) -> bytearray:
    """Draw `size` of `cells` items, the own one with probability threshold / 2^coin_bits.

    coins[0] decides whether the own item is in. The others come from the cells - 1 remaining items
    (`draw_subset`). With the own item in, one is needed fewer and coins[1] is ignored: the number
    of coins depends neither on the level nor on chance. Among the remaining items the last stands
    under the own one's number.

    Args:
        cells: > size >= 1.
        size: number of items to draw.
        threshold: 0..2^coin_bits.
        level: the own item.
        coins: size + 1 words below 2^coin_bits.
        coin_bits: bits of a coin; fewer than 64 only in tests.

    Returns:
        A digit per item, b"1" if it is in the set, else b"0".
    """
    last, own_in = cells - 1, coins[0] < threshold
    members = draw_subset(last, size - own_in, coins, coin_bits)
    members.append(ABSENT)
    members[last] = members[level]
    members[level] = PRESENT if own_in else ABSENT
    return members


def draw_subset(
    items: int, size: int, coins: Sequence[int], coin_bits: int = COIN_BITS
) -> bytearray:
    """Draw `size` of `items` items evenly, by Floyd's algorithm.

    For every j from items - size to items - 1 draw t = (U (j + 1)) >> coin_bits, which is in 0..j,
    and take t, or j if t is taken already.

    Args:
        items: >= size >= 0.
        size: number of items to draw.
        coins: at least `size` words below 2^coin_bits; the last `size` of them are read.
        coin_bits: bits of a coin; fewer than 64 only in tests.

    Returns:
        A digit per item, b"1" if it is in the set, else b"0". The order of draws leaves no trace.

    Source: Bentley and Floyd, Communications of the ACM 30 (1987).
    """
    unread = items - len(coins)  # draw j takes coins[j - unread]
    members = bytearray(b"0" * items)
    for j in range(items - size, items):
        item = (coins[j - unread] * (j + 1)) >> coin_bits
        members[item if members[item] == ABSENT else j] = PRESENT
    return members


def certified_ratio(
    cells: int, size: int, threshold: int, coin_space: int = COIN_SPACE
) -> tuple[int, int]:
    """Bounds from above how much likelier one own item makes a set than another own item does.

    Let M = coin_space, k = cells, w = size, t = threshold. The draw (U r) >> 64 yields each of its
    r outcomes for floor(M/r) or ceil(M/r) coins: with probability (1/r)(1 + d), |d| < r/M. A
    set's probability given own item x sums over the draw sequences that yield it:

    - x in the set: t/M times w - 1 draws of ranges k-w+1..k-1, uniform 1/C(k-1, w-1);
    - x not in the set: (M-t)/M times w draws of ranges k-w..k-1, uniform 1/C(k-1, w).

    Every sequence of one kind has the same ranges, hence each sum is its uniform value times a
    factor between prod(1 - r/M) and prod(1 + r/M). With S the sum of the ranges of the longer kind,
    S = w (2k-w-1) / 2, prod(1 - r/M) >= 1 - S/M and prod(1 + r/M) <= 1 / prod(1 - r/M)
    <= 1 / (1 - S/M); so the quotient of two such factors, of whichever kinds, is at most
    1 / (1 - S/M)^2 <= M / (M - 2S). The uniform ratios are 1 (both in or both out) and
    t C(k-1, w) / ((M-t) C(k-1, w-1)) = t (k-w) / ((M-t) w) or its inverse. Together:

        max(t (k-w), (M-t) w) M  over  min(t (k-w), (M-t) w) (M - w (2k-w-1)).

    Returns:
        (numerator, denominator), where M must exceed w (2k-w-1) for the bound to exist.
    """
    inside = threshold * (cells - size)
    outside = (coin_space - threshold) * size
    bias = size * (2 * cells - size - 1)
    return max(inside, outside) * coin_space, min(inside, outside) * (coin_space - bias)
