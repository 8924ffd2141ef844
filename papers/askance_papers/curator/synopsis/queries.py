"""Families of counting queries, as implicit matrices of queries by cells.

A counting query is the mean over the records of a value phi(record) in [0, 1]: a share, where phi
is a predicate. Replacing one of n records moves it by at most rho = 1/n; that is so by
construction, since phi is checked to lie in [0, 1].

Values are whole multiples of 1/scale, so true answers are whole multiples of 1/(n scale), computed
exactly, and the same replacement moves each by at most `scale` such units.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curator.synopsis.universe import Histogram, Universe

MAX_QUERIES = 1 << 18
_BLOCK = 1 << 22  # entries of the matrix at a time: 32 MiB as float64
_MAX_BYTES = 1 << 30
_RESOLUTION = 1 << 15


class QueryFamily(ABC):
    """Counting queries 0 .. size-1 over a universe.

    A family says what its matrix holds (`values`); what is built on that computes it by blocks, so
    10^5 queries on 2^16 cells take no more memory than a few of them. A family that knows a faster
    way has its own `sums` and `spread`.

    Args:
      universe: what its queries are about.
      size: how many there are, 1 .. 2^18.
      scale: every value is a whole number of 1/scale.
    """

    def __init__(self, universe: Universe, size: int, scale: int = 1) -> None:
        if not 1 <= size <= MAX_QUERIES:
            raise InvalidParameter(f"queries: expected 1 .. {MAX_QUERIES}, found {size}")
        self.universe = universe
        self.size = size
        self.scale = scale

    @abstractmethod
    def values(self, chosen: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """A part of the matrix in units of 1/scale, 0 .. scale, shape (len(chosen), len(cells))."""

    def rows(self, chosen: NDArray[np.int64]) -> NDArray[np.int32]:
        """Queries at every cell, shape (len(chosen), |X|)."""
        return self.values(chosen, np.arange(self.universe.cells))

    def sums(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum weight times value over cells for each query, in units of 1/scale.

        Exact where the weights are whole numbers, and the sums below 2^53. Shape (size,).
        """
        cells = np.flatnonzero(weights)
        found = np.zeros(self.size)
        for chosen in self._blocks(cells.size):
            found[chosen] = self.values(chosen, cells).astype(np.float64) @ weights[cells]
        return found

    def spread(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum coefficient times value over queries for each cell, in 1/scale; shape (|X|,)."""
        cells = np.arange(self.universe.cells)
        found = np.zeros(cells.size)
        for chosen in self._blocks(cells.size):
            found += coefficients[chosen] @ self.values(chosen, cells).astype(np.float64)
        return found

    def squared_reach(self) -> int:
        """The largest sum of squared values that one cell has over all queries, in 1/scale^2."""
        cells = np.arange(self.universe.cells)
        found = np.zeros(cells.size, dtype=np.int64)
        for chosen in self._blocks(cells.size):
            found += _squares(self.values(chosen, cells))
        return int(found.max())

    def counts(self, histogram: Histogram) -> NDArray[np.int64]:
        """The true answers in units of 1/(n scale), exactly; not private. Shape (size,)."""
        if histogram.universe != self.universe:
            raise InvalidParameter(
                f"histogram: expected one over columns of {self.universe.sizes} codes, found "
                f"{histogram.universe.sizes}"
            )
        return np.rint(self.sums(histogram.counts.astype(np.float64))).astype(np.int64)

    def _blocks(self, cells: int) -> Iterator[NDArray[np.int64]]:
        step = max(1, _BLOCK // max(cells, 1))
        for start in range(0, self.size, step):
            yield np.arange(start, min(start + step, self.size))


def squared_sensitivity(rows: NDArray[np.int32], scale: int) -> int:
    """Bound the squared L2 distance that replacing a record moves the sums, in 1/scale^2."""
    # The values are not negative, so two cells' columns are at most the sum of their squares apart;
    # and no query moves by more than `scale`. It depends on the queries alone.
    return min(len(rows) * scale * scale, 2 * int(_squares(rows).max()))


def family_squared_sensitivity(family: QueryFamily) -> int:
    """The same for all queries of a family."""
    return min(family.size * family.scale**2, 2 * family.squared_reach())


def _squares(values: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.asarray(np.einsum("qx,qx->x", values, values, dtype=np.int64))


class MatrixQueries(QueryFamily):
    """Queries given by all their values.

    Predicates are kept as bits. Other values are rounded to a multiple of 2^-15: the query that is
    answered is the rounded one, at most 2^-16 from what was given.

    Args:
      values: shape (size, |X|), in [0, 1].
    """

    def __init__(self, universe: Universe, values: ArrayLike) -> None:
        given = np.asarray(values)
        if given.ndim != 2 or given.shape[1] != universe.cells:
            raise InvalidParameter(
                f"queries: expected rows of {universe.cells} values, one a cell, found shape "
                f"{given.shape}"
            )
        if given.dtype.kind not in "biuf":
            raise InvalidParameter(f"queries: expected numbers, found {given.dtype}")
        wrong = ~((given >= 0) & (given <= 1))  # so that NaN is refused too
        if wrong.any():
            query, cell = (int(place) for place in np.argwhere(wrong)[0])
            raise InvalidParameter(
                f"query {query}, cell {cell}: expected a value in [0, 1], so that the sensitivity "
                f"is 1/n, got {value_text(given[query, cell])}"
            )
        predicates = bool(((given == 0) | (given == 1)).all())
        super().__init__(universe, len(given), 1 if predicates else _RESOLUTION)
        needed = given.size // 8 if predicates else 2 * given.size
        if needed > _MAX_BYTES:
            raise InvalidParameter(f"queries: expected at most a GiB of values, found {needed} B")
        self._bits = np.packbits(given.astype(np.bool_), axis=1) if predicates else None
        self._values = None if predicates else np.rint(given * _RESOLUTION).astype(np.uint16)

    def values(self, chosen: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """Out of what is kept."""
        if self._bits is not None:
            held = np.unpackbits(self._bits[chosen], axis=1, count=self.universe.cells)[:, cells]
            return held.astype(np.int32)
        assert self._values is not None
        return np.asarray(self._values[np.ix_(chosen, cells)], dtype=np.int32)


Rule = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""Of queries (b,) and records (c, columns): which records each query counts, shape (b, c)."""


class PredicateQueries(QueryFamily):
    """Any vectorised predicates, computed whenever they are needed; nothing is kept.

    Args:
      rule: says which records a query counts. Booleans are in [0, 1] by their type, so the
        sensitivity of 1/n needs no other check.
    """

    def __init__(self, universe: Universe, size: int, rule: Rule) -> None:
        super().__init__(universe, size)
        self._rule = rule
        self._codes = universe.every_code()
        # Every query once, and every cell: a rule that fails does so before anything is drawn.
        self.values(np.arange(size), np.arange(1))
        self.values(np.arange(1), np.arange(universe.cells))

    def values(self, chosen: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.int32]:
        """Evaluate the rule."""
        found = np.asarray(self._rule(chosen, self._codes[cells]))
        if found.dtype != np.bool_ or found.shape != (len(chosen), len(cells)):
            raise InvalidParameter(
                f"queries: expected a rule that answers booleans of shape "
                f"{(len(chosen), len(cells))}, found {found.dtype} of shape {found.shape}"
            )
        return found.astype(np.int32)


def ranges(universe: Universe, lows: ArrayLike, highs: ArrayLike) -> PredicateQueries:
    """Boxes: a query counts the records whose every code lies in its range, ends included.

    `lows` and `highs`, shape (size, columns), are the first and the last code of each range.
    """
    low, high = np.asarray(lows), np.asarray(highs)
    columns = len(universe.sizes)
    if low.ndim != 2 or low.shape != high.shape or low.shape[1] != columns:
        raise InvalidParameter(
            f"ranges: expected lows and highs of {columns} columns, found shapes {low.shape} and "
            f"{high.shape}"
        )
    wrong = (low < 0) | (low > high) | (high >= np.array(universe.sizes))
    if wrong.any():
        query, column = (int(place) for place in np.argwhere(wrong)[0])
        raise InvalidParameter(
            f"range {query}, column {column}: expected codes low <= high of it,"
            f" got {low[query, column]} and {high[query, column]}"
        )

    def rule(chosen: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        inside = np.ones((len(chosen), len(codes)), dtype=np.bool_)
        for column in range(columns):
            inside &= codes[:, column] >= low[chosen, column, None]
            inside &= codes[:, column] <= high[chosen, column, None]
        return inside

    return PredicateQueries(universe, len(low), rule)


def column_ranges(universe: Universe, column: int) -> PredicateQueries:
    """Every range of one column's codes."""
    if not 0 <= column < len(universe.sizes):
        raise InvalidParameter(f"column: expected 0 .. {len(universe.sizes) - 1}, found {column}")
    starts, ends = np.triu_indices(universe.sizes[column])
    lows = np.zeros((len(starts), len(universe.sizes)), dtype=np.int64)
    highs = np.tile(np.array(universe.sizes) - 1, (len(starts), 1))
    lows[:, column], highs[:, column] = starts, ends
    return ranges(universe, lows, highs)


def random_queries(universe: Universe, size: int, key: int) -> PredicateQueries:
    """Predicates that count each cell with probability 1/2, a public function of the key.

    Args:
      universe: the columns and their codes.
      size: number of queries, 1 or more.
      key: which family, 0 .. 2^64-1; SplitMix64 of key, query and cell decides, so nothing is kept.
    """
    if not 0 <= key < 1 << 64:
        raise InvalidParameter(f"key: expected 0 .. 2^64-1, found {key}")

    def rule(chosen: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        cells = np.ravel_multi_index(tuple(codes.T), universe.sizes).astype(np.uint64)
        streams = _mixed(_mixed(chosen.astype(np.uint64)) ^ np.uint64(key))
        return (_mixed(streams[:, None] ^ _mixed(cells)) >> np.uint64(63)).astype(np.bool_)

    return PredicateQueries(universe, size, rule)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's step (Steele, Lea, Flood, OOPSLA 2014)."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class MarginalFamily(QueryFamily):
    """All cells of all tables over k columns; a query is a conjunction of k equalities.

    Tables are in the order of `itertools.combinations`, cells of a table with its last column
    running fastest. Sums share their partial sums: all 1760 cells of 3-way marginals over 12 bits
    take about a millisecond.

    Args:
      way: k, 1 .. the number of columns.
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
