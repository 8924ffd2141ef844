"""Rows on the grid of the few fields that a hypothesis predicts from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.names import field_called, unknown_column
from askance_aggregator.queries import EncodedColumns, encode_columns
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Bits, Category, Field, Label, Schema
from askance_client.queries.limits import WORD

Rows = Mapping[str, Any] | NDArray[Any] | EncodedColumns
"""What a hypothesis predicts for: columns by field name (a DataFrame too), a table of shape
(n, features) in the schema's order, or columns that are encoded already."""


def field_of(schema: Schema, field: str) -> Field:
    """The field of that name."""
    if field not in schema.fields:
        raise InvalidParameter(unknown_column(field, schema.fields))
    return schema.fields[field]


def some_fields(schema: Schema, fields: Iterable[str]) -> Schema:
    """The schema of these fields alone, in the order given: what a hypothesis keeps of it."""
    names = list(fields)
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InvalidParameter(f"columns: expected each field once, got {name!r} twice")
    return Schema.of(schema.name, schema.version, {name: field_of(schema, name) for name in names})


def label_of(schema: Schema, label: str | None = None) -> str:
    """The field to be predicted: the one named, else the only Label."""
    if label is not None:
        if not isinstance(field_of(schema, label), Category):
            raise InvalidParameter(f"label expects a category, got the field {value_text(label)}")
        return label
    found = [name for name, kind in schema.fields.items() if isinstance(kind, Label)]
    if len(found) != 1:
        kinds = schema.fields.items()
        known = found or [name for name, kind in kinds if isinstance(kind, Category)]
        shown = ", ".join(known) or "which there are none of"
        raise InvalidParameter(f"label: expected one of the categories {shown:.200}, got none")
    return found[0]


def features_of(schema: Schema, label: str, columns: Sequence[str] | None = None) -> Schema:
    """The schema of what the label is predicted from: all other fields, or these columns."""
    names = [name for name in schema.fields if name != label] if columns is None else list(columns)
    if not names or label in names:
        raise InvalidParameter(f"expected columns besides {label}, got {value_text(names)}")
    return some_fields(schema, names)


def bits_of(field: str, width: int, rows: Rows) -> NDArray[np.int64]:
    """The components of a Bits field, shape (n, width); 0 where it is not present."""
    columns = encoded(Schema("bits", 1, **{field: Bits(width)}), rows)
    words = columns.values[field]
    if not isinstance(words, tuple):
        raise InvalidParameter(f"{field}: expected a vector of bits, got another field")
    return np.stack([words[j // WORD] >> (j % WORD) & 1 for j in range(width)], axis=1)


def encoded(schema: Schema, rows: Rows) -> EncodedColumns:
    """Rows on the schema's grid; columns that it does not have are ignored.

    A table has one column a field (Bits: its width).
    """
    if isinstance(rows, EncodedColumns):
        absent = [name for name in schema.fields if name not in rows.present]
        if absent:
            raise InvalidParameter(f"expected a column {absent[0]}, got none")
        return rows
    columns = (
        dict(_table(schema, rows)) if isinstance(rows, np.ndarray) else _by_field(schema, rows)
    )
    kept = {name: columns[name] for name in schema.fields if name in columns}
    if not kept:
        known = ", ".join(list(schema.fields)[:20])
        raise InvalidParameter(f"expected columns among {known}, got {value_text(list(columns))}")
    return encode_columns(schema, kept)


def _by_field(schema: Schema, rows: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return columns by field, where a column may have a name of its own."""
    if schema.fields.keys() <= set(rows):
        return rows
    return {field_called(str(name), schema.fields): rows[name] for name in rows}


def _table(schema: Schema, rows: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    widths = [kind.width if isinstance(kind, Bits) else 0 for kind in schema.fields.values()]
    expected = sum(width or 1 for width in widths)
    if rows.ndim != 2 or rows.shape[1] != expected:
        raise InvalidParameter(f"expected a table of shape (n, {expected}), found {rows.shape}")
    start = 0
    for name, width in zip(schema.fields, widths, strict=True):
        yield name, rows[:, start : start + width] if width else rows[:, start]
        start += width or 1
