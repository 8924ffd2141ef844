"""The values of a vector query: all components, of one record or of columns of them.

A component answers its default if a field that it depends on itself is missing; what another one
depends on does not matter. So an answer is the same in whatever blocks its components are asked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidRecord
from askance_client.queries.evaluate import Compiled
from askance_client.queries.schema import Encoded, EncodedColumns, EncodedRecord

_CELLS_AT_ONCE = 1 << 18  # rows x components evaluated together: they stay near the cache


class Bounds(NamedTuple):
    """Clamping bounds of every component, and its public default."""

    low: int
    high: int
    default: int


def check_fields(compiled: Compiled, encoded: Encoded) -> None:
    """Refuse a record that was encoded by a schema without a field that is used."""
    for name in compiled.names:
        if name not in encoded.present:
            raise InvalidRecord(f"the query uses field {name}, which the record's schema lacks")


def everywhere(present: NDArray[np.bool_]) -> bool:
    """Return whether all rows have a field; a repeated single element of no stride is read once."""
    return bool(present[:1].all() if present.strides == (0,) else present.all())


def slots_of(compiled: Compiled, columns: EncodedColumns, rows: slice) -> list[Any]:
    """The first slots of a program, for these rows: int64, in which nothing overflows."""
    slots: list[Any] = []
    for name in compiled.names:
        column = columns.values[name]
        if isinstance(column, tuple):
            slots.append(tuple(word[rows] for word in column))
        else:
            slots.append(column[rows].astype(np.int64, copy=False))
    return slots


def vector_of_record(compiled: Compiled, bounds: Bounds, record: EncodedRecord) -> tuple[int, ...]:
    """The components of one record."""
    low, high, default = bounds
    # Computed also where a field is missing: the time it takes does not reveal whether one is.
    values = compiled.run([record.values[name] for name in compiled.names])
    absent = sum([1 << i for i, name in enumerate(compiled.names) if not record.present[name]])
    return tuple(
        [
            default if reads & absent else min(max(value, low), high)
            for value, reads in zip(values, compiled.reads, strict=True)
        ]
    )


def vectors_of_columns(
    compiled: Compiled, bounds: Bounds, columns: EncodedColumns
) -> NDArray[np.int64]:
    """The same integers for columns, shape (rows, components)."""
    components = np.empty((columns.rows, len(compiled.reads)), dtype=np.int64)
    step = max(1, _CELLS_AT_ONCE // len(compiled.reads))
    for start in range(0, columns.rows, step):
        rows = slice(start, start + step)
        for place, value in enumerate(compiled.run(slots_of(compiled, columns, rows))):
            components[rows, place] = value
    np.clip(components, bounds.low, bounds.high, out=components)
    for position, name in enumerate(compiled.names):
        absent = np.flatnonzero(~columns.present[name])
        if len(absent):
            reading = [bool(reads >> position & 1) for reads in compiled.reads]
            components[np.ix_(absent, np.flatnonzero(reading))] = bounds.default
    return components
