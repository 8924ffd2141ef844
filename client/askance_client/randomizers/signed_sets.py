"""The integers of signed subset selection: how its coins are shared out, and what that costs."""

from __future__ import annotations

from askance_client.randomizers.coins import COIN_SPACE


def opposite_coins(values: int, size: int, threshold: int, coin_space: int = COIN_SPACE) -> int:
    """Return the coins for (j, -s): its share, by the number of sets, of those above the threshold.

    They are C(d-1, w-1) 2^(w-1) and C(d-1, w) 2^w, that is w to 2 d - 2 w.
    """
    return (coin_space - threshold) * size // (2 * values - size)


def even_coins(values: int, size: int, coin_space: int = COIN_SPACE) -> int:
    """Return w / (2 d) of the coins, rounded down."""
    return coin_space * size // (2 * values)


def certified_ratio(
    values: int, size: int, threshold: int, coin_space: int = COIN_SPACE
) -> tuple[int, int]:
    """Bounds from above how much likelier one level makes a report than another does.

    Let M = coin_space, d = values, w = size, u = opposite and h = even coins. Of all C(d, w) 2^w
    reports a share w / (2 d) contains a given item, and (d - w) / d do not contain a given value.
    With even draws the chance of a report, over that of an even draw of it from all, is therefore

    - t 2 d / (M w) for a level at an item of it, u 2 d / (M w) at the other sign of that value;
    - (M - t - u) d / (M (d - w)) for a level at no value of it;
    - h 2 d / (M w) or (M - 2 h) d / (M (d - w)) for the neutral level;

    all times M (d - w) w / d: 2 t (d - w), 2 u (d - w), (M - t - u) w, 2 h (d - w), (M - 2 h) w. If
    w = d, no report is without a value: t, u and h are left.
    Signs are bits of coins: exact. The other members are w - 1 draws of ranges d-w+1 .. d-1 or w
    draws of ranges d-w .. d-1, each of whose outcomes have a probability of (1/r)(1 + b),
    |b| < r/M. With S = w (2d-w-1) / 2 the sum of the latter, the factors of two such products
    differ by at most 1 / (1 - S/M)^2 <= M / (M - 2 S); compare `floyd.certified_ratio`.

    Returns:
        (numerator, denominator).
    """
    others = opposite_coins(values, size, threshold, coin_space)
    even = even_coins(values, size, coin_space)
    inside = [threshold, others, even]
    if size == values:
        chances = inside
    else:
        chances = [2 * coins * (values - size) for coins in inside]
        chances += [(coin_space - threshold - others) * size, (coin_space - 2 * even) * size]
    bias = size * (2 * values - size - 1)
    return max(chances) * coin_space, min(chances) * (coin_space - bias)
