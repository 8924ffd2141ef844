"""Random rounding of values onto levels by multiplications, equal to a device's of each value."""

from __future__ import annotations

from typing import Any

import numpy as np

from askance_simulation.kernels.compiling import compiled, product_high


@compiled
def round_array(values: Any, coins: Any, levels: Any, low: Any, span: Any, steps: Any) -> None:
    """Round values at random onto equally spaced levels (see `round_to_levels`).

    A value is `below` whole steps and `rest` of `span` parts of one more above the lowest. The
    level above is taken if coin < floor(rest 2^64 / span), that is, (coin + 1) span <= rest 2^64.
    `below` is by a reciprocal, and at most one too great at first, since parts are below 2^47.
    Comparisons are added up, since a branch would be taken by chance.

    Args:
        values: shape (n,), each in low..low + span.
        coins: shape (n,).
        levels: shape (n,), to be filled.
        low: the lowest value.
        span: length of the range, uint64, 1..2^31 - 1.
        steps: number of levels less 1, uint64, below 2^16.
    """
    one, none = np.uint64(1), np.uint64(0)
    inverse = (none - one) // span + one  # 0, for 2^64, where the span is 1
    whole = np.uint64(span == one)
    for row in range(len(values)):
        parts = np.uint64(np.int64(values[row]) - low) * steps
        below = product_high(parts, inverse) + parts * whole
        below -= np.uint64(below * span > parts)
        rest, coin = parts - below * span, coins[row]
        tail = coin * span + span
        head = product_high(coin, span) + np.uint64(tail < span) + np.uint64(tail != none)
        levels[row] = below + np.uint64(head <= rest)
