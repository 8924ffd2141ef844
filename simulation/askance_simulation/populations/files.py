"""Files of records: CSV and Parquet.

A device's code defines the records of a CSV file (`askance_client.records.read_csv`). pyarrow,
which is faster, reads the files of which both have the same records: plain lines, with quotes
around whole cells. Any other file, and one with an error, is read by the device's code, so that
records and messages do not depend on what is installed.
"""

from __future__ import annotations

import csv
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.extras import install_text
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.records import Table, read_csv
from askance_client.records.tables import MAX_CELL_CHARACTERS, RowCollector
from askance_simulation.populations.arrow_columns import text_block
from askance_simulation.populations.arrow_tables import table_of
from askance_simulation.populations.cells import CellRows, TextBlock
from askance_simulation.populations.tables import TextColumns

if TYPE_CHECKING:
    import pyarrow


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Characters between cells, and their names."""

_HEAD = 1 << 16  # bytes that are looked at: the header line, and more
_BOMS = (b"\xff\xfe", b"\xfe\xff")
_OTHERS = (
    (b"PAR1", "Parquet", "give it a name that ends in .parquet"),
    (b"PK\x03\x04", "a workbook or a zip archive", "save its table as CSV in UTF-8"),
    (b"\x1f\x8b", "gzip", "decompress it with gunzip"),
    (b"SQLite format 3\x00", "an SQLite database", "export its table as CSV"),
    (b"%PDF", "PDF", "save its table as CSV in UTF-8"),
)


def check_format(path: Path, delimiter: str) -> None:
    """Refuse a file whose first bytes are of another format; what is no regular file passes.

    Raises:
      InvalidRecord: the first bytes are of another format or encoding, or the header line has one
        column and another delimiter. The message says what helps.
    """
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return  # the reader of the records has the error
    for start, name, help_ in _OTHERS:
        if head.startswith(start):
            raise InvalidRecord(f"{path}: expected CSV, got a file that looks like {name}: {help_}")
    if head.startswith(_BOMS) or head[1:64:2].count(0) > len(head[:64]) // 4:
        raise InvalidRecord(
            f"{path}: expected text in UTF-8, got a file that looks like UTF-16: convert it by"
            f" iconv -f UTF-16 -t UTF-8 {path.name} > new.csv"
        )
    _check_header(path, head.removeprefix(b"\xef\xbb\xbf").splitlines()[:1], delimiter)


def _check_header(path: Path, lines: list[bytes], delimiter: str) -> None:
    """Refuse a header line that is not UTF-8, is JSON, or has another delimiter."""
    for line in lines:
        try:
            header = re.sub(r'"[^"]*"', "", line.decode())
        except UnicodeDecodeError:
            raise InvalidRecord(
                f"{path}: expected text in UTF-8, got other bytes in the header line{_CONVERT}"
            ) from None
        if header.lstrip().startswith(("{", "[{")) or header.strip() == "[":
            raise InvalidRecord(
                f"{path}: expected CSV with a header line, got a file that looks like JSON: convert"
                " it to CSV"
            )
        counts = {other: header.count(other) for other in DELIMITERS if other != delimiter}
        likely = max(counts, key=counts.__getitem__)
        if delimiter not in header and counts[likely]:
            shown = "tab" if likely == "\t" else f"'{likely}'"
            raise InvalidRecord(
                f"{path}: expected {DELIMITERS[delimiter]} between columns, got one column and"
                f" {counts[likely]:,} {DELIMITERS[likely]} in the header line: looks like"
                f" {DELIMITERS[likely]}, try --delimiter {shown}"
            )


_CONVERT = (
    ": convert it, from Windows-1252 for example by iconv -f WINDOWS-1252 -t UTF-8 FILE > new.csv"
)


def remedy(problem: str, delimiter: str) -> str:
    """Return what helps against a malformed row, by the problem that `Table.malformed` has."""
    remedies = {
        "UTF-8": _CONVERT,
        "quotes": ": inside a cell in quotes write each quote twice",
        "cells, got": f": write quotes around a cell that has {delimiter!r} in it, as a decimal"
        " comma or a list has",
    }
    return next((text for part, text in remedies.items() if part in problem), "")


PARQUET = ".parquet"
_AT_ONCE = 1 << 24  # bytes that pyarrow reads together; it refuses a longer row
_MOST_AT_ONCE = (1 << 31) - 1
_QUOTE = ord('"')
_BOM = b"\xef\xbb\xbf"


def read_file(path: Path, delimiter: str = ",", rows: RowCollector | None = None) -> Table:
    """Read the records of a file: .parquet for a Parquet file, else CSV.

    A malformed row, which a device's owner is only warned of, is an error: a population is the
    whole file, and a result must not depend on a row that was lost.

    Args:
      path: the file.
      delimiter: the character between two cells of a CSV file.
      rows: collects the rows of a CSV file; None: a list.

    Raises:
      InvalidRecord: see `read_csv` and `read_parquet`; or a row of a CSV file is malformed. The
        message says what helps.
    """
    if path.suffix.lower() == PARQUET:
        return read_parquet(path)
    check_format(path, delimiter)
    people = read_csv(path, delimiter, rows)
    for problem in people.malformed.values():
        more = len(people.malformed) - 1
        others = f"; {more:,} more rows are malformed" if more else ""
        raise InvalidRecord(f"{path}: {problem}{remedy(problem, delimiter)}{others}")
    return people


def read_csv_columns(path: Path, delimiter: str = ",") -> TextColumns:
    """Read the records of a CSV file by columns; records and errors are those of `read_file`."""
    check_format(path, delimiter)
    found = _by_pyarrow(path, delimiter)
    return TextColumns.of(read_file(path, delimiter, CellRows())) if found is None else found


def _by_pyarrow(path: Path, delimiter: str) -> TextColumns | None:
    """Read a file by pyarrow; None: it is not installed, or the device's code has to read it."""
    try:
        import pyarrow
        from pyarrow import csv as reader
    except ImportError:
        return None
    if not path.is_file():  # a pipe can be read once
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    end = data.find(b"\n") + 1
    header, rows = _header(data[:end], delimiter), memoryview(data)[end:]
    quotes = _quotes(data, end, ord(delimiter))
    if header is None or quotes is None or not _is_text(data):
        return None
    if data.startswith(_BOM, end):  # pyarrow would leave it out
        return None
    # Between two blocks pyarrow leaves out the second half of "\r\n", in a cell too.
    together = len(data) if len(quotes) and b"\r" in data else _AT_ONCE
    if together > _MOST_AT_ONCE:
        return None
    places = [str(place) for place in range(len(header))]
    kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    try:
        table = reader.read_csv(
            pyarrow.py_buffer(rows),
            reader.ReadOptions(column_names=places, block_size=together, use_threads=False),
            reader.ParseOptions(delimiter=delimiter, newlines_in_values=bool(len(quotes))),
            reader.ConvertOptions(column_types=dict.fromkeys(places, kind), null_values=[]),
        )
    except pyarrow.ArrowException:
        return None
    if not table.num_rows or max(map(_longest, table.columns)) > MAX_CELL_CHARACTERS:
        return None
    return TextColumns(path, header, table.num_rows, partial(_column, path, table))


