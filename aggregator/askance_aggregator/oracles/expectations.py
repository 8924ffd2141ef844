"""The truth behind a question: exact expectations over a finite weighted population."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import Presence, Question
from askance_aggregator.queries import EncodedColumns, evaluate_columns, evaluate_vectors
from askance_client.errors import InvalidParameter
from askance_client.queries import Query, QueryKind

Weights = Sequence[int] | NDArray[np.int64]


class NoExpectation(InvalidParameter):
    """A mean over the rows that have a number is asked, and no row has it."""


def expectations(
    question: Question, columns: EncodedColumns, weights: Weights | None = None
) -> tuple[Fraction, ...]:
    """The values that the answer to a question estimates, exactly.

    A row that cannot be evaluated counts with the query's public default, as on a device; of a
    query with a missing level the mean is over the rows that have the number.

    `columns` has one row a user; weights are as of `ExactOracle` and do not sum to 0.
    """
    query = question.query
    if query.kind is QueryKind.VECTOR:
        return _means(query, columns, weights)
    levels, rows = _levels(query, columns)
    if weights is None:
        masses = np.bincount(rows, minlength=len(levels))
    else:
        masses = np.zeros(len(levels), dtype=np.int64)
        np.add.at(masses, rows, _checked(weights, len(rows)))
    mass = {int(level): int(part) for level, part in zip(levels, masses, strict=True)}
    missing = mass.pop(query.default, 0) if question.over_present else 0
    total = sum(mass.values())
    if total == 0:
        if missing:
            raise NoExpectation(
                f"a mean expects a row that has the number, got rows of weight {missing} without it"
            )
        raise InvalidParameter("an expectation needs a population, found no rows of any weight")
    if query.kind is QueryKind.CATEGORY:
        return tuple(Fraction(mass.get(cell, 0), total) for cell in range(question.values))
    if query.kind is QueryKind.SIGNED:
        return tuple(
            Fraction(mass.get(2 * pair, 0) - mass.get(2 * pair + 1, 0), total)
            for pair in range(question.values)
        )
    scale = 1 << query.frac if query.kind is QueryKind.REAL else 1
    return (Fraction(sum(level * part for level, part in mass.items()), total * scale),)


def presence_of(
    question: Question, columns: EncodedColumns, weights: Weights | None = None
) -> Presence | None:
    """The share of rows that have the number, exactly; None of a query without a missing level."""
    if not question.over_present:
        return None
    has = evaluate_columns(question.query, columns) != question.query.default
    counts = np.ones(len(has), np.int64) if weights is None else _checked(weights, len(has))
    total = int(counts.sum())
    if total == 0:
        raise InvalidParameter("an expectation needs a population, found no rows of any weight")
    share = int(counts[has].sum()) / total
    return Presence(share, share, share)


def _means(query: Query, columns: EncodedColumns, weights: Weights | None) -> tuple[Fraction, ...]:
    """Compute each component's mean."""
    found = evaluate_vectors(query, columns)
    above = found - query.low  # below 2^31, so that 2^32 rows add up in int64
    if weights is None:
        sums, total = above.sum(axis=0), len(found)
    else:
        counts = _checked(weights, len(found))
        sums, total = counts.astype(object) @ above.astype(object), int(counts.sum())
    if total == 0:
        raise InvalidParameter("an expectation needs a population, found no rows of any weight")
    return tuple(Fraction(int(one) + total * query.low, total << query.frac) for one in sums)


def _levels(query: Query, columns: EncodedColumns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The values that the query may have, and for each row which of them it has."""
    found = evaluate_columns(query, columns)
    if query.kind is QueryKind.REAL:  # too many to list: those that occur
        levels, rows = np.unique(found, return_inverse=True)
        return levels, rows
    return np.arange(query.cells), found


def _checked(weights: Weights, rows: int) -> NDArray[np.int64]:
    plain = [int(weight) for weight in weights]
    if len(plain) != rows:
        raise InvalidParameter(f"expected {rows} weights, one a row, found {len(plain)}")
    if plain and (min(plain) < 0 or sum(plain) >= 1 << 62):
        raise InvalidParameter("weights expect integers >= 0 that sum to less than 2^62")
    return np.asarray(plain, dtype=np.int64)
