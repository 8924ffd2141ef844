"""Hadamard signs: reports, and the number of each row and sign."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint64
from numba.extending import intrinsic

from askance_simulation.kernels.blocks import AT_ONCE, columns_of, count_numbers, store_numbers
from askance_simulation.kernels.byte_counts import add_bytes
from askance_simulation.kernels.compiling import compiled

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
        coins: shape (n, 2 or more).
        reports: 2 r + s, big-endian.
        sums: shape (2^(row_bits + 1),).
        values: number of values.
        row_bits: bits of a row.
        kept: number of coins that report + at a row where the own sign is +.
    """
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    rows, signs = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    numbers = np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        ours, codes = words[start * each : stop * each], numbers[: stop - start]
        row, sign = rows[: stop - start], signs[: stop - start]
        columns_of(ours, each, row, sign)
        _sign(levels[start:stop], row, sign, codes, np.uint64(2 * values), row_bits, kept)
        store_numbers(octets[start * width : stop * width], codes, width)
        if width > 1:
            count_numbers(codes, sums)
    if width == 1:
        add_bytes(octets, sums)


@compiled
def _sign(
    levels: Any, rows: Any, signs: Any, codes: Any, neutral: Any, row_bits: Any, kept: Any
) -> None:
    """Compute reports from the coins of their rows and of their signs."""
    down, half = np.uint64(63 - row_bits), np.uint64(1 << 63)
    for user in range(len(codes)):
        level = np.uint64(levels[user])
        chosen = (rows[user] >> _ONE) >> down
        minus = (_ones(chosen & (level >> _ONE)) ^ level) & _ONE
        plus = (np.uint64(0) - kept) if minus else kept
        plus = half if level == neutral else plus
        codes[user] = (chosen << _ONE) | np.uint64(signs[user] >= plus)