def _header(line: bytes, delimiter: str) -> tuple[str, ...] | None:
    """Return the names in a header line; None if they are not plain, or not distinct."""
    try:
        text = line.decode("utf-8-sig")
        cells, *_ = csv.reader([text], delimiter=delimiter, skipinitialspace=True, strict=True)
    except (ValueError, csv.Error):
        return None
    names = tuple(name.strip() for name in cells)
    return names if len(set(names)) == len(names) > 0 else None


def _is_text(data: bytes) -> bool:
    """Return whether bytes are UTF-8 with lines as both readers split them."""
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return False
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _quotes(data: bytes, start: int, delimiter: int) -> NDArray[np.intp] | None:
    """Return the places of quotes from `start` on; None: one is neither around a cell nor doubled.

    Odd ones open and even ones close, as a doubled quote does both. One that opens comes first in
    its cell or just after the one before; one that closes is the last or just before the next.
    """
    if b'"' not in data:
        return np.empty(0, np.intp)
    characters = np.frombuffer(data, np.uint8)
    quotes = start + np.flatnonzero(characters[start:] == _QUOTE)
    if len(quotes) % 2:
        return None
    opening, closing = quotes[::2], quotes[1::2]
    edges = np.array([delimiter, *b"\r\n"], np.uint8)
    doubled = opening[1:] == closing[:-1] + 1
    opens = np.isin(characters[opening - 1], edges)
    opens[1:] |= doubled
    closes = (closing == len(data) - 1) | np.isin(
        characters[np.minimum(closing + 1, len(data) - 1)], edges
    )
    closes[:-1] |= doubled
    return quotes if opens.all() and closes.all() else None


def _longest(column: pyarrow.ChunkedArray) -> int:
    """Return the number of bytes of a column's longest cell."""
    from pyarrow import compute

    lengths = (compute.binary_length(chunk.dictionary) for chunk in column.chunks)
    return max(compute.max(length).as_py() or 0 for length in lengths)


def _column(path: Path, table: pyarrow.Table, place: int) -> TextBlock:
    return text_block(path, str(place), table.column(place))


def read_parquet(path: Path) -> Table:
    """Read the users of a Parquet file, one per row; a cell has the text of a CSV file's."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise InvalidParameter(
            f"{path}: expected pyarrow installed to read it ({install_text('frames')})"
        ) from None
    try:
        with path.open("rb") as file:
            people = parquet.ParquetFile(file).read()
    except OSError as error:
        reason = error.strerror or "it breaks off, or is damaged"  # pyarrow's own have none
        raise InvalidRecord(f"{path}: cannot be read: {reason}") from None
    except (ValueError, NotImplementedError):  # what pyarrow's ArrowInvalid and others are
        raise InvalidRecord(f"{path}: expected a Parquet file, got another format") from None
    return table_of(people, path)
