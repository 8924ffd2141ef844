"""Files of records as tables: CSV by the code that devices read it by, and Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.records import Table, field_name, read_csv
from askance_simulation.populations.formats import check_format, remedy

if TYPE_CHECKING:
    import pyarrow

PARQUET = ".parquet"


def read_file(path: Path, delimiter: str = ",") -> Table:
    """Read the records of a file: .parquet for a Parquet file, else CSV.

    A malformed row, which a device's owner is only warned of, is an error: a population is the
    whole file, and a result must not depend on a row that was lost.

    Args:
      path: the file.
      delimiter: the character between two cells of a CSV file.

    Raises:
      InvalidRecord: see `read_csv` and `read_parquet`; or a row of a CSV file is malformed. The
        message says what helps.
    """
    if path.suffix.lower() == PARQUET:
        return read_parquet(path)
    check_format(path, delimiter)
    people = read_csv(path, delimiter)
    for problem in people.malformed.values():
        more = len(people.malformed) - 1
        others = f"; {more:,} more rows are malformed" if more else ""
        raise InvalidRecord(f"{path}: {problem}{remedy(problem, delimiter)}{others}")
    return people


def read_parquet(path: Path) -> Table:
    """Read the users of a Parquet file, one per row; a cell has the text of a CSV file's.

    A number is its shortest decimal, so that 0.1 is the same from either file; what is null, NaN or
    infinite is missing; of a dictionary its value is taken. A truth value stays one.

    Raises:
      InvalidParameter: pyarrow is not installed.
      InvalidRecord: no file, none of that form, no row, two columns of one name, a column of
        anything but numbers, truth values, text and times, or text that is not UTF-8.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise InvalidParameter(
            f"{path}: expected pyarrow installed to read it (pip install 'askance[frames]')"
        ) from None
    try:
        with path.open("rb") as file:
            people = parquet.ParquetFile(file).read()
    except OSError as error:
        reason = error.strerror or "it breaks off, or is damaged"  # pyarrow's own have none
        raise InvalidRecord(f"{path}: cannot be read: {reason}") from None
    except (ValueError, NotImplementedError):  # what pyarrow's ArrowInvalid and others are
        raise InvalidRecord(f"{path}: expected a Parquet file, got another format") from None
    written = tuple(people.column_names)
    names = tuple(field_name(name) for name in written)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRecord(f"{path}: expected distinct column names, got {twice!r:.80} twice")
    if not people.num_rows or not names:
        raise InvalidRecord(f"{path}: expected at least one row, got none")
    columns = [
        _cells(path, name, column) for name, column in zip(written, people.columns, strict=True)
    ]
    return Table(path, written, names, list(zip(*columns, strict=True)))


def _cells(path: Path, name: str, column: pyarrow.ChunkedArray) -> list[str | bool | None]:
    """Return a column's cells: stripped texts or truth values; None where missing."""
    from pyarrow import compute, string, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind: Any = column.type
    if types.is_boolean(kind):
        return list(column.to_pylist())
    if types.is_floating(kind):
        column = compute.if_else(compute.is_finite(column), column, None)
    elif not (
        types.is_integer(kind)
        or types.is_decimal(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_null(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
    ):
        raise InvalidRecord(
            f"{path}: expected columns of numbers, truth values, text or times, found {kind!s:.80}"
            f" in {name!r:.80}"
        )
    try:
        return list(compute.utf8_trim_whitespace(column.cast(string())).to_pylist())
    except ValueError:  # which pyarrow's ArrowInvalid is; its message may hold a cell's value
        raise InvalidRecord(
            f"{path}: expected text, numbers or times that can be read in {name!r:.80},"
            " found others"
        ) from None
