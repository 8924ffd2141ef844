"""Columns of generated records: random words by ordinal, and their packing into fields."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import EncodedColumns
from askance_aggregator.queries.columns import ColumnValue
from askance_client.queries import Schema
from askance_client.queries.fields import ValueType
from askance_simulation.randomness import Seed, keystream


def draws(seed: Seed, start: int, stop: int, words: int) -> NDArray[np.uint64]:
    """Draw words for users start .. stop-1, shape (stop - start, words), by random access."""
    stream = keystream(seed.key[:16], start * words, (stop - start) * words)
    return stream.reshape(-1, words)


def below(words: NDArray[np.uint64], chance: Fraction) -> NDArray[np.bool_]:
    """Return which uniform words are below `chance`, exact to 2^-64."""
    # The result is monotone: a word that is below one chance is below any greater one.
    threshold = round(chance * (1 << 64))
    if threshold == 0:
        return np.zeros(words.shape, np.bool_)
    return words <= np.uint64(threshold - 1)  # the threshold itself may be 2^64


def columns_of(values: Mapping[str, ColumnValue]) -> EncodedColumns:
    """Wrap generated columns, which are on the grid already and complete."""
    first = next(iter(values.values()))
    rows = len(first[0] if isinstance(first, tuple) else first)
    return EncodedColumns(values, {name: np.broadcast_to(np.True_, rows) for name in values}, rows)


def narrowed(schema: Schema, people: EncodedColumns) -> EncodedColumns:
    """Narrow columns that are kept in memory to the fewest bytes that each field's bounds allow."""
    # Ages take one byte per user and not eight: less to hold, and less to read in every round.
    # Fields of bits stay as they are, 32 to a word. That all users have a field takes one byte in
    # all.
    values: dict[str, ColumnValue] = {}
    for name, column in people.values.items():
        if not isinstance(column, tuple):
            column = column.astype(narrowest(schema.fields[name].type))
            column.setflags(write=False)
        values[name] = column
    present = {
        name: np.broadcast_to(np.True_, people.rows) if column.all() else column
        for name, column in people.present.items()
    }
    return EncodedColumns(values, present, people.rows)


def narrowest(kind: ValueType) -> np.dtype[np.signedinteger[Any]]:
    """Return the type of the fewest bytes that holds all integers between a field's bounds."""
    for width in (np.int8, np.int16, np.int32):
        ends = np.iinfo(width)
        if ends.min <= kind.low and kind.high <= ends.max:
            return np.dtype(width)
    return np.dtype(np.int64)


def words_of_bits(words: NDArray[np.uint64], width: int) -> tuple[NDArray[np.int64], ...]:
    """Pack `width` bits of each user as the 32-bit words of a `Bits(width)` field.

    `words` has shape (n, >= ceil(width / 64)); its bits are used from the lowest up.
    """
    halves = []
    for place in range(0, width, 32):
        half = (words[:, place // 64] >> np.uint64(place % 64)) & np.uint64(0xFFFFFFFF)
        kept = min(32, width - place)
        halves.append((half & np.uint64((1 << kept) - 1)).astype(np.int64))
    return tuple(halves)


def parity_of(words: tuple[NDArray[np.int64], ...], mask: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute <mask, x> mod 2 of each user, from a `Bits` field's words and the mask's."""
    folded = np.zeros_like(words[0])
    for word, kept in zip(words, mask, strict=True):
        folded ^= word & kept
    for shift in (16, 8, 4, 2, 1):
        folded ^= folded >> shift
    return folded & 1


def weighted(columns: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of weights times columns, shape (n,), added up from the first column on."""
    # Not a matrix product: that adds in an order that depends on the machine and on n, and a record
    # is to be the same in a chunk of any size.
    total: NDArray[np.float64] = columns[:, 0] * weights[0]
    for j in range(1, len(weights)):
        total += columns[:, j] * weights[j]
    return total


_BITS = 16  # leading bits of a word that the guide is looked up by
_DOWN = np.uint64(64 - _BITS)
_REST = np.uint64((1 << (64 - _BITS)) - 1)

Places = NDArray[np.signedinteger[Any]]


class GuidedEdges:
    """Sorted edges, searched for many uniform words at once.

    The leading bits of a word decide nearly always; the words that share them with an edge are
    searched one by one.

    Args:
        edges: uint64, not decreasing; shape (n,), n below 2^31.
    """

    def __init__(self, edges: NDArray[np.uint64]) -> None:
        starts = np.arange(1 << _BITS, dtype=np.uint64) << _DOWN
        first, last = (edges.searchsorted(ends, side="right") for ends in (starts, starts | _REST))
        self._edges = edges
        self._guide: Places = first.astype(np.int16 if len(edges) < 1 << 14 else np.int32)
        self._shared = first != last

    def places(self, words: NDArray[np.uint64]) -> Places:
        """Return the number of edges at or below each word, shape (n,); twice it fits the type."""
        leading = (words >> _DOWN).astype(np.intp)
        found = self._guide[leading]
        rows = np.flatnonzero(self._shared[leading])
        found[rows] = self._edges.searchsorted(words[rows], side="right")
        return found
