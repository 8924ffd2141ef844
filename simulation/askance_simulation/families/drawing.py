"""Integer arithmetic on columns of coins, shared by the draws of several families."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_client.randomizers import KaryResponse, LinearHashing
from askance_simulation.families.dispatch import Coins, Levels, Reports

CELLS_AT_ONCE = 1 << 22  # rows x cells of a block of sets
_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)


def responses(
    randomizer: KaryResponse | LinearHashing, own: Levels, coin: NDArray[np.uint64]
) -> Levels:
    """Draw k-ary responses about each user's own value."""
    kept = np.uint64(randomizer.own)
    rank = ((coin - kept) // np.uint64(randomizer.other)).astype(np.int64)  # garbage where own
    return np.where(coin < kept, own, rank + (rank >= own))


def scaled(coins: Coins, outcomes: int) -> Levels:
    """Compute floor(coin * outcomes / 2^64) for outcomes below 2^32, in two digits."""
    factor = np.uint64(outcomes)
    carried = ((coins & _LOW) * factor) >> _HALF
    return (((coins >> _HALF) * factor + carried) >> _HALF).astype(np.int64)


def big_endian(codes: Levels, width: int) -> Reports:
    """Encode each number as `width` bytes, big-endian."""
    if width == 1:
        return codes.astype(np.uint8)[:, np.newaxis]
    if width == 2:
        return codes.astype(">u2").view(np.uint8).reshape(-1, 2)
    octets = codes.astype(">u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(octets[:, 8 - width :])
