"""Events in a serialised symbol, and the choice of those that best distinguish two records.

An event is fixed before the reports are looked at that it is counted in: candidates are counted in
one half of the reports, the most informative of each kind are tested on the other half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_simulation.audit.bounds import losses_at_least

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


_BEST_OF_A_KIND = 2
_RANKING_ALPHA = 0.01  # a rare event has to be seen a few times before it outranks a common one


class Event(Protocol):
    """Something that a symbol shows or does not show."""

    @property
    def name(self) -> str:
        """Text of the event, for readers."""
        ...

    def count(self, symbols: Symbols) -> int:
        """Count the symbols in which the event happens."""
        ...


@dataclass(frozen=True, slots=True)
class SymbolIs:
    """The symbol is exactly this."""

    value: bytes

    @property
    def name(self) -> str:
        """The symbol, or how it begins."""
        shown = self.value.hex()
        return f"symbol = {shown if len(shown) <= 32 else shown[:32] + '...'}"

    def count(self, symbols: Symbols) -> int:
        """Count by comparing bytes."""
        return sum(symbol == self.value for symbol in symbols.raw)


@dataclass(frozen=True, slots=True)
class ByteIs:
    """Event: one byte of the symbol has this value."""

    position: int
    value: int

    @property
    def name(self) -> str:
        """Position and value."""
        return f"byte {self.position} = {self.value}"

    def count(self, symbols: Symbols) -> int:
        """Count down one column."""
        return int(np.count_nonzero(symbols.matrix[:, self.position] == self.value))


@dataclass(frozen=True, slots=True)
class BitIs:
    """Event: one bit of the symbol has this value; in a bitmap, a cell is in the report."""

    position: int
    value: int

    @property
    def name(self) -> str:
        """Position and value."""
        return f"bit {self.position} = {self.value}"

    def count(self, symbols: Symbols) -> int:
        """Count down one column."""
        column = symbols.matrix[:, self.position // 8] >> (7 - self.position % 8) & 1
        return int(np.count_nonzero(column == self.value))


@dataclass(frozen=True, slots=True)
class FirstBitIs:
    """The first bit that is set is this one; one past the last where none is."""

    position: int

    @property
    def name(self) -> str:
        """The position."""
        return f"first set bit = {self.position}"

    def count(self, symbols: Symbols) -> int:
        """Count by the counts of all first bits."""
        counts = _first_bits(symbols)
        return int(counts[self.position])


@dataclass(frozen=True, slots=True)
class LengthIs:
    """Event that the symbol has that many bytes."""

    length: int

    @property
    def name(self) -> str:
        """The length."""
        return f"length = {self.length}"

    def count(self, symbols: Symbols) -> int:
        """Count by the lengths."""
        return int(np.count_nonzero(symbols.lengths == self.length))


Counts = NDArray[np.int64]
Make = Callable[[int], Event]
Kind = Callable[[Symbols, Symbols], tuple[Counts, Counts, Make]]


def candidates(first: Symbols, second: Symbols) -> list[Event]:
    """Return the events that are likelier under the first than under the second, by these reports.

    Returns:
      At most two of each kind.
    """
    found: list[Event] = []
    for kind in (_symbols, _bytes, _bits, _first, _lengths):
        here, there, make = kind(first, second)
        scores = losses_at_least(here, there, (len(first), len(second)), _RANKING_ALPHA)
        scores[
            (here == len(first)) & (there == len(second))
        ] = -np.inf  # always true: no information
        best = np.argsort(-scores, kind="stable")[:_BEST_OF_A_KIND]
        found += [make(int(index)) for index in best if scores[index] > -np.inf]
    return found


def _symbols(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    here, there = Counter(first.raw), Counter(second.raw)
    seen = sorted(here)
    columns = (
        np.array([counter[symbol] for symbol in seen], dtype=np.int64) for counter in (here, there)
    )
    return (*columns, lambda index: SymbolIs(seen[index]))  # type: ignore[return-value]  # two


def _bytes(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    return _values(first), _values(second), lambda index: ByteIs(index // 256, index % 256)


def _values(symbols: Symbols) -> Counts:
    width = symbols.width
    counts = np.zeros(width * 256, dtype=np.int64)
    places = np.arange(width, dtype=np.int64) * 256
    for rows in symbols.chunks():
        counts += np.bincount((rows + places).ravel(), minlength=width * 256)
    return counts


def _bits(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    bits = 8 * first.width
    here, there = (
        np.concatenate((len(symbols) - ones, ones))
        for symbols in (first, second)
        for ones in (symbols.bit_counts(),)
    )
    return here, there, lambda index: BitIs(index % bits, index // bits)


def _first(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    return _first_bits(first), _first_bits(second), FirstBitIs


def _first_bits(symbols: Symbols) -> Counts:
    last = 8 * symbols.width
    counts = np.zeros(last + 1, dtype=np.int64)
    for bits in symbols.bit_chunks():
        ended = np.column_stack((bits, np.ones(len(bits), dtype=np.uint8)))
        counts += np.bincount(ended.argmax(axis=1), minlength=last + 1)
    return counts


def _lengths(first: Symbols, second: Symbols) -> tuple[Counts, Counts, Make]:
    most = first.width + 1
    here, there = (
        np.bincount(symbols.lengths, minlength=most).astype(np.int64) for symbols in (first, second)
    )
    return here, there, LengthIs
