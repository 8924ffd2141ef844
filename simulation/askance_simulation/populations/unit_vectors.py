"""Vectors of length at most one that lean to one side, by whole numbers alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import vectors_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.columns import columns_of, draws
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed

_BITS = 16


@catalogued("unit-vectors", "vectors of length one that lean to one side, by hundredths")
def unit_vectors(size: int, seed: Seed, d: int = 8, lean: int = 50) -> Population:
    """Make `size` users with x of length 1, downward by less than d grid steps of 2^-16.

    A number is uniform on [-1, 1], plus lean/100 times a sign of the component that the seed draws;
    the vector is then divided by its length, rounded up, towards zero: never longer than 1.
    `d`, how many numbers there are, is 1 .. 1024, and `lean` is 0 .. 1000 hundredths.
    """
    schema = vectors_schema(d)
    if not 0 <= lean <= 1000:
        raise InvalidParameter(f"unit-vectors: expected a lean of 0 to 1000, found {lean}")
    bits = keystream((seed / "concept").key[:16], 0, d) >> np.uint64(63)
    shift = (1 - 2 * bits.astype(np.int64)) * (lean * (1 << _BITS) // 100)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, d) >> np.uint64(64 - _BITS - 1)
        own = words.astype(np.int64) - (1 << _BITS) + shift
        lengths = np.maximum(_root_above((own * own).sum(axis=1)), 1)
        grid = (np.abs(own) << _BITS) // lengths[:, np.newaxis] * np.sign(own)
        return columns_of({f"x{j}": grid[:, j] for j in range(d)})

    return Population("unit-vectors", schema, size, columns)


def _root_above(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the least whole number whose square is not below, for numbers below 2^52."""
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots += roots * roots < squares
    return roots
