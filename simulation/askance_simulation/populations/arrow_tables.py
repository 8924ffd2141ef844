"""Frames as Arrow tables, and Arrow tables as records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.extras import not_installed
from askance_client.errors import AskanceError, InvalidParameter, InvalidRecord
from askance_client.printable import value_text
from askance_client.records import Table, field_names
from askance_simulation.populations.arrow_columns import DECLARED, WHY, cells_of, odd_column, oddity
from askance_simulation.populations.cells import Cell, cells_of_objects

if TYPE_CHECKING:
    import pyarrow


def arrow_of(frame: Any) -> pyarrow.Table:
    """Return a frame as an Arrow table; the index of a pandas frame is no column.

    Args:
      frame: a frame or series of pandas or polars, lazy ones too, a table or array of pyarrow, what
        has `__arrow_c_stream__` (DuckDB), a mapping of columns by name, or an array of one or two
        dimensions, whose columns are x0, x1, ... unless it is structured.

    Returns:
      The table. A column that Arrow cannot hold is empty there, with the reason in its metadata
      (`arrow_columns.WHY`); one of objects of several types is of texts. No value is in a reason.
    """
    try:
        import pyarrow
    except ImportError:
        raise not_installed("frame", "pyarrow", "frames") from None
    columns = columns_of_frame(frame)
    found = [(str(name), _column(str(name), values)) for name, values in columns]
    declared = [_declares(values) for _, values in columns]
    lengths = {len(values): name for name, (values, _) in found}
    if len(lengths) > 1:
        (one, first), (other, second), *_ = lengths.items()
        raise InvalidParameter(
            f"frame: expected columns of one length, got {one:,} values in {first!r:.80} and"
            f" {other:,} in {second!r:.80}"
        )
    fields = [
        pyarrow.field(
            name,
            values.type,
            metadata={WHY: why.encode()} if why else {DECLARED: b""} if declares else None,
        )
        for (name, (values, why)), declares in zip(found, declared, strict=True)
    ]
    return pyarrow.Table.from_arrays(
        [values for _, (values, _) in found], schema=pyarrow.schema(fields)
    )


def columns_of_frame(frame: Any) -> list[tuple[Any, Any]]:
    """Return the columns of a frame by name (see `arrow_of`), in the frame's own types."""
    try:
        columns = _columns_of(frame)
    except AskanceError:
        raise
    except Exception as error:  # of any library, with a value in its text perhaps
        raise InvalidParameter(
            f"frame: expected one that can be read, got {value_text(type(frame).__name__)}, which"
            f" fails with {type(error).__name__}"
        ) from None
    if columns is None:
        raise InvalidParameter(
            "frame: expected a table of pandas, polars, pyarrow or DuckDB, a dict of columns or an"
            f" array, got {value_text(type(frame).__name__)}"
        )
    return [(name, _with_texts(values)) for name, values in columns]


def _columns_of(frame: Any) -> list[tuple[Any, Any]] | None:
    """Return the columns of a frame by name; None: it is no frame."""
    if isinstance(frame, Mapping):
        return list(frame.items())
    if isinstance(frame, np.ndarray):
        return _columns_of_array(frame)
    library, kind = type(frame).__module__.partition(".")[0], type(frame).__name__
    if library == "polars" and kind == "LazyFrame":
        frame, kind = frame.collect(), "DataFrame"
    if library == "polars" and kind == "DataFrame":
        return [(column.name, column) for column in frame.get_columns()]
    if library == "pandas" and kind == "DataFrame":
        index, names = frame.index, [*frame.index.names]
        levels = [(name, place) for place, name in enumerate(names) if name not in (None, "")]
        own = [(name, index.get_level_values(place)) for name, place in levels]
        return [
            *(one for one in own if one[0] not in frame.columns),
            *((name, frame.iloc[:, place]) for place, name in enumerate(frame.columns)),
        ]
    if library in ("pandas", "polars") and kind in ("Series", "Index"):
        return [("x0" if frame.name in (None, "") else frame.name, frame)]
    return _columns_of_arrow(frame)


