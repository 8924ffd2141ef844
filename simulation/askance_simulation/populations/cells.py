"""Columns of a source by their different cells: what a schema is inferred from.

`TextCells` has the number of rows of every different text or truth value. `NumberCells`, of a
column whose type says that it holds numbers, has bounds and counts as arrays, in memory that does
not grow with the rows: beyond 2^20 different values it keeps those with a certain hash, with all
their rows, so that the share of different values is known to about one in a thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import isfinite, isnan, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.numbers import plain
from askance_client.errors import InvalidRecord
from askance_client.queries.exact import exact_ratio
from askance_client.queries.fields import NEVER_LABELS
from askance_client.records import is_missing

Cell = str | bool | None
Numbers = NDArray[Any]

MOST_TEXTS = 1 << 17
"""Different texts of a column that are kept: twice as many as a category may have."""
MOST_NUMBERS = 1 << 20
"""Different numbers of a column that are kept."""
SLICE = 1 << 17
"""Rows that are counted at once: what is computed of them stays small, and in the cache."""
_NO_VALUES = ("NAType", "NaTType", "MaskedConstant")  # names of types that stand for none
_TOGETHER = 1 << 12  # rows that are turned into columns at once, while they are in the cache
_UNEVEN = 0.1  # distance from the uniform law: that of a bell is about 0.2
_BY_CHANCE = 1.4  # over the root of the values: the distance of numbers drawn from that law
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, slots=True)
class NumberEnds:
    """Least and greatest number of a column, and whether all are whole."""

    low: Fraction
    high: Fraction
    whole: bool


class ColumnCells(Protocol):
    """Cells of a column, by which a field is inferred; here of one without any value."""

    @property
    def total(self) -> int:
        """Number of rows with a value."""
        return 0

    @property
    def some_missing(self) -> bool:
        """True if a row has none."""
        return False

    @property
    def missing_texts(self) -> Mapping[str, int]:
        """Number of rows by text that stands for no value where it is no label; but not "" or "?".

        Of a column of floats: those of infinity.
        """
        return {}

    @property
    def distinct(self) -> int:
        """Number of different values."""
        return 0

    @property
    def share(self) -> Fraction:
        """Number of different values over that of rows with one; 0 where there is none."""
        return Fraction(0)

    @property
    def evenly(self) -> bool:
        """True if the different values, all of them numbers, lie evenly between their ends."""
        return False

    @property
    def truths(self) -> bool:
        """True if there are values, and all are truth values."""
        return False

    def texts(self) -> list[str]:
        """Return the different values as texts, sorted."""
        return []

    def ends(self) -> NumberEnds | None:
        """Return the ends of a column of numbers; None: a value is none, or there is none."""
        return None


@dataclass(frozen=True)
class UnreadCells(ColumnCells):
    """Cells of a column that holds neither numbers, truth values, texts nor times."""

    why: str  # what the column holds, for the reader of a result

    def texts(self) -> list[str]:
        raise InvalidRecord(f"label: expected a column of labels, got {self.why}")


class TextCells(ColumnCells):
    """Cells of a column by their text.

    Args:
      counts: number of rows by cell.
      firsts: returns the first row by cell, from 0.
      cut: there were more different cells than `MOST_TEXTS`, and the others are counted in
        `others` only.
      others: number of rows of those.
      labels: texts that the source declares as labels: they are values, "NA" too.
    """

    def __init__(
        self,
        counts: Mapping[Cell, int],
        firsts: Callable[[], Mapping[Cell, int]],
        *,
        cut: bool = False,
        others: int = 0,
        labels: Collection[str] = (),
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._labels = frozenset(labels)
        for cell, count in counts.items():
            if not self._is_missing(cell):
                self.counts[str(cell)] += count
        self._cells = counts
        self._firsts = firsts
        self.cut = cut
        self._others = others

    @classmethod
    def of(cls, column: TextBlock) -> TextCells:
        """Count the cells of a whole column."""
        return cls(column.counts, lambda: column.firsts)

    @property
    def total(self) -> int:
        return self.counts.total() + self._others

    @property
    def rows(self) -> int:
        """Number of rows, with those that have no value."""
        return sum(self._cells.values()) + self._others

    @property
    def some_missing(self) -> bool:
        return any(map(self._is_missing, self._cells))

    @property
    def missing_texts(self) -> Mapping[str, int]:
        return {
            cell: count
            for cell, count in self._cells.items()
            if isinstance(cell, str) and cell.strip() not in NEVER_LABELS and self._is_missing(cell)
        }

    @property
    def distinct(self) -> int:
        return len(self.counts)

    @property
    def share(self) -> Fraction:
        return Fraction(self.distinct, max(self.total, 1))

    @property
    def truths(self) -> bool:
        given = [cell for cell in self._cells if not self._is_missing(cell)]
        return bool(given) and all(isinstance(cell, bool) for cell in given)

    @property
    def evenly(self) -> bool:
        return evenly_spread(np.array([float(text) for text in self.counts]))

    def texts(self) -> list[str]:
        return sorted(self.counts)

    def _is_missing(self, cell: Cell) -> bool:
        return is_missing(cell) and cell not in self._labels

    def ends(self) -> NumberEnds | None:
        return self._ends

    @cached_property
    def _ends(self) -> NumberEnds | None:
        ratios = [exact_ratio(text) for text in self.counts]
        numbers = [ratio for ratio in ratios if ratio is not None]
        if not numbers or self.cut or len(numbers) < len(ratios):
            return None
        low, high = _ends(numbers)
        return NumberEnds(low, high, all(denominator == 1 for _, denominator in numbers))

    def first(self, found: Collection[str]) -> int:
        """Return the first row, from 1, that has one of these texts."""
        rows = self._firsts()
        return 1 + min(row for cell, row in rows.items() if str(cell) in found)


class NumberCells(ColumnCells):
    """Cells of a column of whole numbers or floats, put together block by block.

    Args:
      counted: count the different values even where a number is not whole.
    """

    def __init__(self, texts_of: Callable[[Numbers], list[str]], *, counted: bool = False) -> None:
        self._texts_of = texts_of
        self._counted = counted
        self._low: Any = None
        self._high: Any = None
        self._whole = True
        self._total = 0
        self._missing = 0
        self._infinite: Counter[str] = Counter()
        self._values: Numbers = np.empty(0)
        self._rows: NDArray[np.int64] = np.empty(0, np.int64)
        self._level = 0

    def block(self, values: Numbers, missing: int, infinite: Mapping[str, int]) -> NumberBlock:
        """Summarize a block's values; to be added by `add`, in any order."""
        if not len(values):
            none = np.empty(0, np.int64)
            return NumberBlock(missing, infinite, 0, None, None, True, values, none)
        low, high = values.min(), values.max()
        whole = values.dtype.kind != "f" or (
            self._whole and bool((values == np.rint(values)).all())
        )
        distinct, rows = values[:0], np.empty(0, np.int64)
        if whole or self._counted:
            distinct, rows = _counted(self._sampled(values), low, high)
        return NumberBlock(missing, infinite, len(values), low, high, whole, distinct, rows)

    def add(self, block: NumberBlock) -> None:
        """Add a block that `block` has summarized."""
        self._missing += block.missing
        self._infinite.update(block.infinite)
        self._total += block.total
        if not block.total:
            return
        self._low = block.low if self._low is None else min(self._low, block.low)
        self._high = block.high if self._high is None else max(self._high, block.high)
        self._whole &= block.whole
        if not (self._whole or self._counted):
            self._values, self._rows = self._values[:0], self._rows[:0]
            return
        values, rows = block.values, block.rows
        if len(self._values):
            kept = self._kept(values)
            both = np.concatenate([self._values, values[kept]])
            values, inverse = np.unique(both, return_inverse=True)
            weights = np.concatenate([self._rows, rows[kept]])
            rows = np.bincount(inverse, weights, len(values)).astype(np.int64)
        self._values, self._rows = values, rows
        while len(self._values) > MOST_NUMBERS:
            self._level += 1
            kept = self._kept(self._values)
            self._values, self._rows = self._values[kept], self._rows[kept]

    @property
    def total(self) -> int:
        return self._total

    @property
    def some_missing(self) -> bool:
        return self._missing > 0

    @property
    def missing_texts(self) -> Mapping[str, int]:
        return self._infinite

    @property
    def distinct(self) -> int:
        """The number of different values, but 2 for numbers that are not whole, and not counted."""
        if self._total and not len(self._values):
            return 1 if self._low == self._high else 2
        return len(self._values) << self._level

    @property
    def share(self) -> Fraction:
        return Fraction(len(self._values), max(int(self._rows.sum()), 1))

    @property
    def evenly(self) -> bool:
        return evenly_spread(self._values.astype(np.float64))

    def texts(self) -> list[str]:
        return sorted(self._texts_of(self._values))

    def ends(self) -> NumberEnds | None:
        if not self._total:
            return None
        low, high = map(exact_ratio, self._texts_of(np.array([self._low, self._high])))
        if low is None or high is None:  # a text that is too long
            return None
        return NumberEnds(Fraction(*low), Fraction(*high), self._whole)

    def _sampled(self, values: Numbers) -> Numbers:
        return values[self._kept(values)] if self._level else values

    def _kept(self, values: Numbers) -> NDArray[np.bool_]:
        """Return which values have a hash that ends in as many zeros as the level says."""
        if not self._level:
            return np.ones(len(values), np.bool_)
        with np.errstate(invalid="ignore"):  # floats beyond all integers
            mixed = values.astype(np.int64).view(np.uint64)
        for factor in _MIX:
            mixed = (mixed ^ (mixed >> np.uint64(31))) * factor  # modulo 2^64, as is meant
        mixed ^= mixed >> np.uint64(31)
        kept: NDArray[np.bool_] = (mixed & np.uint64((1 << self._level) - 1)) == 0
        return kept


