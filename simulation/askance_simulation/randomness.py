"""Seeded randomness of simulations, by random access: for experiments only, never for a release.

Every draw is a function of a seed, a name and an ordinal, never of an order: `Seed` is a node of
the tree of seeds, coins and words are keystreams under its nodes, and chances compare words with
exact thresholds. Devices and releases use the operating system's randomness instead.

Word j of an answer that takes c words is word `ordinal * c + j` of the AES-128-CTR keystream under
a key derived from the seed and the request's digest. Devices take theirs from runs that neighbours
share; a column of devices is one contiguous run of the same keystream.
"""

from __future__ import annotations

import hashlib
import struct
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from numbers import Integral

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.randomizers import COIN_SPACE


class SeededWords:
    """The `Words` of one experiment: the same seed, the same draws in the same order."""

    def __init__(self, seed: Seed) -> None:
        self._key = seed.key[:16]
        self._given = 0

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of the seed's keystream."""
        start = self._given
        self._given += count
        return keystream(self._key, start, count)


class Seed:
    """A node of a tree of seeds: `seed / "population"` is another, unrelated to its siblings.

    Args:
      key: 32 bytes.

    Example:
      >>> root = ask.Seed.of(7)
      >>> (root / "population").key == (root / "coins").key
      False
      >>> (root / "population").key == (ask.Seed.of(7) / "population").key
      True
    """

    __slots__ = ("key",)

    def __init__(self, key: bytes) -> None:
        self.key = key

    @classmethod
    def of(cls, number: int) -> Seed:
        """Return the root for a whole number of any size; none is cut short.

        Raises:
          InvalidParameter: a negative number.
        """
        if not isinstance(number, Integral) or number < 0:
            given = value_text(number)
            raise InvalidParameter(f"seed: expected a whole number of 0 or more, got {given}")
        return cls(hashlib.sha256(b"askance seed v1\0" + str(number).encode()).digest())

    def __truediv__(self, name: str | int) -> Seed:
        return Seed(hashlib.sha256(self.key + b"/" + str(name).encode()).digest())


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


Ordinals = NDArray[np.int64]
Words = NDArray[np.uint64]
Which = NDArray[np.bool_]

_CHUNK_BITS = 16  # ordinals further apart than this are looked up apart


def read_chance(value: Rational, name: str) -> Fraction:
    """Return a chance, exactly; both ends of 0 .. 1 are chances."""
    chance = rational(value, name)
    if not 0 <= chance <= 1:
        raise InvalidParameter(f"{name}: expected a chance from 0 to 1, got {float(chance):g}")
    return chance


def threshold(chance: Fraction) -> int:
    """Return the number of the 2^64 words below the chance: it within 2^-64, from below."""
    return chance.numerator * COIN_SPACE // chance.denominator


def below(words: Words, bound: int) -> Which:
    """Return which words are below a threshold; 2^64 itself is above them all."""
    if bound >= COIN_SPACE:
        return np.ones(len(words), np.bool_)
    return words < np.uint64(bound)


def words(seed: Seed, ordinals: Ordinals) -> Words:
    """Compute word o of the keystream under `seed`, for each ordinal o.

    Utility: neighbours are read in one run, whatever the order; a chunk of 65,536 in well under 2
    milliseconds.
    """
    if _is_run(ordinals):
        return keystream(seed.key[:16], int(ordinals[0]), len(ordinals))
    found = np.empty(len(ordinals), np.uint64)
    places = ordinals >> _CHUNK_BITS
    cuts = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(ordinals)]
    for start, stop in pairwise(cuts):
        here = ordinals[start:stop]
        if len(here):
            first, last = int(here.min()), int(here.max())
            found[start:stop] = keystream(seed.key[:16], first, last + 1 - first)[here - first]
    return found


def _is_run(ordinals: Ordinals) -> bool:
    """Return whether the ordinals are consecutive and ascending."""
    if not len(ordinals) or ordinals[-1] - ordinals[0] != len(ordinals) - 1:
        return False
    return bool((ordinals[1:] > ordinals[:-1]).all())
