"""Levels of users in columns, from a request's query, their records and their coins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns, evaluate_vectors, holds, values_of
from askance_client.messages import rounding_coins
from askance_client.queries import QueryKind
from askance_simulation.families.rounding import Rounding
from askance_simulation.fleets.histories import Ask

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLevels:
    """Inputs that users' reports are drawn from.

    Args:
      values: the query's values on the grid.
      levels: what is randomized: of vectors the patterns, or the vectors themselves where no coin
        rounds them; of predicates whether they hold.
      words: the coins that randomize, then those that round.
    """

    values: NDArray[np.signedinteger[Any]] | NDArray[np.bool_]
    levels: NDArray[np.integer[Any]] | NDArray[np.bool_]
    words: Words

    @classmethod
    def of(cls, ask: Ask, people: EncodedColumns, words: Words, round_: Rounding) -> DrawnLevels:
        """Evaluate the query and find the levels as a device does (see `Device`)."""
        query, randomizer = ask.query, ask.randomizer
        if query.kind is QueryKind.PREDICATE:
            held = holds(query, people)
            return cls(held, held, words)
        vector = query.kind is QueryKind.VECTOR
        values = evaluate_vectors(query, people) if vector else values_of(query, people)
        if not rounding_coins(query, randomizer):
            return cls(values, values, words)
        levels = 2 if vector else randomizer.levels
        return cls(values, round_(values, query.low, query.high, levels, words), words)

    def level(self, ask: Ask, row: int) -> int:
        """Return one user's level, as its device computes it."""
        if ask.query.kind is not QueryKind.VECTOR:
            return int(self.levels[row])
        coins = self.words[row, ask.randomizer.coins :].tolist()
        values, query = self.values[row].tolist(), ask.query
        return ask.randomizer.vector_level(values, query.low, query.high, coins)
