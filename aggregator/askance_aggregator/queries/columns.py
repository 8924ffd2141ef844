"""Columns of records on the grid: millions at a time, with the same integers as one by one.

Floats appear here only, as data on its way to the grid. Each step (scaling by a power of two,
rounding half to even, clipping at a power of two) is exact, so a column gives the integers that
`Schema.encode` gives record by record. A column that has no exact fast way (text, objects, lists of
mixed types) is encoded value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidRecord
from askance_client.queries import Bit, Bits, Category, EncodedRecord, Field, Schema
from askance_client.queries.limits import WORD
from askance_client.queries.schema import filler, refuse_unknown

T = TypeVar("T")
Words = tuple[NDArray[np.int64], ...]
ColumnValue = NDArray[np.signedinteger[Any]] | Words

_GRID_BITS = 62
_INT64_MAX = (1 << 63) - 1
_FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))


class DeferredColumns(Mapping[str, T]):
    """Columns by name that are read when they are used, as from a file.

    Args:
        names: of the columns, in the schema's order.
        read: reads one; it may be called several times.
    """

    def __init__(self, names: Iterable[str], read: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._read = read

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def mapped(self, change: Callable[[T], T]) -> DeferredColumns[T]:
        """Return the columns with a change, made when they are used."""
        return DeferredColumns(self._names, lambda name: change(self._read(name)))


@dataclass(frozen=True, slots=True, eq=False)
class EncodedColumns:
    """Many records on the grid, column by column; the arrays are read-only.

    Args:
        values: field name -> int64 array, shape (rows,) (Bits: a tuple of such arrays); a narrower
            one will do that holds all between the field's bounds.
        present: field name -> bool array, shape (rows,).
    """

    values: Mapping[str, ColumnValue]
    present: Mapping[str, NDArray[np.bool_]]
    rows: int

    def __len__(self) -> int:
        return self.rows

    def take(self, rows: slice | NDArray[Any]) -> EncodedColumns:
        """Select the records at a slice (without copying) or at an array of positions."""
        values = _mapped(self.values, lambda column: rows_of(column, rows))
        present = _mapped(self.present, lambda column: column[rows])
        count = (
            len(range(*rows.indices(self.rows)))
            if isinstance(rows, slice)
            else len(np.empty(self.rows, dtype=np.bool_)[rows])
        )
        return EncodedColumns(values, present, count)

    def record(self, row: int) -> EncodedRecord:
        """Return one record as its own device would have encoded it."""
        values = {
            name: tuple(int(word[row]) for word in column)
            if isinstance(column, tuple)
            else int(column[row])
            for name, column in self.values.items()
        }
        present = {name: bool(column[row]) for name, column in self.present.items()}
        return EncodedRecord(values, present)


def _mapped(columns: Mapping[str, T], change: Callable[[T], T]) -> Mapping[str, T]:
    """Return columns with a change, made at once unless they are deferred."""
    if isinstance(columns, DeferredColumns):
        return columns.mapped(change)
    return {name: change(column) for name, column in columns.items()}


def rows_of(column: ColumnValue, rows: slice | NDArray[Any]) -> ColumnValue:
    """Select the values at a slice or at an array of positions."""
    if isinstance(column, tuple):
        return tuple(word[rows] for word in column)
    return column[rows]


def joined_values(parts: Sequence[ColumnValue]) -> ColumnValue:
    """Join the values of one column in several blocks."""
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(words) for words in zip(*parts, strict=True))
    return np.concatenate(parts)


def joined_rows(*parts: EncodedColumns) -> EncodedColumns:
    """Join the rows of several blocks of one schema."""
    values, present = parts[0].values, parts[0].present
    return EncodedColumns(
        {name: joined_values([part.values[name] for part in parts]) for name in values},
        {name: np.concatenate([part.present[name] for part in parts]) for name in present},
        sum(part.rows for part in parts),
    )


def encode_columns(schema: Schema, columns: Mapping[str, Any]) -> EncodedColumns:
    """Encode columns onto the grid, with the integers that `Schema.encode` gives per record.

    Args:
        schema: the types of the fields.
        columns: field name -> array, Series or list of shape (n,); (n, width) for Bits.
            A column that is left out is present nowhere.
    """
    refuse_unknown(schema, columns)
    encoded = {
        name: encode_column(name, field, columns[name])
        for name, field in schema.fields.items()
        if name in columns
    }
    lengths = {name: len(present) for name, (_, present) in encoded.items()}
    if len(set(lengths.values())) != 1:
        found = ", ".join(f"{name}: {rows}" for name, rows in lengths.items()) or "no column"
        raise InvalidRecord(f"expected columns of one length, found {found}")
    rows = next(iter(lengths.values()))
    values: dict[str, ColumnValue] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    for name, field in schema.fields.items():
        column, mask = encoded.get(name) or absent_column(field, rows)
        for array in (*(column if isinstance(column, tuple) else (column,)), mask):
            array.setflags(write=False)
        values[name], present[name] = column, mask
    return EncodedColumns(values, present, rows)


def encode_column(name: str, field: Field, column: Any) -> tuple[ColumnValue, NDArray[np.bool_]]:
    """Encode one column, shape (n,), or (n, width) for Bits: its values, and which are present."""
    array = _as_array(name, column)
    if array.dtype.kind in "cmMV":
        raise InvalidRecord(f"field {name}: expected numbers or text, found {array.dtype}")
    if isinstance(field, Bits):
        return _encode_bits(name, field, array)
    if array.ndim != 1:
        raise InvalidRecord(f"field {name}: expected a column of shape (n,), found {array.shape}")
    fast = array.dtype.kind in "biu" or array.dtype in _FLOATS
    if fast and isinstance(field, Category):
        distinct, inverse = np.unique(array, return_inverse=True)
        indices, known = _one_by_one(field, distinct)
        return np.asarray(indices)[inverse], known[inverse]
    return _encode_numbers(field, array) if fast else _one_by_one(field, array)


def absent_column(field: Field, rows: int) -> tuple[ColumnValue, NDArray[np.bool_]]:
    """Return the values of a column that was not given: nothing is present."""
    values: ColumnValue
    if isinstance(field, Bits):
        values = tuple(np.zeros(rows, dtype=np.int64) for _ in range(field.words))
    else:
        values = np.full(rows, filler(field), dtype=np.int64)
    return values, np.zeros(rows, dtype=np.bool_)


def _as_array(name: str, column: Any) -> NDArray[Any]:
    """Return an array without loss: a list of mixed types becomes an array of objects."""
    if isinstance(column, np.ma.MaskedArray):
        column = column.tolist()  # None where masked
    if hasattr(column, "dtype") or hasattr(column, "__array__"):
        return np.asarray(column)
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise InvalidRecord(f"field {name}: expected a column, found {type(column).__name__}")
    items = list(column)
    types = {type(item) for item in items}
    if types == {float}:
        return np.asarray(items, dtype=np.float64)
    if types == {int} and min(items) >= -_INT64_MAX and max(items) <= _INT64_MAX:
        return np.asarray(items, dtype=np.int64)
    array = np.empty(len(items), dtype=object)
    for position, item in enumerate(items):  # an assignment in one would unpack nested lists
        array[position] = item
    return array


def _one_by_one(field: Field, array: NDArray[Any]) -> tuple[ColumnValue, NDArray[np.bool_]]:
    encoded = [field.encode(item) for item in array.tolist()]
    present = np.fromiter((item is not None for item in encoded), np.bool_, len(encoded))
    values: ColumnValue
    if isinstance(field, Bits):
        none = (0,) * field.words
        rows = [none if item is None else item for item in encoded]
        matrix = np.array(rows, dtype=np.int64).reshape(len(rows), field.words)
        values = tuple(np.ascontiguousarray(matrix[:, word]) for word in range(field.words))
    else:
        absent = filler(field)
        grid = (absent if item is None else item for item in encoded)
        values = np.fromiter(grid, np.int64, len(encoded))
    return values, present


def _encode_numbers(
    field: Field, array: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    kind = field.type
    if isinstance(field, Bit):
        present = (array == 0) | (array == 1)
        return np.where(present, array == 1, 0).astype(np.int64), present
    if array.dtype.kind == "f":
        present = np.isfinite(array)
        exact = np.where(present, array, 0).astype(np.float64)
        edge = np.asarray(1 << (_GRID_BITS - kind.frac)).astype(np.float64)
        scaled = np.rint(np.ldexp(np.clip(exact, -edge, edge), kind.frac))
        grid = scaled.astype(np.int64)
    else:
        present = np.ones(array.shape, dtype=np.bool_)
        if array.dtype.kind == "u":
            array = np.minimum(array, np.asarray(_INT64_MAX, dtype=np.uint64))
        end = 1 << (_GRID_BITS - kind.frac)
        grid = np.clip(array.astype(np.int64), -end, end) << kind.frac
    values = np.clip(grid, kind.low, kind.high)
    return np.where(present, values, filler(field)).astype(np.int64), present


def _encode_bits(
    name: str, field: Bits, array: NDArray[Any]
) -> tuple[ColumnValue, NDArray[np.bool_]]:
    if array.ndim == 1 and array.dtype.kind in "OUT":
        return _one_by_one(field, array)
    if array.ndim != 2 or array.shape[1] != field.width:
        raise InvalidRecord(
            f"field {name}: expected a column of shape (n, {field.width}), found {array.shape}"
        )
    if array.dtype.kind not in "biuf":
        rows = np.empty(len(array), dtype=object)
        for position, row in enumerate(array):
            rows[position] = row.tolist()
        return _one_by_one(field, rows)
    ones = array == 1
    present = (ones | (array == 0)).all(axis=1)
    ones &= present[:, np.newaxis]
    padded = np.zeros((len(array), field.words * WORD), dtype=np.bool_)
    padded[:, : field.width] = ones
    packed = np.packbits(padded, axis=1, bitorder="little").view("<u4").astype(np.int64)
    return tuple(np.ascontiguousarray(packed[:, word]) for word in range(field.words)), present
