"""Exact totals of queries over users: what estimates are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.learner import Learner, NonAdaptive
from askance_aggregator.queries import EncodedColumns, has_missing_level, values_of
from askance_client.queries import Query, QueryKind

_MOST_QUERIES = 4  # summed while a study runs; a learner of more is rarely judged by its questions
_NO_CELLS = np.zeros(0, np.int64)
_SUM_BITS = 62  # below which a sum of int64 values cannot overflow


@dataclass(frozen=True, slots=True, eq=False)
class AnswerTotals:
    """Sums of a query's exact answers over users.

    Args:
        counted: number of those who have the number; all, unless the query has a missing level.
        total: sum of their values on the query's grid; 0 of categories.
        cells: users per cell, int64, shape (cells,); (0,) of numbers.
    """

    users: int
    counted: int
    total: int
    cells: NDArray[np.int64]

    @classmethod
    def of(cls, query: Query, values: NDArray[np.signedinteger[Any]]) -> AnswerTotals:
        """Sum exact answers, shape (rows,), as `values_of` has them; the query is not a VECTOR."""
        if query.kind not in (QueryKind.PREDICATE, QueryKind.REAL):
            cells = np.bincount(values, minlength=query.cells)
            return cls(len(values), len(values), 0, cells)
        kept = values[values != query.default] if has_missing_level(query) else values
        return cls(len(values), len(kept), _exact_sum(query, kept), _NO_CELLS)

    @classmethod
    def weighted(
        cls, query: Query, values: NDArray[np.signedinteger[Any]], users: NDArray[np.int64]
    ) -> AnswerTotals:
        """Sum exact answers that several users have.

        `users` counts those who have each value, int64, shape (rows,); all else is as of `of`.
        """
        everybody = int(users.sum())
        if query.kind not in (QueryKind.PREDICATE, QueryKind.REAL):
            cells = np.zeros(query.cells, np.int64)
            np.add.at(cells, values, users)
            return cls(everybody, everybody, 0, cells)
        has = values != query.default if has_missing_level(query) else np.ones(len(users), np.bool_)
        pairs = zip(values[has].tolist(), users[has].tolist(), strict=True)
        total = sum(value * count for value, count in pairs)
        return cls(everybody, int(users[has].sum()), total, _NO_CELLS)

    def __add__(self, other: AnswerTotals) -> AnswerTotals:
        """Return the totals over the users of both, who are different ones."""
        return AnswerTotals(
            self.users + other.users,
            self.counted + other.counted,
            self.total + other.total,
            self.cells + other.cells,
        )

    def shares(self) -> tuple[float, ...]:
        """Return the share of users per cell."""
        return tuple((self.cells / self.users).tolist())

    def mean(self, query: Query) -> tuple[float, float] | None:
        """Return the mean in real units, and the share of users who have the number.

        None: no user has it.
        """
        if not self.counted:
            return None
        scale = 1 if query.kind is QueryKind.PREDICATE else 1 << query.frac
        mean = Fraction(self.total, scale * self.counted)
        return float(mean), self.counted / self.users


def sum_columns(queries: Sequence[Query], columns: EncodedColumns) -> list[AnswerTotals]:
    """Evaluate queries on records and sum the answers of each."""
    return [AnswerTotals.of(query, values_of(query, columns)) for query in queries]


def queries_judged(learner: Learner[object]) -> tuple[Query, ...]:
    """Return the queries whose totals the judge of this learner's estimates may ask for."""
    if not isinstance(learner, NonAdaptive):
        return ()
    queries = dict.fromkeys(question.query for question in learner.batch.questions)
    summed = (QueryKind.PREDICATE, QueryKind.REAL, QueryKind.CATEGORY)
    if len(queries) > _MOST_QUERIES or not all(query.kind in summed for query in queries):
        return ()
    return tuple(queries)


def _exact_sum(query: Query, values: NDArray[np.signedinteger[Any]]) -> int:
    """Add values of a query's range without overflow."""
    widest = max(abs(query.low), abs(query.high), abs(query.default), 1)
    step = max((1 << _SUM_BITS) // widest, 1)
    parts = range(0, len(values), step)
    return sum(int(values[start : start + step].sum(dtype=np.int64)) for start in parts)
