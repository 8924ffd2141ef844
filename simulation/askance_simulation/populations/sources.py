"""Sources of records: a CSV or Parquet file, or a data set that ships with the package.

A data set is made on demand by a pure function, so that nothing is downloaded and no file is
shipped. It is found by name wherever a data file is expected. It is listed by the decorator
`dataset`, in its own module; importing the package lists all.

A device's code defines the records of a CSV file (`askance_client.records.read_csv`). pyarrow,
which is faster, reads the files of which both have the same records: plain lines, with quotes
around whole cells. Any other file, and one with an error, is read by the device's code, so that
records and messages do not depend on what is installed.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.extras import install_text
from askance_aggregator.names import Suits
from askance_aggregator.reports.texts import counted
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import nearest_text, value_text
from askance_client.queries import Schema
from askance_client.queries.exact import exact_ratio
from askance_client.records import Table, read_csv
from askance_client.records.tables import MAX_CELL_CHARACTERS, RowCollector
from askance_simulation.populations.arrow_columns import text_block
from askance_simulation.populations.arrow_records import parquet_records
from askance_simulation.populations.arrow_tables import table_of
from askance_simulation.populations.cells import CellRows, TextBlock
from askance_simulation.populations.inference import LIKE_VALUES
from askance_simulation.populations.tables import (
    MOST_OUTSIDE,
    Records,
    TableRecords,
    TextColumns,
    records_of,
)

if TYPE_CHECKING:
    import pyarrow


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Characters between cells, and their names."""

_MOST_ROWS = Fraction(9, 10)  # share of rows of a length that the line of names should have
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
    """Refuse a file whose first bytes are of another format; what is no regular file passes."""
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
    lines = head.removeprefix(b"\xef\xbb\xbf").splitlines()[:1]
    if len(head) == _HEAD and not re.search(rb"[\r\n]", head):  # its last name may be cut
        mark = re.escape(delimiter.encode())
        lines = [re.sub(rb"%b[^%b]*\Z" % (mark, mark), b"", line) for line in lines]
    _check_header(path, lines, delimiter)


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
        _check_distinct(path, line.decode(), delimiter)


def _check_distinct(path: Path, line: str, delimiter: str) -> None:
    """Refuse a first line in which a number stands twice, or several names are missing."""
    try:
        cells, *_ = csv.reader([line], delimiter=delimiter, skipinitialspace=True)
    except csv.Error:
        return  # the reader of the records has the error
    if line.count('"') % 2:  # the last name goes on in the next line
        cells.pop()
    times = Counter(map(str.strip, cells))
    twice = [name for name, count in times.items() if count > 1 and exact_ratio(name)]
    if twice:
        raise InvalidRecord(
            f"{path}: expected distinct column names, got {twice[0]!r:.80} twice; the first line"
            f" {LIKE_VALUES}"
        )
    if times[""] > 1:
        raise InvalidRecord(
            f"{path}: expected a name of each column in the first line, got {times['']:,} columns"
            f" without one: {_NAME_ALL}"
        )


_NAME_ALL = "name each column, and delete lines above the names, such as a title"


_CONVERT = (
    ": convert it, from Windows-1252 for example by iconv -f WINDOWS-1252 -t UTF-8 FILE > new.csv"
)


def remedy(problem: str, delimiter: str) -> str:
    """Return what helps against a malformed row, by the problem that `Table.malformed` has."""
    remedies = {
        "UTF-8": _CONVERT,
        "quotes": ": inside a cell in quotes write each quote twice",
        "cells?, got": f": write quotes around a cell that has {delimiter!r} in it, as a decimal"
        " comma or a list has",
    }
    return next((text for part, text in remedies.items() if re.search(part, problem)), "")


PARQUET = ".parquet"
_AT_ONCE = 1 << 24  # bytes that pyarrow reads together; it refuses a longer row
_MOST_AT_ONCE = (1 << 31) - 1
_QUOTE = ord('"')
_BOM = b"\xef\xbb\xbf"


