"""Finite universes and data as histograms over them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_client.errors import InvalidParameter, InvalidRecord

MAX_CELLS = 1 << 16
_MAX_COLUMNS = 32  # a table over all of them is an array, and numpy's have at most this many axes
_MAX_ROWS = 1 << 31  # counts times a query's scale stay exact in a float64


@dataclass(frozen=True, slots=True)
class Universe:
    """All the records there can be: the Cartesian product of columns of codes 0 .. size-1.

    A cell is a record; cells are numbered with the last column running fastest.

    Args:
      sizes: how many codes each column has; a bit has 2.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes:
            raise InvalidParameter("universe: expected at least one column, got none")
        if len(self.sizes) > _MAX_COLUMNS:
            raise InvalidParameter(
                f"universe: expected at most {_MAX_COLUMNS} columns, found {len(self.sizes)}"
            )
        for column, size in enumerate(self.sizes):
            if isinstance(size, bool) or not isinstance(size, int):
                raise InvalidParameter(
                    f"universe, column {column}: expected a whole number of codes, found"
                    f" {type(size).__name__}"
                )
            if size < 1:
                raise InvalidParameter(
                    f"universe, column {column}: expected 1 code or more, found {size}"
                )
        if self.cells > MAX_CELLS:
            raise InvalidParameter(
                f"universe: expected at most {MAX_CELLS} cells, found {self.cells}"
            )

    @classmethod
    def of_bits(cls, bits: int) -> Universe:
        """Return the universe of this many bits."""
        return cls((2,) * bits)

    @property
    def cells(self) -> int:
        """Number of different records, |X|."""
        return prod(self.sizes)

    def codes(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The records of these cells, shape (len(cells), columns)."""
        return np.stack(np.unravel_index(cells, self.sizes), axis=1).astype(np.int64)

    def every_code(self) -> NDArray[np.int64]:
        """All records in the order of the cells, shape (cells, columns)."""
        return self.codes(np.arange(self.cells))


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """A data set without its order: how often each cell occurs. n is public.

    Args:
      counts: shape (cells,), whole numbers of 0 or more that sum to n >= 1.
    """

    universe: Universe
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.counts.shape != (self.universe.cells,) or self.counts.dtype != np.int64:
            raise InvalidRecord(
                f"histogram: expected {self.universe.cells} whole numbers, found "
                f"{self.counts.dtype} of shape {self.counts.shape}"
            )
        if (self.counts < 0).any():
            cell = int(np.flatnonzero(self.counts < 0)[0])
            raise InvalidRecord(f"histogram, cell {cell}: expected 0 or more, found less")
        if not 1 <= self.n < _MAX_ROWS:
            raise InvalidRecord(f"histogram: expected 1 .. 2^31-1 records, found {self.n}")

    @classmethod
    def of(cls, universe: Universe, table: ArrayLike) -> Histogram:
        """The histogram of a table of codes, shape (n, columns), each a code of its column."""
        codes = np.asarray(table)
        columns = len(universe.sizes)
        if codes.ndim != 2 or codes.shape[1] != columns or not codes.shape[0]:
            raise InvalidRecord(
                f"table: expected rows of {columns} columns, found shape {codes.shape}"
            )
        if codes.dtype.kind not in "biu":
            raise InvalidRecord(f"table: expected whole numbers, found {codes.dtype}")
        outside = (codes < 0) | (codes >= np.array(universe.sizes))
        if outside.any():
            row, column = (int(place) for place in np.argwhere(outside)[0])
            raise InvalidRecord(
                f"table, row {row}, column {column}: expected a code 0 .. "
                f"{universe.sizes[column] - 1}, found another"
            )
        cells = np.ravel_multi_index(tuple(codes.astype(np.int64).T), universe.sizes)
        return cls(universe, np.bincount(cells, minlength=universe.cells).astype(np.int64))

    @property
    def n(self) -> int:
        """Number of records."""
        return int(self.counts.sum())
