"""A data file under stated bounds and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import nearest_text
from askance_client.queries import Category, Schema
from askance_client.queries.exact import exact_ratio
from askance_client.queries.kinds import Kind
from askance_client.records import NOTHING, Table, is_missing

_NUMERIC = (Kind.NUMBER, Kind.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Numeric:
    """A column of numbers.

    Args:
      low, high: its stated bounds, low < high.
    """

    low: Fraction
    high: Fraction

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidParameter(f"bounds: expected low < high, got {self.low} and {self.high}")

    @property
    def is_bit(self) -> bool:
        """Return whether the column holds 0 and 1 only."""
        return self.low == 0 and self.high == 1


@dataclass(frozen=True, slots=True)
class Labelled:
    """A column of labels."""

    labels: tuple[str, ...]  # the stated ones, two or more

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels) or len(self.labels) < 2:
            raise InvalidParameter(
                f"labels: expected two or more different ones, got {'|'.join(self.labels)!r:.80}"
            )


Column = Numeric | Labelled


def _described(kind: Column) -> str:
    # No value is shown: bounds and labels that are taken from the data are records' values.
    return "bounds" if isinstance(kind, Numeric) else f"{len(kind.labels)} labels"


@dataclass(frozen=True, slots=True)
class DataTable:
    """People, one a row, and what is known of their columns beforehand.

    Args:
      columns: by name; columns of the file that are not here are not used.
      clip: whether a number outside its bounds is moved to the nearer one; else it is an error.
    """

    people: Table
    columns: Mapping[str, Column]
    label: str | None
    clip: bool

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.people.rows)

    def numeric(self, name: str) -> Numeric:
        """Return the bounds of a column of numbers."""
        kind = self._kind(name)
        if not isinstance(kind, Numeric):
            raise InvalidParameter(f"column {name!r}: expected bounds of a number, got labels")
        return kind

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column of numbers within its bounds, shape (n,)."""
        kind = self.numeric(name)
        place = self.people.column_index(name)
        values = np.array([_float(row[place]) for row in self.people.rows])
        unread = np.flatnonzero(np.isnan(values))
        if unread.size:
            raise InvalidRecord(
                f"column {name!r}: expected a number, found something else in {unread.size} rows,"
                f" row {unread[0] + 1} the first"
            )
        low, high = float(kind.low), float(kind.high)
        if self.clip:
            return np.asarray(np.clip(values, low, high), dtype=np.float64)
        outside = np.flatnonzero((values < low) | (values > high))
        if outside.size:
            raise InvalidRecord(
                f"column {name!r}: expected values in {low:g} .. {high:g}, found another in"
                f" {outside.size} rows, row {outside[0] + 1} the first (--outside clip moves"
                " them to the bounds)"
            )
        return values

    def codes(self, name: str) -> NDArray[np.int64]:
        """Return a column of labels as their numbers, shape (n,)."""
        kind = self._kind(name)
        if not isinstance(kind, Labelled):
            raise InvalidParameter(f"column {name!r}: expected labels, got bounds of a number")
        return self._codes(name, kind)

    def _codes(self, name: str, kind: Labelled) -> NDArray[np.int64]:
        place, known = self.people.column_index(name), Category(kind.labels)
        found = []
        for row, cells in enumerate(self.people.rows, start=1):
            code = known.encode(NOTHING if is_missing(cells[place]) else cells[place])
            if code is None:
                raise InvalidRecord(
                    f"column {name!r}: expected one of {len(kind.labels)} stated labels, found"
                    f" another at row {row}"
                )
            found.append(code)
        return np.array(found, dtype=np.int64)

    def features(self) -> tuple[tuple[str, ...], tuple[Numeric, ...], NDArray[np.float64]]:
        """Return (names, bounds, x of shape (n, features)): all columns but the label."""
        names: list[str] = []
        bounds: list[Numeric] = []
        found: list[NDArray[np.float64]] = []
        for name, kind in self.columns.items():
            if name == self.label:
                continue
            if isinstance(kind, Numeric):
                names.append(name)
                bounds.append(kind)
                found.append(self.numbers(name))
                continue
            codes = self.codes(name)
            for code, text in enumerate(kind.labels):
                names.append(f"{name}={text}")
                bounds.append(Numeric(Fraction(0), Fraction(1)))
                found.append((codes == code).astype(np.float64))
        if not found:
            raise InvalidParameter(
                "columns: expected one or more beside the label, with bounds or labels, got none"
            )
        return tuple(names), tuple(bounds), np.stack(found, axis=1)

    def classes(self) -> tuple[str, str]:
        """Return the label's two values, the second the positive one."""
        if self.label is None:
            raise InvalidParameter("label: expected --label COLUMN, got none")
        kind = self._kind(self.label)
        if isinstance(kind, Numeric) and kind.is_bit:
            return "0", "1"
        if not isinstance(kind, Labelled) or len(kind.labels) != 2:
            raise InvalidParameter(
                f"label {self.label!r}: expected two stated labels (--labels 'COLUMN:NO|YES'),"
                f" got {_described(kind)}"
            )
        return kind.labels[0], kind.labels[1]

    def positive(self) -> NDArray[np.bool_]:
        """Return which records have the second class, shape (n,)."""
        name, kind = str(self.label), Labelled(self.classes())
        return np.asarray(self._codes(name, kind) == 1)

    def _kind(self, name: str) -> Column:
        if name not in self.columns:
            known = ", ".join(self.columns) or "none"
            raise InvalidParameter(
                f"column {name!r}: expected bounds or labels stated for it (by --schema,"
                f" --bounds '{name}:LOW:HIGH' or --labels '{name}:A|B'), found them for {known}"
                + nearest_text(name, self.columns)
            )
        return self.columns[name]


def _float(cell: object) -> float:
    """Parse a cell's number: infinite if a float cannot be so large; NaN if there is none."""
    ratio = exact_ratio(cell)
    if ratio is None:
        return nan
    try:
        return ratio[0] / ratio[1]
    except OverflowError:
        return inf if ratio[0] > 0 else -inf


def columns_of(schema: Schema) -> dict[str, Column]:
    """Return a schema's columns, without vectors of bits and categories of one label."""
    found: dict[str, Column] = {}
    for name, kind in schema.fields.items():
        known = kind.type
        if known.kind in _NUMERIC and known.low < known.high:
            scale = 1 << known.frac
            found[name] = Numeric(Fraction(known.low, scale), Fraction(known.high, scale))
        elif isinstance(kind, Category) and len(kind.labels) > 1:
            found[name] = Labelled(kind.labels)
    return found
