"""Arrow tables as records: Parquet files, frames of pandas, polars and DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text
from askance_client.records import Table, field_names
from askance_simulation.populations.arrow_columns import cells_of, check_type
from askance_simulation.populations.cells import Cell

if TYPE_CHECKING:
    import pyarrow


def arrow_of(frame: Any) -> pyarrow.Table:
    """Return a frame as an Arrow table; the index of a pandas frame is no column.

    Raises:
      InvalidParameter: pyarrow is not installed, or the frame is none of these.
    """
    try:
        import pyarrow
    except ImportError:
        raise InvalidParameter(
            "frame: expected pyarrow installed to read it (pip install 'askance[frames]')"
        ) from None
    if type(frame).__module__.partition(".")[0] == "pandas":
        return pyarrow.Table.from_pandas(frame, preserve_index=False)
    if not hasattr(frame, "__arrow_c_stream__"):
        raise InvalidParameter(
            "frame: expected a pandas frame or what has __arrow_c_stream__, got"
            f" {value_text(type(frame).__name__)}"
        )
    return pyarrow.table(frame)


def table_of(people: pyarrow.Table, path: Path) -> Table:
    """Return the users of an Arrow table, one per row; a cell has the text of a CSV file's.

    A number is its shortest decimal, so that 0.1 is the same from each source; what is null, NaN or
    infinite is missing; of a dictionary its value is taken. A truth value stays one.

    Args:
      people: the table.
      path: names the source in messages; its stem is the schema's name.

    Raises:
      InvalidRecord: no row, two columns of one name, a column of anything but numbers, truth
        values, text and times, or text that is not UTF-8.
    """
    written = tuple(people.column_names)
    names = field_names(path, written)
    if not people.num_rows or not names:
        raise InvalidRecord(f"{path}: expected at least one row, got none")
    columns = [
        _checked_cells(path, name, column)
        for name, column in zip(written, people.columns, strict=True)
    ]
    return Table(path, written, names, list(zip(*columns, strict=True)))


def _checked_cells(path: Path, name: str, column: pyarrow.ChunkedArray) -> list[Cell]:
    check_type(path, name, column.type)
    return cells_of(path, name, column)
