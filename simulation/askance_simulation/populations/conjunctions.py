"""A world labelled by a monotone conjunction: uniform bits, y = 1 iff all relevant bits are 1."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners import Conjunction, conjunctions_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.columns import columns_of, draws, words_of_bits
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed


@catalogued("conjunctions", "uniform bits labelled by a random monotone conjunction")
def conjunctions(size: int, seed: Seed, d: int = 8, relevant: int = 2) -> Population:
    """Make `size` users with x uniform on d bits, y the AND of `relevant` of them, by the seed.

    `d` is 1 .. 4096 and `relevant` is 0 .. d (few: a fraction 2^-relevant is positive).
    """
    if not 0 <= relevant <= d:
        raise InvalidParameter(f"conjunctions: expected 0 to {d} relevant bits, found {relevant}")
    order = np.argsort(keystream((seed / "concept").key[:16], 0, d), kind="stable")
    variables = tuple(sorted(int(j) for j in order[:relevant]))
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        x = words_of_bits(draws(people, start, stop, (d + 63) // 64), d)
        y = np.ones(stop - start, np.int64)
        for j in variables:
            y &= (x[j // 32] >> (j % 32)) & 1
        return columns_of({"x": x, "y": y})

    target = Conjunction(d, variables)
    return Population("conjunctions", conjunctions_schema(d), size, columns, target=target)
