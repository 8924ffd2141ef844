"""Coins of a test build: a stream that is a function of a seed, of the device and of the request.

`devices/typescript/tests/seeded_stream.ts` has the stream's other half. The number of words is part
of what they follow from, so that a device that takes one coin more or less has others altogether.
"""

from __future__ import annotations

import struct
from hashlib import shake_128


class SeededCoins:
    """The coins of one device: SHAKE-128 of seed, number of words, request and device id.

    Args:
      seed: 0 .. 2^64-1.
      device_id: by which the aggregator knows the device.
    """

    def __init__(self, seed: int, device_id: bytes) -> None:
        self._seed = seed.to_bytes(8, "big")
        self._device_id = device_id

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        """Return the 64-bit words of an answer, the same each time."""
        message = self._seed + count.to_bytes(4, "big") + request + self._device_id
        return struct.unpack(f"<{count}Q", shake_128(message).digest(8 * count))
