"""Tables of examples as populations: one row per user, as scikit-learn's estimators take them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text
from askance_client.queries import Schema
from askance_client.records import Table, field_names
from askance_simulation.populations import Population
from askance_simulation.populations.arrow_tables import columns_of_frame
from askance_simulation.populations.cells import cells_of_objects
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
        InvalidParameter: no column, two of one name, or one of other values than numbers, truth
            values, texts and times.
    """
    if not hasattr(rows, "columns"):
        table = np.asarray(rows)
        return {f"x{place}": table[:, place] for place in range(table.shape[1])}
    columns = columns_of_frame(rows)
    texts = all(isinstance(name, str) for name, _ in columns)
    if not columns:
        raise InvalidParameter("columns: expected one or more, got none")
    try:
        own = [name if texts else f"x{place}" for place, (name, _) in enumerate(columns)]
        names = field_names("columns", own)
    except InvalidRecord as error:
        raise InvalidParameter(str(error)) from None
    return {name: _array(name, column) for name, (_, column) in zip(names, columns, strict=True)}


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
    cells = [cells_of_objects(column.tolist()) for column in columns.values()]
    names = tuple(columns)
    table = Table(_SOURCE, names, names, list(zip(*cells, strict=True)))
    keep: Collection[str] = names
    return people_of(table, seed, schema=schema, label=label, keep=keep)


def _array(name: str, column: Any) -> NDArray[Any]:
    """Return a column as an array of numbers, truth values or texts; None where one is missing."""
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if isinstance(kind, str) and kind in tuple("biuf"):
        found = np.asarray(column)
        if found.dtype.kind in "biuf":
            return found
    try:
        cells = cells_of_objects(column.to_pylist() if hasattr(column, "to_pylist") else column)
    except Exception:  # of any library, with a value in its text perhaps
        cells = "values that cannot be read"
    if isinstance(cells, str):
        raise InvalidParameter(
            f"columns: expected numbers, truth values, text or times in {value_text(name)},"
            f" got {cells}"
        )
    return np.array(cells, dtype=object)
