"""Tables of examples as populations: one row per user, as scikit-learn's estimators take them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Schema
from askance_client.records import Table, field_name
from askance_simulation.populations import Population
from askance_simulation.populations.population import people_of
from askance_simulation.randomness.seeds import Seed

Columns = Mapping[str, NDArray[Any]]
_SOURCE = Path("rows")  # stands for a file's path in messages


def columns_of(rows: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a table by field name.

    Args:
        rows: a DataFrame, whose columns' names become fields' names if all are texts; or an array
            of shape (n, d). Other columns are called x0, x1, ...

    Raises:
        InvalidParameter: two columns have one name as fields.
    """
    if not hasattr(rows, "columns"):
        table = np.asarray(rows)
        return {f"x{place}": table[:, place] for place in range(table.shape[1])}
    texts = all(isinstance(name, str) for name in rows.columns)
    names = [field_name(name) if texts else f"x{place}" for place, name in enumerate(rows.columns)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidParameter(f"columns: expected distinct names, got {value_text(twice)} twice")
    return {name: np.asarray(rows[place]) for name, place in zip(names, rows.columns, strict=True)}


def population_of(
    columns: Columns, seed: Seed, schema: Schema | None, label: str | None = None
) -> Population:
    """Make a population of columns, one user per row.

    Args:
        columns: arrays of equal length, by field name.
        seed: root of all randomness.
        schema: of the records; None: inferred from the columns, which a result notes.
        label: field to be predicted; None: there is none.

    Raises:
        InvalidRecord: no column can be asked about, or more than half of a column's values are
            outside the schema.
    """
    cells = [_cells(column) for column in columns.values()]
    names = tuple(columns)
    table = Table(_SOURCE, names, names, list(zip(*cells, strict=True)))
    keep: Collection[str] = names
    return people_of(table, seed, schema=schema, label=label, keep=keep)


def _cells(column: NDArray[Any]) -> list[str | bool | None]:
    """Return a column's cells: texts or truth values; None where missing."""
    if column.dtype == np.bool_:
        return list(column.tolist())
    if column.dtype.kind == "f":
        whole = column.astype(np.float64)
        return [_number(value) if np.isfinite(value) else None for value in whole.tolist()]
    return [None if value is None or value != value else str(value) for value in column.tolist()]


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1 << 53 else repr(value)
