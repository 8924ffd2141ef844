"""Statements about bitmaps of items, shared by the families whose reports are sets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_simulation.families.dispatch import Statements


def bitmap_statements(shares: Sequence[Fraction], size: int, width: int, what: str) -> Statements:
    """Compute the probability of each item in a bitmap of `width` bytes with `size` items."""
    items = len(shares)

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        rows = np.frombuffer(b"".join(s for s in symbols if len(s) == width), np.uint8)
        bits = np.unpackbits(rows.reshape(-1, width), axis=1)
        right = bits.sum(axis=1, dtype=np.int64) == size
        right &= ~bits[:, items:].any(axis=1)
        counts = bits[:, :items].sum(axis=0, dtype=np.int64)
        return np.append(counts, np.count_nonzero(right))

    return Statements(
        np.array([*map(float, shares), 1.0]),
        count,
        lambda place: f"{what} {place}" if place < items else f"{size} {what}s",
    )
