"""Numbers that go together, and an outcome near a plane over them."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners import plane_schema
from askance_aggregator.queries import EncodedColumns
from askance_simulation.populations.columns import columns_of, draws, weighted
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed

_BITS = 16


@catalogued("plane", "numbers that go together, an outcome near a plane")
def plane(size: int, seed: Seed, d: int = 3) -> Population:
    """Make `size` users with x_j = (common + own_j)/2, y = sum of w_j x_j plus a quarter of noise.

    All of them uniform on [-1, 1]; the weights, of magnitudes that sum to 3/4, come from the seed.
    So one direction holds more of the variance than any other.
    `d`, how many features there are, is 1 .. 32.
    """
    schema = plane_schema(d)
    raw = keystream((seed / "concept").key[:16], 0, d) >> np.uint64(11)
    weights = raw.astype(np.float64) / (1 << 52) - 1
    weights *= 0.75 / np.abs(weights).sum()
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, d + 2) >> np.uint64(11)
        uniform = words.astype(np.float64) / (1 << 52) - 1
        x = (uniform[:, :1] + uniform[:, 1 : d + 1]) / 2
        y = weighted(x, weights) + uniform[:, -1] / 4
        grid = {f"x{j}": np.rint(np.ldexp(x[:, j], _BITS)).astype(np.int64) for j in range(d)}
        return columns_of({**grid, "y": np.rint(np.ldexp(y, _BITS)).astype(np.int64)})

    return Population(
        "plane", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )
