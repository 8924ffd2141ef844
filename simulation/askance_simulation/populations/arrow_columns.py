"""Arrow columns on the grid of a schema, with the integers that their texts would have.

Texts and truth values are encoded once each, by their dictionary. Whole numbers and floats are
scaled and rounded as arrays. A float stands for its shortest decimal, as in a CSV file: where that
might be rounded to another point of the grid than the float itself, its text is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries.columns import ColumnValue, encode_column, joined_values, rows_of
from askance_client.errors import InvalidRecord
from askance_client.queries import Bits, Field
from askance_client.queries.fields import ValueType
from askance_client.queries.kinds import Kind
from askance_client.queries.schema import filler
from askance_client.records import Table
from askance_simulation.populations.cells import SLICE, Cell, NumberBlock, NumberCells, TextBlock
from askance_simulation.populations.columns import narrowest

if TYPE_CHECKING:
    import pyarrow

Encoded = tuple[ColumnValue, NDArray[np.bool_]]


class EncodedOnce:
    """Columns of a schema, each encoded once; any thread may ask, and a copy encodes anew."""

    def __init__(self, encode: Callable[[str], Encoded]) -> None:
        self._encode = encode
        self._encoded: dict[str, Encoded] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return EncodedOnce, (self._encode,)

    def values(self, name: str) -> ColumnValue:
        """Return a field's values."""
        return self._column(name)[0]

    def present(self, name: str) -> NDArray[np.bool_]:
        """Return where a field is present."""
        return self._column(name)[1]

    def _column(self, name: str) -> Encoded:
        with self._lock:
            if name not in self._encoded:
                self._encoded[name] = self._encode(name)
            return self._encoded[name]


_EXACT = 1 << 52  # of a float64: beyond it there is no half


WHY = b"askance left out"
"""Key of the metadata of an empty column that stands for one that Arrow cannot hold: the reason."""
DECLARED = b"askance declared"
"""Key of the metadata of a column whose dictionary is the list of its labels."""


