"""A bounded number: the mean of three uniform ones, a bell between 0 and 1 with mean 1/2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns
from askance_client.queries import Real, Schema
from askance_simulation.populations.columns import columns_of, draws
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.populations.record_types import RecordTypes, drawn_types
from askance_simulation.randomness.seeds import Seed

_BITS = 16
_AT_ONCE = 1 << 16  # users whose words are drawn together: they stay near the processor


@catalogued("numbers", "a bell-shaped number in [0, 1]")
def numbers(size: int, seed: Seed) -> Population:
    """Make `size` users, each with a `number` in [0, 1] on a grid of 2^-16."""
    schema = Schema("numbers", 1, number=Real(0, 1, _BITS))
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        found = np.empty(stop - start, np.int32)
        for first in range(start, stop, _AT_ONCE):
            last = min(first + _AT_ONCE, stop)
            # The upper quarters of words: 16 bits each, apart in memory by a word.
            quarters = draws(people, first, last, 3).astype("<u8", copy=False).view("<u2")
            sums = found[first - start : last - start].view(np.uint32)
            np.add(quarters[:, 3], quarters[:, 7], out=sums, dtype=np.uint32)
            sums += quarters[:, 11]
            sums //= np.uint32(3)
        return columns_of({"number": found})

    def law(seed: Seed) -> RecordTypes:
        grid = columns_of({"number": np.arange(1 << _BITS)})
        return drawn_types(grid, _ways(), size, seed)

    return Population("numbers", schema, size, columns, law=law)


def _ways() -> NDArray[np.int64]:
    """Count the triples of 16-bit numbers whose mean, rounded down, is each number."""
    side = 1 << _BITS
    sums = np.arange(3 * side, dtype=np.int64)
    ways = _triples(sums) - 3 * _triples(sums - side) + 3 * _triples(sums - 2 * side)
    found: NDArray[np.int64] = ways.reshape(side, 3).sum(axis=1, dtype=np.int64)
    return found


def _triples(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the triples of numbers from 0 on, however great, of each sum."""
    rest = np.maximum(sums, -1) + 1
    found: NDArray[np.int64] = rest * (rest + 1) // 2
    return found
