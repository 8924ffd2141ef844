"""Users by their records: distinct records, and how many users have each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.totals import AnswerTotals
from askance_aggregator.queries import EncodedColumns, values_of
from askance_client.queries import Query
from askance_simulation.randomness import Seed

UserCounts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RecordTypes:
    """Distinct records, and the number of users who have each.

    Args:
        records: one row per type.
        counts: users of each type, int64, shape (types,).
    """

    records: EncodedColumns
    counts: UserCounts

    def columns(self, start: int, stop: int) -> EncodedColumns:
        """Return the records of ordinals start .. stop-1, of users in the order of their types."""
        return self.records.take(self._ends.searchsorted(np.arange(start, stop), side="right"))

    def totals(self, queries: Sequence[Query]) -> list[AnswerTotals]:
        """Compute the exact totals of queries over all users."""
        return [
            AnswerTotals.weighted(query, values_of(query, self.records), self.counts)
            for query in queries
        ]

    def absent(self, names: Collection[str]) -> int:
        """Count the users who lack one of these fields."""
        present = np.ones(len(self.counts), np.bool_)
        for name in names:
            present &= self.records.present[name]
        return int(self.counts[~present].sum())

    @cached_property
    def _ends(self) -> UserCounts:
        return np.cumsum(self.counts)


def drawn_types(
    records: EncodedColumns, weights: NDArray[np.int64], users: int, seed: Seed
) -> RecordTypes:
    """Draw how many of `users` independent users have each record."""
    chances = weights / weights.sum()
    rng = np.random.default_rng(int.from_bytes((seed / "types").key, "big"))
    return RecordTypes(records, rng.multinomial(users, chances / chances.sum()))