def oddity(column: pyarrow.Field) -> str | None:
    """Return what a column holds, if not numbers, truth values, text or times; None if it does."""
    from pyarrow import types

    if column.metadata and WHY in column.metadata:
        return str(column.metadata[WHY].decode())
    kind = column.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_duration(kind):
        return "durations: write them as numbers, of days or seconds"
    if not (
        types.is_boolean(kind)
        or types.is_floating(kind)
        or types.is_integer(kind)
        or types.is_decimal(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_null(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
    ):
        return f"values of the type {getattr(kind, 'extension_name', kind)!s:.80}"
    return None


def odd_column(path: Path, name: str, why: str) -> InvalidRecord:
    """Return the error for a column that is read and holds something else (see `oddity`)."""
    return InvalidRecord(
        f"{path}: expected numbers, truth values, text or times in {name!r:.80}, got {why}"
    )


def cells_of(path: Path, name: str, column: Any) -> list[Cell]:
    """Return a column's cells: stripped texts or truth values; None where missing."""
    from pyarrow import compute, string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_boolean(column.type):
        return list(column.to_pylist())
    if types.is_floating(column.type):
        column = compute.if_else(compute.is_finite(column), column, None)
    try:
        cells = list(compute.utf8_trim_whitespace(column.cast(string())).to_pylist())
    except ValueError:  # which pyarrow's ArrowInvalid is; its message may hold a cell's value
        raise InvalidRecord(
            f"{path}: expected text, numbers or times that can be read in {name!r:.80}, got others"
        ) from None
    return [*map(_zero, cells)] if types.is_floating(column.type) else cells


def is_numeric(kind: Any) -> bool:
    """Return whether a column's type holds whole numbers or floats, as arrays of numpy."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def texts_of(values: NDArray[Any]) -> list[str]:
    """Return the texts of finite numbers, a float's being its shortest decimal."""
    import pyarrow

    texts = pyarrow.array(values).cast(pyarrow.string()).to_pylist()
    return [str(_zero(text)) for text in texts]


def _zero(text: str | None) -> str | None:
    """Return "0" for "-0", the same number of two floats, and any other text as it is."""
    return "0" if text == "-0" else text


def plain(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Return a column whose numbers, if it is of numbers, are in no dictionary."""
    from pyarrow import types

    kind = column.type
    coded = types.is_dictionary(kind) and is_numeric(kind.value_type)
    return column.cast(kind.value_type) if coded else column


def numbers_of(column: pyarrow.ChunkedArray) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return the numbers of a column, and which are there and finite; None: all.

    A number that is not there is 0.
    """
    from pyarrow import compute, types

    if types.is_floating(column.type):
        values = column.to_numpy()  # NaN where there is none
        present = np.isfinite(values)
        if present.all():
            return values, None
        return np.where(present, values, values.dtype.type(0)), present
    if not column.null_count:
        return column.to_numpy(), None
    present = column.is_valid().to_numpy()
    return compute.fill_null(column, 0).to_numpy(), present


def text_block(path: Path, name: str, column: pyarrow.ChunkedArray) -> TextBlock:
    """Return the cells of a column by place in a dictionary."""
    from pyarrow import types

    if types.is_float16(column.type):
        # Older versions of Arrow make no dictionary of it; as float64 it has the same texts.
        column = column.cast("float64")
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    coded = column.unify_dictionaries().combine_chunks()
    parts = coded.chunks if hasattr(coded, "chunks") else [coded]  # none, or one
    if not parts:
        return TextBlock([None], np.empty(0, np.int64))
    (part,) = parts
    cells = [*cells_of(path, name, part.dictionary), None]
    if not part.indices.null_count:
        return TextBlock(cells, part.indices.to_numpy())
    places = part.indices.cast("int64").fill_null(len(cells) - 1)
    return TextBlock(cells, places.to_numpy())


def encoded(name: str, field: Field, column: TextBlock | tuple[Any, Any]) -> Encoded:
    """Encode a block's column onto the grid, in as few bytes as the field's bounds allow."""
    if isinstance(column, TextBlock):
        found, known = encode_column(name, field, _filled(name, field, column.cells))
        present = np.broadcast_to(np.True_, len(column.places))
        if not known.all():
            taken = known[column.places]
            present = present if taken.all() else taken
        if not isinstance(found, tuple):
            found = found.astype(narrowest(field.type))
        return rows_of(found, column.places), present
    numbers, known = column
    values = _on_grid(field, numbers)
    if known is None:
        return values, np.broadcast_to(np.True_, len(values))
    return np.where(known, values, values.dtype.type(filler(field))), known


def takes_numbers(field: Field) -> bool:
    """Return whether a field's numbers are encoded as arrays."""
    return field.type.kind is Kind.NUMBER and not isinstance(field, Bits)


def outside(field: Field, numbers: NDArray[Any]) -> int:
    """Count the numbers that are clamped by more than the rounding to the grid."""
    kind = field.type
    if numbers.dtype.kind == "f":
        scaled = np.ldexp(numbers.astype(np.float64), kind.frac)
        beyond = (scaled < kind.low - 0.5) | (scaled > kind.high + 0.5)
    else:
        step = 1 << kind.frac
        beyond = (numbers < -(-kind.low // step)) | (numbers > kind.high // step)
    return int(np.count_nonzero(beyond))


def _on_grid(field: Field, numbers: NDArray[Any]) -> NDArray[np.signedinteger[Any]]:
    kind = field.type
    width = narrowest(kind)
    if numbers.dtype.kind == "f":
        return _rounded(field, numbers).astype(width)
    if len(numbers) and kind.frac == 0:
        low, high = int(numbers.min()), int(numbers.max())
        if kind.low <= low and high <= kind.high:
            return numbers.astype(width)
    if numbers.dtype == np.uint64:
        numbers = np.minimum(numbers, np.uint64((1 << 63) - 1))
    least, most = -(-kind.low >> kind.frac) - 1, (kind.high >> kind.frac) + 1
    within = np.clip(numbers.astype(np.int64), least, most)
    grid: NDArray[np.signedinteger[Any]]
    grid = np.clip(within << kind.frac, kind.low, kind.high).astype(width)
    return grid


def _rounded(field: Field, numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Round finite floats as their shortest decimals are rounded: half to even."""
    kind: ValueType = field.type
    edge = float(max(abs(kind.low), abs(kind.high), 1)) * 2
    with np.errstate(over="ignore"):
        scaled = np.ldexp(numbers.astype(np.float64), kind.frac)
        slack = np.ldexp(np.spacing(np.abs(numbers)).astype(np.float64), kind.frac - 1)
    unsure = np.abs(scaled - np.floor(scaled) - 0.5) <= slack
    unsure |= np.abs(scaled) >= _EXACT
    unsure &= np.abs(scaled) <= edge
    values: NDArray[np.int64]
    values = np.clip(np.rint(np.clip(scaled, -edge, edge)), kind.low, kind.high).astype(np.int64)
    places = np.flatnonzero(unsure)
    if len(places):
        distinct, inverse = np.unique(numbers[places], return_inverse=True)
        grid = [_encoded(field, text) for text in texts_of(distinct)]
        values[places] = np.array(grid, np.int64)[inverse]
    return values


def _encoded(field: Field, text: str) -> int:
    found = field.encode(text)
    if not isinstance(found, int):
        raise InvalidRecord(f"expected the text of a number, got {text:.40}")
    return found


def _filled(name: str, field: Field, cells: Sequence[Cell]) -> list[object]:
    """Return the values of cells for a field, as of a table."""
    return Table("", (name,), (name,), [(cell,) for cell in cells]).column(name, field)


def count_numbers(cells: NumberCells, column: pyarrow.ChunkedArray) -> list[NumberBlock]:
    """Summarize a block of a column of numbers (see `NumberCells.block`), slice by slice."""
    values, known = numbers_of(column)
    infinite: dict[str, int] = {}
    if known is not None and values.dtype.kind == "f":
        ends = column.to_numpy()
        counts = {sign: int((ends == float(sign)).sum()) for sign in ("inf", "-inf")}
        infinite = {sign: count for sign, count in counts.items() if count}
    blocks = []
    for start in range(0, len(values), SLICE):
        rows = slice(start, start + SLICE)
        given = values[rows] if known is None else values[rows][known[rows]]
        missing = len(values[rows]) - len(given)
        blocks.append(cells.block(given, missing, {} if start else infinite))
    return blocks


def joined(parts: Sequence[Encoded]) -> Encoded:
    """Return the columns of several blocks as one."""
    if len(parts) == 1:
        return parts[0]
    values, presents = zip(*parts, strict=True)
    present = np.concatenate(presents)
    if present.all():
        present = np.broadcast_to(np.True_, len(present))
    return joined_values(values), present
