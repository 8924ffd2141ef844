"""Many symbols side by side, as events look at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CHUNK_BITS = 1 << 24  # unpacked at a time: bounds memory, changes no count


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """The symbols of n reports.

    Args:
      lengths: shape (n,).
      matrix: shape (n, width), uint8; shorter symbols are filled up with zeros.
    """

    raw: Sequence[bytes]
    lengths: NDArray[np.int64]
    matrix: NDArray[np.uint8]

    @classmethod
    def of(cls, raw: Sequence[bytes], width: int) -> Symbols:
        """Put the symbols side by side in `width` bytes, at least 1 and the longest one's."""
        lengths = np.fromiter(map(len, raw), dtype=np.int64, count=len(raw))
        joined = b"".join(symbol.ljust(width, b"\0") for symbol in raw)
        return cls(raw, lengths, np.frombuffer(joined, np.uint8).reshape(len(raw), width))

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def width(self) -> int:
        """Bytes a row."""
        return int(self.matrix.shape[1])

    def halves(self) -> tuple[Symbols, Symbols]:
        """Return the first half, to learn events from, and the rest, to test them on."""
        middle = len(self) // 2
        return self._rows(slice(0, middle)), self._rows(slice(middle, None))

    def chunks(self) -> Iterator[NDArray[np.uint8]]:
        """Generate the rows, some at a time."""
        step = max(1, _CHUNK_BITS // max(1, 8 * self.width))
        for start in range(0, len(self), step):
            yield self.matrix[start : start + step]

    def bit_chunks(self) -> Iterator[NDArray[np.uint8]]:
        """Generate the rows' bits, shape (rows, 8 width), the greatest bit of a byte first."""
        for rows in self.chunks():
            yield np.unpackbits(rows, axis=1)

    def bit_counts(self) -> NDArray[np.int64]:
        """Count the symbols that have each bit set, shape (8 width,)."""
        counts = np.zeros(8 * self.width, dtype=np.int64)
        for bits in self.bit_chunks():
            counts += bits.sum(axis=0, dtype=np.int64)
        return counts

    def _rows(self, which: slice) -> Symbols:
        return Symbols(self.raw[which], self.lengths[which], self.matrix[which])
