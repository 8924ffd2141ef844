"""Cells of a query in words and numbers, for analysts and owners."""

from __future__ import annotations

from askance_client.errors import InvalidQuery
from askance_client.queries.query import Query, QueryKind


def signed_cells(query: Query) -> int:
    """Return the number d of positions of a SIGNED query; others are an InvalidQuery."""
    if query.kind != QueryKind.SIGNED:
        raise InvalidQuery(f"signed_cells expects a SIGNED query, found {query.kind.name}")
    return query.high // 2


def cell_names(query: Query) -> tuple[str, ...]:
    """Return the labels of a category that has them; else the cells' numbers."""
    if query.kind == QueryKind.CATEGORY and query.expression.labels is not None:
        return query.expression.labels
    return tuple(map(str, range(query.cells)))
