"""Paths: a bit per epoch that changes a fixed number of times."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from askance_aggregator.learners import paths_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.columns import below, columns_of, draws
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.seeds import Seed

_START = Fraction(1, 4)  # share of users whose first bit is 1


@catalogued("paths", "a bit per epoch that changes a fixed number of times, at random epochs")
def paths(size: int, seed: Seed, horizon: int = 16, changes: int = 1) -> Population:
    """Make `size` users with fields epoch_1 .. epoch_T.

    The first bit is 1 with chance 1/4; it changes at `changes` epochs, all sets of which are
    equally likely.
    `horizon` is T, 2 .. 256 epochs, and `changes` is 0 .. T - 1.
    """
    schema = paths_schema(horizon)
    if not 0 <= changes < horizon:
        raise InvalidParameter(f"paths: changes: expected 0 to {horizon - 1}, got {changes}")
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, horizon)
        first = below(words[:, 0], _START)
        # The epochs of the least words; equal words are in the order of the epochs.
        ranks = np.argsort(np.argsort(words[:, 1:], axis=1, kind="stable"), axis=1, kind="stable")
        turns = np.cumsum(ranks < changes, axis=1) & 1
        rest = first[:, np.newaxis] ^ turns.astype(np.bool_)
        bits = np.column_stack([first, rest]).astype(np.int64)
        return columns_of(
            {name: np.ascontiguousarray(bits[:, place]) for place, name in enumerate(schema.fields)}
        )

    return Population("paths", schema, size, columns)
