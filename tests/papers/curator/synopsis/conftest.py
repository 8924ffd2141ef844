"""Shared parts of these tests: a source of words that fails on use, and seeded ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_simulation.randomness import Seed, SeededWords


class NoWords:
    """Raises where a word is drawn: what is refused is refused before."""

    def take(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError(f"expected no word drawn, found {count} asked for")


@pytest.fixture
def no_words() -> NoWords:
    return NoWords()


@pytest.fixture
def words() -> Callable[[str], SeededWords]:
    return lambda name: SeededWords(Seed.of(1) / name)
