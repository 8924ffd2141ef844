"""Linear equations over GF(2), 64 coefficients a word.

A row is an equation in d unknowns: bit c (bit c mod 64 of word c // 64) is the coefficient of
unknown c, bit d is the right-hand side, the rest is 0.

Theory of operation: the equations are gone through in blocks. What is known so far is kept in
reduced form, every pivot in one row only, so the bits that a new row has at the pivots say which
known rows it is to be reduced by: a product of bit matrices, done eight pivots at a time from a
table of their 256 sums (the method of the four Russians). What a block leaves is eliminated row by
row; that is at most d rows over all blocks, so the products are all that grows with the equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling import Words

Rows = NDArray[np.uint64]
"""Equations, shape (count, words_of(d + 1))."""

_WORD = 64
_BLOCK = 1024  # equations a block: a table serves many rows, and a block stays in the cache
_AT_ONCE = 8  # pivots a table: the bits of a byte


def words_of(bits: int) -> int:
    """Return the number of words that hold `bits` bits."""
    return -(-bits // _WORD)


def pack(bits: NDArray[np.uint8], words: int) -> Rows:
    """Zeros and ones of shape (count, width) as rows of words, shape (count, words)."""
    packed = np.zeros((len(bits), words * 8), dtype=np.uint8)
    given = np.packbits(bits, axis=1, bitorder="little")
    packed[:, : given.shape[1]] = given
    return packed.view("<u8").astype(np.uint64, copy=False)


def unpack(rows: Rows, width: int) -> NDArray[np.uint8]:
    """The first `width` bits of each row, shape (count, width)."""
    as_bytes = np.ascontiguousarray(rows).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, count=width, bitorder="little")


@dataclass(frozen=True, slots=True, eq=False)
class Solutions:
    """All solutions of a system that has one: an affine space.

    Args:
      rows: the system in reduced form, one row a pivot.
      pivots: shape (rank,): the unknown of each row, which no other row has.
      d: unknowns.
    """

    rows: Rows
    pivots: NDArray[np.int64]
    d: int

    @property
    def rank(self) -> int:
        """The independent equations; there are 2^(d - rank) solutions."""
        return len(self.pivots)

    def with_free(self, free: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """The solution whose other unknowns are these; those of the pivots follow.

        The bits of `free`, shape (words_of(d + 1),), at pivots and from d on are of no matter.

        Returns:
          Shape (d,), values {0, 1}.
        """
        solution: NDArray[np.uint8] = unpack(free[None, :], self.d)[0]
        solution[self.pivots] = 0
        # With the right-hand side among the unknowns, as a 1, a row sums to its pivot's value.
        one = np.ones(1, dtype=np.uint8)
        assigned = pack(np.concatenate([solution, one])[None, :], self.rows.shape[1])
        solution[self.pivots] = np.bitwise_count(self.rows & assigned).sum(axis=1) & 1
        return solution

    def particular(self) -> NDArray[np.uint8]:
        """The solution whose free unknowns are all 0, shape (d,)."""
        return self.with_free(np.zeros(self.rows.shape[1], dtype=np.uint64))

    def draw(self, words: Words) -> NDArray[np.uint8]:
        """A uniform solution, shape (d,): a word for every 64 unknowns, whatever the rank."""
        free = np.zeros(self.rows.shape[1], dtype=np.uint64)
        needed = words_of(self.d)
        free[:needed] = words.take(needed)
        return self.with_free(free)


def solve(rows: Rows, d: int) -> Solutions | None:
    """The solutions of these equations in d unknowns; None: they contradict each other.

    Runtime: O(count * d * d / 512) word operations, none of them in a Python loop over equations
    but for the d that raise the rank.
    """
    known = np.zeros((0, words_of(d + 1)), dtype=np.uint64)
    pivots: list[int] = []
    for start in range(0, len(rows), _BLOCK):
        left = _reduced(rows[start : start + _BLOCK], known, pivots, d)
        left = left[left.any(axis=1)]
        if not len(left):
            continue
        known = _eliminated(np.concatenate([known, left]), pivots, d)
        if d in pivots:  # 0 = 1
            return None
    return Solutions(known, np.array(pivots, dtype=np.int64), d)


def _reduced(block: Rows, known: Rows, pivots: list[int], d: int) -> Rows:
    """The block less those known rows whose pivots its rows have."""
    block = block.copy()
    if not pivots:
        return block
    chosen = np.packbits(unpack(block, d)[:, pivots], axis=1, bitorder="little")
    for group, table in enumerate(_tables(known)):
        block ^= table[chosen[:, group]]
    return block


def _tables(known: Rows) -> NDArray[np.uint64]:
    """For every eight known rows the sums of all their subsets, shape (groups, 256, words)."""
    groups = -(-len(known) // _AT_ONCE)
    padded = np.zeros((groups * _AT_ONCE, known.shape[1]), dtype=np.uint64)
    padded[: len(known)] = known
    eights = padded.reshape(groups, _AT_ONCE, known.shape[1])
    tables = np.zeros((groups, 1 << _AT_ONCE, known.shape[1]), dtype=np.uint64)
    for place in range(_AT_ONCE):
        half = 1 << place
        tables[:, half : 2 * half] = tables[:, :half] ^ eights[:, place, None]
    return tables


def _eliminated(rows: Rows, pivots: list[int], d: int) -> Rows:
    """Rows of which the first `len(pivots)` are known, in reduced form; `pivots` grows."""
    # Elimination ends early at a row that says 0 = 1; its pivot is then d.
    kept = list(range(len(pivots)))
    for place in range(len(pivots), len(rows)):
        pivot = _lowest_bit(rows[place])
        if pivot is None:
            continue
        pivots.append(pivot)
        kept.append(place)
        if pivot == d:
            break
        word, bit = divmod(pivot, _WORD)
        having = np.flatnonzero(rows[:, word] & np.uint64(1 << bit))
        rows[having[having != place]] ^= rows[place]
    return rows[kept]


def _lowest_bit(row: NDArray[np.uint64]) -> int | None:
    for word, value in enumerate(map(int, row)):
        if value:
            return word * _WORD + (value & -value).bit_length() - 1
    return None
