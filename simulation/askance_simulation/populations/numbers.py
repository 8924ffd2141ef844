"""A bounded number: the mean of three uniform ones, a bell between 0 and 1 with mean 1/2."""

from __future__ import annotations

import numpy as np

from askance_aggregator.queries import EncodedColumns
from askance_client.queries import Real, Schema
from askance_simulation.populations.columns import columns_of, draws
from askance_simulation.populations.population import Population
from askance_simulation.populations.registry import catalogued
from askance_simulation.randomness.seeds import Seed

_BITS = 16


@catalogued("numbers", "a bell-shaped number in [0, 1]")
def numbers(size: int, seed: Seed) -> Population:
    """Make `size` users, each with a `number` in [0, 1] on a grid of 2^-16."""
    schema = Schema("numbers", 1, number=Real(0, 1, _BITS))
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, 3) >> np.uint64(64 - _BITS)
        return columns_of({"number": (words.astype(np.int64).sum(axis=1) // 3)})

    return Population("numbers", schema, size, columns)