@dataclass(frozen=True, slots=True, eq=False)
class NumberBlock:
    """Summary of a block of numbers, with the rows of each different value that is counted."""

    missing: int  # rows without a finite number
    infinite: Mapping[str, int]  # of these, those of each infinity by its text
    total: int
    low: Any
    high: Any
    whole: bool
    values: Numbers
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Rows by cell of a block of texts.

    Args:
      cells: the different cells that a place may stand for, in which one may come twice.
      places: of each row's cell, shape (rows,).
    """

    cells: Sequence[Cell]
    places: NDArray[np.signedinteger[Any]]

    @cached_property
    def counts(self) -> dict[Cell, int]:
        """Number of rows by cell, without cells of no row."""
        found: Counter[Cell] = Counter()
        rows = np.zeros(len(self.cells), np.int64)
        for start in range(0, len(self.places), SLICE):
            rows += np.bincount(self.places[start : start + SLICE], minlength=len(self.cells))
        for cell, count in zip(self.cells, rows.tolist(), strict=True):
            if count:
                found[cell] += count
        return found

    @cached_property
    def firsts(self) -> dict[Cell, int]:
        """First row by cell."""
        first = np.full(len(self.cells), len(self.places))
        first[self.places[::-1]] = np.arange(len(self.places) - 1, -1, -1)
        rows: dict[Cell, int] = {}
        for cell, row in zip(self.cells, first.tolist(), strict=True):
            rows[cell] = min(row, rows.get(cell, row))
        return rows


class _Places(dict[Cell, int]):
    """Place of each cell, in the order in which they are asked for."""

    def __missing__(self, cell: Cell) -> int:
        place = self[cell] = len(self)
        return place


class CellRows:
    """Rows of raw cells that are kept by columns, in which a repeated cell is kept once."""

    def __init__(self, rows: Iterable[Sequence[Any]] = ()) -> None:
        self._rows = 0
        self._latest: list[Sequence[Any]] = []
        self._cells: list[_Places] = []
        self._places: list[list[NDArray[np.int32]]] = []
        for row in rows:
            self.append(row)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> list[Cell]:
        """Return a row by its number from 0."""
        return [column.cells[column.places[number]] for column in self.columns()]

    def append(self, row: Sequence[Any], /) -> None:
        """Add a row, of as many cells as the others."""
        self._latest.append(row)
        self._rows += 1
        if len(self._latest) >= _TOGETHER:
            self._settle()

    def columns(self) -> list[TextBlock]:
        """Return the columns."""
        self._settle()
        return [
            TextBlock(list(cells), np.concatenate(places))
            for cells, places in zip(self._cells, self._places, strict=True)
        ]

    def _settle(self) -> None:
        rows, self._latest = self._latest, []
        for number, column in enumerate(zip(*rows, strict=True)):
            if number == len(self._cells):
                self._cells.append(_Places())
                self._places.append([])
            places = map(self._cells[number].__getitem__, column)
            self._places[number].append(np.fromiter(places, np.int32, len(rows)))


class TextCounts:
    """Cells of a column of texts, put together block by block, in order."""

    def __init__(self) -> None:
        self._counts: dict[Cell, int] = {}
        self._rows: dict[Cell, int] = {}
        self._others = 0

    def prepare(self, block: TextBlock) -> None:
        """Compute what `add` will need of a block; may be called by any thread."""
        if len(self._counts) < MOST_TEXTS and any(
            cell not in self._counts for cell in block.counts
        ):
            _ = block.firsts

    def add(self, block: TextBlock, start: int) -> None:
        """Add the next block, whose first row is row `start`."""
        new = [cell for cell in block.counts if cell not in self._counts]
        kept = set(new[: max(MOST_TEXTS - len(self._counts), 0)])
        if kept:
            self._rows |= {cell: start + block.firsts[cell] for cell in kept}
        for cell, count in block.counts.items():
            if cell in self._counts or cell in kept:
                self._counts[cell] = self._counts.get(cell, 0) + count
            else:
                self._others += count

    def cells(self, labels: Collection[str] = ()) -> TextCells:
        """Return the cells of the column, which declares these labels."""
        cut, others = self._others > 0, self._others
        return TextCells(self._counts, lambda: self._rows, cut=cut, others=others, labels=labels)


def cells_of_objects(values: Iterable[Any]) -> list[Cell] | str:
    """Return the cells of Python's objects: truth values, or texts as a CSV file has them.

    None, NaN, and what stands for no value in pandas are missing. A column of truth values and
    others is of texts.

    Returns:
      The cells; or what else the values are, by their types, and no value of them.
    """
    cells: list[Cell] = []
    others: dict[str, None] = {}
    for value in values:
        plain_value = plain(value)
        if value is None or type(value).__name__ in _NO_VALUES:
            cells.append(None)
        elif isinstance(plain_value, bool | str):
            cells.append(plain_value)
        elif isinstance(plain_value, int | float | Decimal | Fraction | date | time):
            cells.append(_text(plain_value))
        else:
            others[type(value).__name__] = None
    if others:
        return f"values of the type {' and '.join(list(others)[:3])}"
    if any(isinstance(cell, str) for cell in cells):
        cells = [None if cell is None else str(cell) for cell in cells]
    if not all(cell is None or isinstance(cell, bool) or _is_unicode(cell) for cell in cells):
        return "text that is not Unicode"
    return cells


def _text(value: float | Decimal | Fraction | date | time) -> str | None:
    if isinstance(value, float | Decimal) and not isfinite(value):
        return None if isnan(value) else str(value)
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53
    return str(int(value) if whole else value)  # type: ignore[arg-type]  # whole: a float


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def evenly_spread(values: NDArray[np.float64]) -> bool:
    """Return whether values lie evenly between their ends, as counted or drawn numbers do."""
    # Amounts and measurements are denser in some places, so that few users may well differ in all.
    ordered = np.sort(values)
    places = (ordered - ordered[0]) / (ordered[-1] - ordered[0])
    ranks = np.arange(len(ordered)) / (len(ordered) - 1)
    return float(np.abs(places - ranks).max()) <= max(_UNEVEN, _BY_CHANCE / sqrt(len(ordered)))


def _counted(values: Numbers, low: Any, high: Any) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the different values, in order, and the rows of each."""
    if values.dtype.kind != "f" and int(high) - int(low) < min(2 * MOST_NUMBERS, 4 * len(values)):
        wide = values if values.itemsize == 8 else values.astype(np.int64)
        rows = np.bincount((wide - wide.dtype.type(low)).astype(np.int64, copy=False))
        found = np.flatnonzero(rows)
        return found.astype(wide.dtype) + wide.dtype.type(low), rows[found]
    distinct, rows = np.unique(values, return_counts=True)
    return distinct, rows


def _ends(ratios: Sequence[tuple[int, int]]) -> tuple[Fraction, Fraction]:
    """Find the least and the greatest exactly; floats, which keep the order, select candidates."""
    near = [numerator / denominator for numerator, denominator in ratios]
    lows, highs = (
        [Fraction(*ratio) for ratio, place in zip(ratios, near, strict=True) if place == end]
        for end in (min(near), max(near))
    )
    return min(lows), max(highs)
