"""Response about an own value, as of `KaryResponse`, without a division per user.

With R = (values - 1) other, coins past the own ones are a number x < R, and its rank is x // other.
Let s be the shift with 2^63 <= R 2^s < 2^64, and f = floor(2^(64 + k) / (other 2^s)) with the
greatest k for which f < 2^32; that is 10 or more for up to 2^20 values. Then with h the floor of
x 2^s / 2^32, floor(h f / 2^(32 + k)) is the rank or one less: rounding h and f down loses at most
f / 2^(32 + k) + h / 2^(32 + k) < 2^(1 - k). One comparison decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from askance_simulation.kernels.blocks import AT_ONCE, column_of, count_numbers, store_numbers
from askance_simulation.kernels.byte_counts import add_bytes
from askance_simulation.kernels.compiling import compiled, inlined

_WORD = 1 << 64
_HALF = np.uint64(32)


class ResponseConstants(NamedTuple):
    """Constants of a response, 64-bit words: own and other coins, s, f, 32 + k."""

    own: np.uint64
    other: np.uint64
    shift: np.uint64
    factor: np.uint64
    down: np.uint64


def response_of(own: int, other: int, values: int) -> ResponseConstants:
    """Compute the constants of a response.

    `own` and `other` are numbers of coins, the latter at least 1; `values` is 2..2^20.
    """
    shift = 64 - ((values - 1) * other).bit_length()
    unit = other << shift
    more = 32 - (_WORD // unit).bit_length()
    words = own, other, shift, (_WORD << more) // unit, 32 + more
    return ResponseConstants(*map(np.uint64, words))


@compiled
def respond_all(values: Any, coins: Any, drawn: Any, response: Any) -> None:
    """Compute the values that are reported.

    `drawn` is filled, of any unsigned type, and no part of the other arrays; all have the shape
    (n,).
    """
    own, other, shift, factor, down = response
    for row in range(len(coins)):
        value = np.uint64(values[row])
        drawn[row] = respond(coins[row], value, own, other, shift, factor, down)


@inlined
def respond(coin: Any, value: Any, own: Any, other: Any, shift: Any, factor: Any, down: Any) -> Any:
    """Return the value that is reported by a coin, all of them uint64.

    The constants of a `ResponseConstants` come one by one: a loop keeps them in registers.
    """
    rank = rank_of(coin, own, other, shift, factor, down)
    drawn = rank + np.uint64(rank >= value)
    return value if coin < own else drawn


@inlined
def rank_of(coin: Any, own: Any, other: Any, shift: Any, factor: Any, down: Any) -> Any:
    """Return the rank that a coin has among the other values, if it does not keep the own one."""
    past = coin - own  # of no meaning where the own value is kept
    rank = (((past << shift) >> _HALF) * factor) >> down
    return rank + np.uint64(past - rank * other >= other)


@compiled
def draw(levels: Any, coins: Any, reports: Any, sums: Any, response: Any) -> None:
    """Draw reports and count them."""
    users, each = coins.shape
    width, words, octets = reports.shape[1], coins.reshape(-1), reports.reshape(-1)
    column, numbers = np.empty(AT_ONCE, np.uint64), np.empty(AT_ONCE, np.uint64)
    for start in range(0, users, AT_ONCE):
        stop = min(start + AT_ONCE, users)
        ours, drawn = words[start * each : stop * each], numbers[: stop - start]
        chosen = column_of(ours, each, 0, column[: stop - start])
        if width == 1:
            respond_all(levels[start:stop], chosen, octets[start:stop], response)
            continue
        respond_all(levels[start:stop], chosen, drawn, response)
        store_numbers(octets[start * width : stop * width], drawn, width)
        count_numbers(drawn, sums)
    if width == 1:
        add_bytes(octets, sums)
