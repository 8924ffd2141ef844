"""Sets of a table's rows in a bit per row: those of the users, and those that are held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.studies import Permutation
from askance_simulation.cores import in_order

Rows = NDArray[np.int64]

_BLOCK = 1 << 16  # rows of a block, whose first place is known
_PIECE = 1 << 18  # rows that are added at once


class RowSet:
    """Rows in the order of the table, by their place in it.

    Args:
      rows: number of rows of the table.
      bits: a bit per row, eight to a byte from the lowest up, and zeros after the last; None: all
        rows belong to the set.
    """

    def __init__(self, rows: int, bits: NDArray[np.uint8] | None = None) -> None:
        self._rows = rows
        self._bits = bits
        if bits is not None:
            whole = np.zeros(-(-rows // _BLOCK) * (_BLOCK // 8), np.uint8)
            whole[: len(bits)] = bits
            self._bits = whole
            counts = np.bitwise_count(whole).reshape(-1, _BLOCK // 8).sum(axis=1, dtype=np.int64)
            self._firsts = np.concatenate([[0], np.cumsum(counts)])

    def __len__(self) -> int:
        return self._rows if self._bits is None else int(self._firsts[-1])

    def rows(self, start: int, stop: int) -> slice | Rows:
        """Return the rows at places start .. stop-1."""
        if self._bits is None:
            return slice(start, stop)
        if start >= stop:
            return np.empty(0, np.int64)
        first, last = self._firsts.searchsorted([start, stop - 1], side="right") - 1
        found = self._of_blocks(int(first), int(last) + 1)
        begin = int(self._firsts[first])
        return found[start - begin : stop - begin]

    def drawn(self, permutation: Permutation, count: int) -> RowSet:
        """Return those at the first `count` positions of a permutation of the places."""
        parts = map(self._at, _positions(permutation, count))
        return RowSet(self._rows, _bits(self._rows, parts))

    def others(self) -> RowSet:
        """Return the rows of the table that are not in the set."""
        bits = np.zeros(-(-self._rows // 8), np.uint8)
        if self._bits is not None:
            bits = ~self._bits[: len(bits)]
            spare = -self._rows % 8
            bits[-1] &= 0xFF >> spare
        return RowSet(self._rows, bits)

    def _of_blocks(self, first: int, last: int) -> Rows:
        assert self._bits is not None
        width = _BLOCK // 8
        bits = np.unpackbits(self._bits[first * width : last * width], bitorder="little")
        return np.flatnonzero(bits) + first * _BLOCK

    def _at(self, places: Rows) -> Rows:
        """Return the rows at these places, which rise."""
        if self._bits is None:
            return places
        found = np.empty(len(places), np.int64)
        ends = places.searchsorted(self._firsts)
        for block in np.flatnonzero(np.diff(ends)).tolist():
            part = slice(ends[block], ends[block + 1])
            found[part] = self._of_blocks(block, block + 1)[places[part] - self._firsts[block]]
        return found


def _positions(permutation: Permutation, count: int) -> Iterator[Rows]:
    """Generate the places at the first positions of a permutation, piece by piece, each sorted."""
    starts = range(0, count, _PIECE)

    def piece(start: int) -> Rows:
        return permutation.ordinals(start, min(start + _PIECE, count))

    yield from map(piece, starts) if len(starts) < 2 else in_order(piece, starts)


def _bits(rows: int, parts: Iterable[NDArray[Any]]) -> NDArray[np.uint8]:
    """Return the bits of rows that come in parts, each sorted."""
    bits = np.zeros(-(-rows // 8), np.uint8)
    for part in parts:
        if not len(part):
            continue
        places = part >> 3
        ones = np.left_shift(np.uint8(1), (part & 7).astype(np.uint8))
        starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        bits[places[starts]] |= np.bitwise_or.reduceat(ones, starts)
    return bits