def read_file(path: Path, delimiter: str = ",", rows: RowCollector | None = None) -> Table:
    """Read the records of a file: .parquet for a Parquet file, else CSV.

    A malformed row, which a device's owner is only warned of, is an error: a population is the
    whole file, and a result must not depend on a row that was lost.
    """
    if path.suffix.lower() == PARQUET:
        return read_parquet(path)
    check_format(path, delimiter)
    people = read_csv(path, delimiter, rows)
    for problem in people.malformed.values():
        more = len(people.malformed) - 1
        are = "is" if more == 1 else "are"
        others = f"; {counted(more, 'more row')} {are} malformed" if more else ""
        help_ = _names_remedy(people, remedy(problem, delimiter))
        raise InvalidRecord(f"{path}: {problem}{help_}{others}")
    return people


def _names_remedy(people: Table, otherwise: str) -> str:
    """Return what helps where nearly all rows have one number of cells, and few have names."""
    problems = Counter(problem.partition(": ")[2] for problem in people.malformed.values())
    problem, rows = problems.most_common(1)[0]
    got = re.fullmatch(r"expected \d+ cells?, got (\d+)", problem)
    if got is None or rows < _MOST_ROWS * len(people.rows):
        return otherwise
    names, more = len(people.names), int(got[1]) - len(people.names)
    if more > names:
        return f": {_NAME_ALL}"
    if more > 1 or (more == 1 and names == 1):  # or as many columns have decimal commas
        return f": {_NAME_ALL}; or{otherwise.removeprefix(':')}"
    return otherwise


def read_csv_columns(path: Path, delimiter: str = ",") -> TextColumns:
    """Read the records of a CSV file by columns; records and errors are those of `read_file`."""
    check_format(path, delimiter)
    found = _by_pyarrow(path, delimiter)
    if found is not None:
        return found
    return TextColumns.of(read_file(path, delimiter, CellRows()), has_header_line=True)


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
    column = partial(_column, path, table)
    return TextColumns(path, header, table.num_rows, column, has_header_line=True)


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
    """Return places of quotes from `start` on; None: one is neither around a cell nor doubled."""
    # Odd ones open and even ones close, as a doubled quote does both. One that opens comes first in
    # its cell or just after the one before; one that closes is the last or just before the next.
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


