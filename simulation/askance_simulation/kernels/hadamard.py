"""Hadamard signs: reports, and the number of each row and sign."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64
from numba.extending import intrinsic

from askance_simulation.kernels.compiling import compiled, store

_ONE = np.uint64(1)


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _ones(typing_context: Any, word: Any) -> Any:
    """Count the ones of a uint64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return uint64(uint64), build


@compiled
def draw(
    levels: Any, coins: Any, reports: Any, sums: Any, values: Any, row_bits: Any, kept: Any
) -> None:
    """Draw reports, and count those of each row with + and with -.

    Args:
        levels: 2j + s, s = 1 for -; 2 `values` of neutral users.
        coins: shape (n, 2).
        reports: 2 r + s, big-endian.
        sums: shape (2^(row_bits + 1),).
        values: number of values.
        row_bits: bits of a row.
        kept: number of coins that report + at a row where the own sign is +.
    """
    flat, neutral = np.ascontiguousarray(coins).reshape(-1), np.uint64(2 * values)
    codes = np.empty(len(levels), np.uint64)
    down, half = np.uint64(64 - row_bits), np.uint64(1 << 63)
    for user in range(len(levels)):
        level = np.uint64(levels[user])
        chosen = (flat[2 * user] >> down) if row_bits else np.uint64(0)
        minus = (_ones(chosen & (level >> _ONE)) ^ level) & _ONE
        plus = (np.uint64(0) - kept) if minus else kept
        plus = half if level == neutral else plus
        codes[user] = (chosen << _ONE) | np.uint64(flat[2 * user + 1] >= plus)
    for user in range(len(levels)):
        store(reports, user, codes[user])
        sums[codes[user]] += 1
