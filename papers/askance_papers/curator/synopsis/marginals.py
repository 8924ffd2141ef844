"""k-way marginals: the shares of records with given codes in k of the columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_papers.curator.synopsis.queries import QueryFamily
from askance_papers.curator.synopsis.universe import Universe


class MarginalFamily(QueryFamily):
    """All cells of all tables over k columns; a query is a conjunction of k equalities.

    Tables are in the order of `itertools.combinations`, cells of a table with its last column
    running fastest. Sums share their partial sums: all 1760 cells of 3-way marginals over 12 bits
    take about a millisecond.

    Args:
      way: k, 1 .. the number of columns.

    Raises:
      InvalidParameter: another k, or too many queries.
    """

    def __init__(self, universe: Universe, way: int) -> None:
        columns = len(universe.sizes)
        if not 1 <= way <= columns:
            raise InvalidParameter(f"marginals: expected 1 .. {columns} columns, found {way}")
        self._tables = tuple(combinations(range(columns), way))
        sizes = [prod(universe.sizes[column] for column in table) for table in self._tables]
        super().__init__(universe, sum(sizes))
        self._starts = np.cumsum([0, *sizes])
        self._way = way

    def conjunction(self, query: int) -> tuple[tuple[int, int], ...]:
        """The (column, code) pairs that a record has to have to be counted by a query."""
        place = int(np.searchsorted(self._starts, query, side="right")) - 1
        table = self._tables[place]
        sizes = tuple(self.universe.sizes[column] for column in table)
        codes = np.unravel_index(query - int(self._starts[place]), sizes)
        return tuple((column, int(code)) for column, code in zip(table, codes, strict=True))

    def values(self, chosen: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """1 where a record has all the codes."""
        codes = self.universe.codes(cells)
        equal = [
            [codes[:, column] == code for code in range(size)]
            for column, size in enumerate(self.universe.sizes)
        ]
        found = np.ones((len(chosen), len(cells)), dtype=np.bool_)
        for row, query in zip(found, chosen, strict=True):
            for column, code in self.conjunction(int(query)):
                row &= equal[column][code]
        return found.astype(np.int32)

    def sums(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every table, by summing columns out."""
        cube = weights.reshape(self.universe.sizes)
        return np.concatenate([table.ravel() for table in _tables(cube, 0, self._way)])

    def spread(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Every table broadcast over the columns that it lacks."""
        parts = iter(np.split(coefficients, self._starts[1:-1]))
        return _cube(parts, (), self.universe.sizes, self._way).ravel()

    def squared_reach(self) -> int:
        """A record is in one cell of each table."""
        return len(self._tables)


def _tables(cube: NDArray[np.float64], first: int, way: int) -> Iterator[NDArray[np.float64]]:
    """The tables over all axes before `first` and `way` of the others, in order."""
    if way == 0:
        yield cube.sum(axis=tuple(range(first, cube.ndim)))
    elif cube.ndim - first == way:
        yield cube
    else:
        yield from _tables(cube, first + 1, way - 1)
        yield from _tables(cube.sum(axis=first), first, way)


def _cube(
    parts: Iterator[NDArray[np.float64]],
    kept: tuple[int, ...],
    sizes: tuple[int, ...],
    way: int,
) -> NDArray[np.float64]:
    """The transpose of `_tables`: over the kept axes and all of `sizes`, in the same order."""
    if way == 0:
        table = next(parts).reshape(kept + (1,) * len(sizes))
        return np.broadcast_to(table, kept + sizes)
    if len(sizes) == way:
        return next(parts).reshape(kept + sizes)
    having = _cube(parts, (*kept, sizes[0]), sizes[1:], way - 1)
    lacking = _cube(parts, kept, sizes[1:], way)
    return np.asarray(having + np.expand_dims(lacking, axis=len(kept)))
