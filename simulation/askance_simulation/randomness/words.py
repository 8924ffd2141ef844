"""Seeded words for the curator's mechanisms: for experiments only, never for a release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed


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
