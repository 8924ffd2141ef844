"""Who is asked: ranges of a seeded permutation of the users, never the order of arrival."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from askance.client.errors import InvalidParameter

_ROUNDS = 8
_MULTIPLY = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFT = np.uint64(31)


class Permutation:
    """A permutation of 0..size-1 by a seed, with random access both ways.

    A Feistel network over the next power of four, walked until it lands inside (a Feistel network
    on a larger domain restricted by cycle walking is a permutation of the smaller one). Vectorised,
    so that a fleet of any size can tell chunk by chunk which of its ordinals stand in a cohort.

    Args:
      seed: any bytes; the permutation is a function of them and of `size`.
      size: how many users, 1 .. 2^62.
    """

    def __init__(self, seed: bytes, size: int) -> None:
        if not 1 <= size <= 1 << 62:
            raise InvalidParameter(f"cohorts: expected 1 to 2^62 users, found {size}")
        self.size = size
        half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._half = np.uint64(half)
        self._mask = np.uint64((1 << half) - 1)
        self._keys = [
            np.frombuffer(hashlib.sha256(b"askance cohort" + bytes([r]) + seed).digest()[:8], "<u8")
            for r in range(_ROUNDS)
        ]

    def positions(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each of these users stands in the permuted order."""
        return self._walk(ordinals, forward=True)

    def ordinals(self, start: int, stop: int) -> NDArray[np.int64]:
        """The users at positions start .. stop-1, sorted."""
        if not 0 <= start <= stop <= self.size:
            raise InvalidParameter(
                f"cohorts: expected a range within 0..{self.size}, found {start}..{stop}"
            )
        users = self._walk(np.arange(start, stop, dtype=np.int64), forward=False)
        users.sort()
        return users

    def _walk(self, values: NDArray[np.int64], *, forward: bool) -> NDArray[np.int64]:
        current = self._feistel(values.astype(np.uint64), forward=forward)
        outside = np.flatnonzero(current >= self.size)
        while outside.size:
            moved = self._feistel(current[outside], forward=forward)
            current[outside] = moved
            outside = outside[moved >= self.size]
        return current.astype(np.int64)

    def _feistel(self, values: NDArray[np.uint64], *, forward: bool) -> NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        if forward:
            for key in self._keys:
                left, right = right, left ^ self._mix(right, key)
        else:
            for key in reversed(self._keys):
                left, right = right ^ self._mix(left, key), left
        return (left << self._half) | right

    def _mix(self, values: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
        mixed = values ^ key
        for factor in _MULTIPLY:
            mixed = (mixed ^ (mixed >> _SHIFT)) * factor  # wraps modulo 2^64, as is meant
        return (mixed ^ (mixed >> _SHIFT)) & self._mask