def _declares(values: Any) -> bool:
    """Return whether a column declares its labels; a Categorical of polars has any it has met."""
    return type(getattr(values, "dtype", None)).__name__ in ("CategoricalDtype", "Enum")


def _columns_of_array(array: NDArray[Any]) -> list[tuple[Any, Any]] | None:
    if array.dtype.names is not None and array.ndim == 1:
        return [(name, array[name]) for name in array.dtype.names]
    if array.ndim == 1:
        return [("x0", array)]
    if array.ndim != 2:
        return None
    table = array if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    return [(f"x{place}", column) for place, column in enumerate(table.T)]


def _columns_of_arrow(frame: Any) -> list[tuple[Any, Any]] | None:
    import pyarrow

    if type(frame).__module__.partition(".")[0] == "pyarrow" and hasattr(frame, "to_table"):
        frame = frame.to_table()
    if isinstance(frame, pyarrow.StructArray):
        frame = pyarrow.RecordBatch.from_struct_array(frame)
    if isinstance(frame, pyarrow.Array | pyarrow.ChunkedArray):
        return [("x0", frame)]
    if not hasattr(frame, "__arrow_c_stream__"):
        return None
    table = pyarrow.table(frame)
    return list(zip(table.column_names, table.columns, strict=True))


def _column(name: str, values: Any) -> tuple[pyarrow.Array | pyarrow.ChunkedArray, str | None]:
    """Return a column as Arrow has it, and the reason if it has none of its values."""
    import pyarrow
    from pyarrow import compute, types

    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise InvalidParameter(
            f"frame: expected a list or an array in the column {name!r:.80}, got"
            f" {value_text(type(values).__name__)}"
        )
    if not hasattr(values, "__len__"):
        values = list(values)
    if isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind == "c":
        return pyarrow.nulls(len(values)), "complex numbers"
    try:
        if isinstance(values, pyarrow.Array | pyarrow.ChunkedArray):
            column = values
        elif (
            hasattr(values, "__arrow_c_stream__") and str(getattr(values, "dtype", "")) != "Object"
        ):
            column = pyarrow.chunked_array(values)
        else:
            column = pyarrow.array(values, from_pandas=True)
        if types.is_run_end_encoded(column.type):
            column = compute.run_end_decode(column)
        if getattr(column.type, "extension_name", "") == "arrow.bool8":
            column = column.cast(pyarrow.bool_())
        if types.is_timestamp(column.type) and column.type.tz is None:
            days = compute.floor_temporal(column, unit="day")
            if compute.all(compute.equal(column, days)).as_py():  # dates, as pandas has them
                column = column.cast(pyarrow.date32())
    except Exception:  # of any library, with a value in its text perhaps
        cells = cells_of_objects(values)
        if isinstance(cells, str):
            return pyarrow.nulls(len(values)), cells
        return pyarrow.array(cells), None
    return column, None


def _with_texts(values: Any) -> Any:
    """Return a categorical series of pandas with texts in place of intervals (`pandas.cut`)."""
    categories: Any = getattr(getattr(values, "dtype", None), "categories", None)
    if type(categories).__name__ != "IntervalIndex":
        return values
    return getattr(values, "cat", values).rename_categories(list(map(str, categories)))


def table_of(people: pyarrow.Table, path: Path) -> Table:
    """Return the users of an Arrow table, one per row; a cell has the text of a CSV file's.

    A number is its shortest decimal, so that 0.1 is the same from each source; what is null, NaN or
    infinite is missing; of a dictionary its value is taken. A truth value stays one.

    Args:
      people: the table.
      path: names the source in messages; its stem is the schema's name.
    """
    written = tuple(people.column_names)
    names = field_names(path, written)
    if not people.num_rows or not names:
        raise InvalidRecord(f"{path}: expected at least one row, got none")
    columns = [
        _checked_cells(path, field, column)
        for field, column in zip(people.schema, people.columns, strict=True)
    ]
    return Table(path, written, names, list(zip(*columns, strict=True)))


def _checked_cells(path: Path, field: pyarrow.Field, column: pyarrow.ChunkedArray) -> list[Cell]:
    why = oddity(field)
    if why is not None:
        raise odd_column(path, field.name, why)
    return cells_of(path, field.name, column)