Rows = list[list[str]]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Entry of a data set.

    Args:
      name: what it is called in place of a file.
      make: makes the rows, a text per column; every call makes the same ones.
    """

    name: str
    summary: str
    columns: tuple[str, ...]
    make: Callable[[], Rows]

    def table(self) -> Table:
        """Return the records as those of a file are returned (see `read_file`)."""
        return Table(Path(self.name), self.columns, self.columns, self.make())


_CATALOGUE: dict[str, DataSet] = {}
DATA_SETS: Mapping[str, DataSet] = MappingProxyType(_CATALOGUE)
"""Data sets by name."""


def dataset(
    name: str, summary: str, columns: tuple[str, ...]
) -> Callable[[Callable[[], Rows]], Callable[[], Rows]]:
    """List a data set under `name`; the decorated function makes its rows."""
    if name in _CATALOGUE:
        raise InvalidParameter(f"the data set {name!r} is registered already")

    def listed(make: Callable[[], Rows]) -> Callable[[], Rows]:
        _CATALOGUE[name] = DataSet(name, summary, columns, make)
        return make

    return listed


@dataclass(frozen=True, slots=True)
class DataSource:
    """Records by their place, and how they are read.

    Args:
      place: path of a CSV or Parquet file; or the name of one of `DATA_SETS`, unless there is a
        file of that path.
      delimiter: the character between two cells of a CSV file, one of `DELIMITERS`.
      most_outside: share of a field's values outside a given schema that is accepted, 0 .. 1.
    """

    place: Path
    delimiter: str = ","
    most_outside: Fraction = MOST_OUTSIDE

    def __post_init__(self) -> None:
        if self.delimiter not in DELIMITERS:
            raise InvalidParameter(
                f"delimiter: expected one of , ; | or a tab, got {value_text(self.delimiter)}"
            )
        if not 0 <= self.most_outside <= 1:
            raise InvalidParameter(
                f"most_outside: expected a share from 0 to 1, got {value_text(self.most_outside)}"
            )

    @classmethod
    def of(cls, data: DataSource | Path | str) -> DataSource:
        """Return a source as it is, or that of a path or name with defaults."""
        return data if isinstance(data, DataSource) else cls(Path(data))

    @property
    def name(self) -> str:
        """Name of the file or data set, without the folder."""
        return self.place.name

    def read(self) -> Table:
        """Return the records.

        Raises:
          InvalidRecord: no such file or data set, or see `read_file`.
          InvalidParameter: a Parquet file, and pyarrow is not installed.
        """
        known = self._data_set()
        if known is not None:
            return known.table()
        self._check_name()
        return read_file(self.place, self.delimiter)

    def records(self) -> Table | Records:
        """Return the records to be counted and encoded; those of a Parquet file stay in it."""
        known = self._data_set()
        if known is not None:
            return known.table()
        self._check_name()
        if self.place.suffix.lower() == PARQUET:
            return parquet_records(self.place)
        return read_csv_columns(self.place, self.delimiter)

    def stamp(self) -> tuple[int, ...]:
        """Return the file's length, time and number, which change with each write; () without."""
        if self._data_set() is not None or not self.place.exists():
            return ()
        try:
            found = self.place.stat()
        except OSError as error:
            raise InvalidRecord(f"{self.place}: cannot be read: {error.strerror}") from None
        return found.st_size, found.st_mtime_ns, found.st_ino

    def fingerprint(self) -> bytes:
        """Return digests of the content and the name, and the delimiter if it is no comma."""
        known = self._data_set()
        if known is None:
            self._check_name()
        try:
            if known is not None:
                content = hashlib.sha256(repr(known.make()).encode())
            else:
                with self.place.open("rb") as opened:
                    content = hashlib.file_digest(opened, "sha256")
        except OSError as error:
            raise InvalidRecord(f"{self.place}: cannot be read: {error.strerror}") from None
        named = hashlib.sha256(self.name.encode()).digest()
        written = b"" if self.delimiter == "," else self.delimiter.encode()
        return content.digest() + named + written

    def _data_set(self) -> DataSet | None:
        return None if self.place.is_file() else DATA_SETS.get(str(self.place))

    def _check_name(self) -> None:
        """Refuse a name that is neither a file's nor a data set's."""
        like_a_name = self.place.name == str(self.place) and not self.place.suffix
        if like_a_name and not self.place.exists():
            names = ", ".join(DATA_SETS)
            raise InvalidRecord(
                f"data: expected a file, or the name of a data set ({names}), got"
                f" {value_text(str(self.place))}{nearest_text(str(self.place), DATA_SETS)}"
            )


class RecordReader:
    """Reader of sources that keeps the records of the latest one, for the trials that share them.

    They are read again when the file has changed, or for another schema, label or list of columns.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], TableRecords] | None = None

    def read(
        self,
        source: DataSource,
        schema: Schema | None,
        label: str | None,
        keep: frozenset[str],
        categories: frozenset[str] = frozenset(),
        suits: Suits | None = None,
    ) -> TableRecords:
        """Return a source's records on the grid of a schema.

        Arguments are as of `DataSource.read` and `tables.records_of`.
        """
        digest = None if schema is None else schema.digest
        key = (source, source.stamp(), digest, label, keep, categories, suits)
        kept = self._kept
        if kept is not None and kept[0] == key:
            return kept[1]
        self._kept = None  # before the next one takes its memory
        found = records_of(
            source.records(),
            schema=schema,
            label=label,
            keep=keep,
            most_outside=source.most_outside,
            categories=categories,
            suits=suits,
        )
        self._kept = key, found
        return found
