"""Seeded coins with random access by (request, ordinal): for simulation only, never on a device.

Word j of an answer that takes c words is word `ordinal * c + j` of the AES-128-CTR keystream under
a key derived from the seed and the request's digest. Devices take theirs from runs that neighbours
share; a column of devices is one contiguous run of the same keystream.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from askance_simulation.randomness.seeds import Seed

_BLOCK = 16
_WORD = 8
_TOGETHER = 512  # words of a run, 4 KB: computing them takes as long as a few single answers
_RUNS = 64  # that are kept, for devices that are asked in any order
_ZEROS = memoryview(bytes(1 << 17))  # bytes that the cipher turns into a keystream at a time


class SeededCoins:
    """The source of all coins of one simulated fleet; `at` gives one device's share of it."""

    def __init__(self, seed: Seed) -> None:
        self._seed = seed
        self._run = lru_cache(maxsize=_RUNS)(self._computed_run)

    def at(self, ordinal: int) -> DeviceCoins:
        """Return the coins of the device with this ordinal."""
        return DeviceCoins(self, ordinal)

    def words(self, request: bytes, ordinal: int, count: int) -> tuple[int, ...]:
        """Return the `count` words of one device's answer."""
        devices = _TOGETHER // count if 0 < count <= _TOGETHER else 1
        number, place = divmod(ordinal, devices)
        run = self._run(request, number, devices, count)
        return struct.unpack_from(f"<{count}Q", run, place * count * _WORD)

    def columns(self, request: bytes, start: int, stop: int, count: int) -> NDArray[np.uint64]:
        """Return the words of ordinals start .. stop-1, shape (stop - start, count)."""
        return keystream(self.key(request), start * count, (stop - start) * count).reshape(
            -1, count
        )

    def key(self, request: bytes) -> bytes:
        """Derive the key of the keystream that all answers to a request take their words from."""
        return hashlib.sha256(b"askance coins v1\0" + self._seed.key + request).digest()[:16]

    def _computed_run(self, request: bytes, number: int, devices: int, count: int) -> bytes:
        start = number * devices
        return self.columns(request, start, start + devices, count).astype("<u8").tobytes()


class DeviceCoins:
    """The `Coins` of one simulated device."""

    __slots__ = ("_ordinal", "_source")

    def __init__(self, source: SeededCoins, ordinal: int) -> None:
        self._source = source
        self._ordinal = ordinal

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        """Return `count` 64-bit words, the same for the same request every time."""
        return self._source.words(request, self._ordinal, count)


class Keystream:
    """The AES-128-CTR keystream under `key`, word by word from an even one on.

    `next` is the word that comes next; none is known where a `fill` did not come to its end.
    """

    def __init__(self, key: bytes, first: int) -> None:
        self.key = key
        self.next: int | None = first
        start = (first // 2).to_bytes(_BLOCK, "big")
        self._cipher = Cipher(algorithms.AES128(key), modes.CTR(start)).encryptor()

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Read the next words into a contiguous array."""
        after = None if self.next is None else self.next + words.size
        self.next = None
        stream = words.data.cast("B")
        for start in range(0, len(stream), len(_ZEROS)):
            part = stream[start : start + len(_ZEROS)]
            self._cipher.update_into(_ZEROS[: len(part)], part)
        self.next = after


def keystream(key: bytes, first: int, count: int) -> NDArray[np.uint64]:
    """Return the words first .. first+count-1 of the AES-128-CTR keystream under `key`."""
    skip = first % 2
    words = np.empty(skip + count, "<u8")
    Keystream(key, first).fill(words)
    return words[skip:].astype(np.uint64, copy=False)


def keystream_at(key: bytes, places: NDArray[np.int64], count: int) -> NDArray[np.uint64]:
    """Return the words place * count .. place * count + count-1 per place, shape (n, count).

    The same words as of `keystream`, for places that are far between.
    """
    first = places.astype(np.uint64) * np.uint64(count)
    blocks = count // 2 + 1  # a run of words that begins in mid-block may end in one more
    counters = np.zeros((len(places), blocks, 2), ">u8")
    counters[:, :, 1] = (first >> np.uint64(1))[:, np.newaxis] + np.arange(blocks, dtype=np.uint64)
    cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()
    words = np.frombuffer(cipher.update(counters.tobytes()), "<u8").reshape(len(places), -1)
    odd = (first & np.uint64(1)).astype(np.bool_)[:, np.newaxis]
    found = np.where(odd, words[:, 1 : 1 + count], words[:, :count])
    return found.astype(np.uint64, copy=False)
