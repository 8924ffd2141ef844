"""Continuous draws, for mechanisms that are continuous by nature."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling.words import Words


class FloatDraws(random.Random):
    """The standard library's distributions (gamma, Gaussian, ...) over passed-in words.

    Not float-safe: a float has gaps, and which floats can come out may depend on the data (Mironov,
    "On significance of the least significant bits for differential privacy", CCS 2012). Mechanisms
    that use this say so in their docstrings.
    """

    def __new__(cls, words: Words) -> FloatDraws:
        """The base would make a seed of whatever it is given."""
        return super().__new__(cls)

    def __init__(self, words: Words) -> None:
        self._words = words
        super().__init__(0)

    def random(self) -> float:
        """Uniform on the multiples of 2^-53 in [0, 1)."""
        return (int(self._words.take(1)[0]) >> 11) * 2.0**-53

    def getrandbits(self, k: int) -> int:
        """A uniform integer of k bits."""
        count = -(-k // 64)
        return int.from_bytes(self._words.take(count).tobytes(), "little") >> (64 * count - k)

    def seed(self, *_: Any, **__: Any) -> None:
        """There is no state: everything comes from the words."""

    def gaussians(self, count: int) -> NDArray[np.float64]:
        """`count` standard normal draws, shape (count,)."""
        return np.array([self.normalvariate(0.0, 1.0) for _ in range(count)])

    def direction(self, dimension: int) -> NDArray[np.float64]:
        """A uniform point of the unit sphere, shape (dimension,)."""
        while True:
            point = self.gaussians(dimension)
            norm = float(np.linalg.norm(point))
            if norm > 0:
                return point / norm
