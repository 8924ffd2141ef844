"""Records of Arrow data: summarized for inference, and encoded block by block as they are read."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.extras import not_installed
from askance_aggregator.queries import DeferredColumns, EncodedColumns
from askance_aggregator.queries.columns import rows_of
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.queries import Field, Schema
from askance_client.queries.fields import NEVER_LABELS
from askance_client.records import Table, field_names, is_missing
from askance_simulation.cores import in_order
from askance_simulation.populations.arrow_columns import (
    DECLARED,
    Encoded,
    EncodedOnce,
    cells_of,
    count_numbers,
    encoded,
    is_numeric,
    joined,
    numbers_of,
    odd_column,
    oddity,
    outside,
    plain,
    takes_numbers,
    text_block,
    texts_of,
)
from askance_simulation.populations.cells import (
    Cell,
    ColumnCells,
    NumberBlock,
    NumberCells,
    TextBlock,
    TextCounts,
    UnreadCells,
)
from askance_simulation.populations.outside_values import Outside

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet

_SLICE = 1 << 20  # rows of a block of a table in memory


class Blocks(Protocol):
    """Rows of Arrow data in blocks."""

    @property
    def path(self) -> Path:
        """Name of the source in messages; its stem is the schema's name."""
        ...

    @property
    def schema(self) -> pyarrow.Schema:
        """Arrow's schema: a name and a type by column."""
        ...

    @property
    def starts(self) -> Sequence[int]:
        """First row of each block, and the number of all rows at the end."""
        ...

    def column(self, block: int, place: int) -> pyarrow.ChunkedArray:
        """Read one column of a block."""
        ...


class FrameBlocks:
    """Blocks of an Arrow table in memory."""

    def __init__(self, table: pyarrow.Table, path: Path) -> None:
        self.path = path
        self.schema = table.schema
        self.starts: Sequence[int] = [*range(0, table.num_rows, _SLICE), table.num_rows]
        self._table = table

    def column(self, block: int, place: int) -> pyarrow.ChunkedArray:
        """Return one column of a block."""
        start, stop = self.starts[block : block + 2]
        return self._table.column(place).slice(start, stop - start)

    def declared(self) -> list[tuple[str, ...]]:
        """Return the labels of each column that declares them; empty: there are none."""
        found: list[tuple[str, ...]] = []
        for field, column in zip(self.schema, self._table.columns, strict=True):
            cells: list[Cell] = []
            coded = column.num_chunks and hasattr(column.chunk(0), "dictionary")
            if coded and DECLARED in (field.metadata or ()):
                with suppress(InvalidRecord):
                    cells = cells_of(self.path, field.name, column.chunk(0).dictionary)
            labels = dict.fromkeys(str(cell) for cell in cells if cell is not None)
            found.append(tuple(label for label in labels if label not in NEVER_LABELS))
        return found


class ParquetBlocks:
    """Row groups of a Parquet file, read as often as they are asked for, by any thread.

    It can be pickled: the file is opened again, and must be the one that it was.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int] | None = None
        self._texts: list[str] = []
        self._free: list[tuple[BinaryIO, parquet.ParquetFile]] = []
        self._lock = Lock()
        with self._opened() as file:
            self._metadata = file.metadata
            self.schema = file.schema_arrow
            groups = [self._metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        self.starts: Sequence[int] = [0, *accumulate(groups)]
        self._texts = [name for name, kind in _kinds(self.schema) if _is_text(kind)]
        if self._texts:  # read as dictionaries from now on
            self._free.clear()

    def __reduce__(self) -> tuple[object, ...]:
        return _reopened, (self.path, self._stamp)

    def column(self, block: int, place: int) -> pyarrow.ChunkedArray:
        """Read one column of a row group; texts come as a dictionary."""
        with self._opened() as file:
            name = self.schema.field(place).name
            return file.read_row_group(block, columns=[name], use_threads=False).column(0)

    @contextmanager
    def _opened(self) -> Iterator[parquet.ParquetFile]:
        """Lend an open file to one thread at a time."""
        with self._lock:
            opened = self._free.pop() if self._free else None
        with _problems(self.path):
            source, file = opened or self._open()
            self._check(source)
            yield file
        with self._lock:
            self._free.append((source, file))

    def _open(self) -> tuple[BinaryIO, parquet.ParquetFile]:
        try:
            from pyarrow import parquet
        except ImportError:
            raise not_installed(str(self.path), "pyarrow", "frames") from None
        source = self.path.open("rb")
        self._check(source)
        return source, parquet.ParquetFile(source, read_dictionary=self._texts)

    def _check(self, source: BinaryIO) -> None:
        """Compare the file's length and time with those that it had when it was first opened."""
        found = os.fstat(source.fileno())
        stamp = found.st_size, found.st_mtime_ns
        if self._stamp not in (None, stamp):
            raise InvalidRecord(f"{self.path}: expected the file as it was, got another one")
        self._stamp = stamp


def block_of(starts: Sequence[int], row: int) -> int:
    """Return the number of the block that has a row."""
    return bisect_right(starts, row) - 1


@contextmanager
def _problems(path: Path) -> Iterator[None]:
    """Say what is wrong with a Parquet file, without a value of a cell."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "it breaks off, or is damaged"  # pyarrow's own have none
        raise InvalidRecord(f"{path}: cannot be read: {reason}") from None
    except (ValueError, NotImplementedError) as error:  # what pyarrow's ArrowInvalid and others are
        if isinstance(error, InvalidParameter | InvalidRecord):
            raise
        raise InvalidRecord(f"{path}: expected a Parquet file, got another format") from None


def _reopened(path: Path, stamp: tuple[int, int] | None) -> ParquetBlocks:
    blocks = ParquetBlocks(path)
    if blocks._stamp != stamp:
        raise InvalidRecord(f"{path}: expected the file as it was, got another one")
    return blocks


def _kinds(schema: pyarrow.Schema) -> Iterator[tuple[str, Any]]:
    for field in schema:
        yield field.name, field.type


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


Piece = tuple[int, slice | NDArray[Any]]
"""A block, and rows of it."""

_KEPT_BYTES = 1 << 26  # of columns on the grid that are kept for the next question


class ArrowRecords:
    """Columns of Arrow data (see `tables.Records`); of a Parquet file no more is held than a block.

    A column of anything but numbers, truth values, text and times is never read; a schema that is
    inferred leaves it out.
    """

    def __init__(self, blocks: Blocks) -> None:
        path, names = blocks.path, field_names(blocks.path, blocks.schema.names)
        if not blocks.starts[-1] or not names:
            raise InvalidRecord(f"{path}: expected at least one row, got none")
        self.path = path
        self.written = tuple(blocks.schema.names)
        self.names = names
        self._blocks = blocks
        self._odd = {
            place: why
            for place, one in enumerate(blocks.schema)
            if (why := oddity(one)) is not None
        }

    def __len__(self) -> int:
        return int(self._blocks.starts[-1])

    @property
    def declared(self) -> Mapping[str, tuple[str, ...]]:
        """Return the labels that a frame's categorical columns declare, in their order."""
        if not isinstance(self._blocks, FrameBlocks):
            return {}
        of_columns = zip(self.names, self._blocks.declared(), strict=True)
        return {name: labels for name, labels in of_columns if len(labels) > 1}

    @property
    def has_header_line(self) -> bool:
        """Return False: names are apart from the rows."""
        return False

    @property
    def empty_rows(self) -> int:
        """Return 0: rows of a frame or a Parquet file are not lines of a text."""
        return 0

    def cells(self, counted: Collection[str]) -> dict[str, ColumnCells]:
        """Summarize every column, reading all blocks once; of these all values are counted."""
        found: dict[str, ColumnCells] = {}
        declared = self.declared
        for place, name in enumerate(self.names):
            if place in self._odd:
                found[name] = UnreadCells(self._odd[place])
            elif is_numeric(_value_type(self._blocks.schema.types[place])):
                numbers = NumberCells(texts_of, counted=name in counted)
                for slices in self._each(partial(self._numbers, place, numbers)):
                    for part in slices:
                        numbers.add(part)
                found[name] = numbers
            else:
                texts = TextCounts()
                for start, block in self._each(partial(self._texts, place, texts)):
                    texts.add(block, start)
                found[name] = texts.cells(declared.get(name, ()))
        return found

    def outside(self, schema: Schema) -> dict[str, Outside]:
        """Count the values of each field that a schema does not know or clamps."""
        found = {}
        for name, field in schema.fields.items():
            parts = self._each(partial(self._outside, self._place(name), field))
            found[name] = sum(parts, Outside())
        return found

    def encoded(self, schema: Schema) -> EncodedColumns | StreamedRows:
        """Return the rows on the grid: those of a file are read when they are asked for."""
        places = {name: self._place(name) for name in schema.fields}
        rows = StreamedRows(self._blocks, schema, places)
        if isinstance(self._blocks, ParquetBlocks):
            return rows
        whole = rows.take(slice(0, len(rows)))
        return EncodedColumns(dict(whole.values), dict(whole.present), whole.rows)

    def _place(self, name: str) -> int:
        place = Table(self.path, self.written, self.names, ()).column_index(name)
        if place in self._odd:
            raise odd_column(self.path, name, self._odd[place])
        return place

    def _each(self, work: Callable[[int], Any]) -> Iterator[Any]:
        """Generate what `work` makes of each block, in order, with few blocks in memory."""
        blocks = range(len(self._blocks.starts) - 1)
        return map(work, blocks) if len(blocks) < 2 else in_order(work, blocks)

    def _numbers(self, place: int, cells: NumberCells, block: int) -> list[NumberBlock]:
        return count_numbers(cells, plain(self._blocks.column(block, place)))

    def _texts(self, place: int, counts: TextCounts, block: int) -> tuple[int, TextBlock]:
        column = self._blocks.column(block, place)
        found = text_block(self.path, self.written[place], column)
        counts.prepare(found)
        return self._blocks.starts[block], found

    def _outside(self, place: int, field: Field, block: int) -> Outside:
        column = plain(self._blocks.column(block, place))
        if is_numeric(column.type) and takes_numbers(field):
            numbers, known = numbers_of(column)
            given = numbers if known is None else numbers[known]
            return Outside(len(given), 0, outside(field, given))
        counts = text_block(self.path, self.written[place], column).counts
        texts = counts.items()
        cells: dict[object, int] = {cell: n for cell, n in texts if not is_missing(cell, field)}
        return Outside.of(field, cells)


class StreamedRows:
    """Rows of Arrow data on the grid of a schema, read block by block and field by field.

    Columns of the latest blocks are kept, in as few bytes as the fields' bounds allow, for the next
    question about them. Any thread may ask.
    """

    def __init__(self, blocks: Blocks, schema: Schema, places: Mapping[str, int]) -> None:
        self._blocks = blocks
        self._schema = schema
        self._places = places
        self._kept: OrderedDict[tuple[int, str], Encoded] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return StreamedRows, (self._blocks, self._schema, self._places)

    def __len__(self) -> int:
        return int(self._blocks.starts[-1])

    def take(self, rows: slice | NDArray[Any]) -> EncodedColumns:
        """Select records at a slice of step 1, or at positions in rising order, read when used."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            count = max(stop - start, 0)
            pieces = self._of_slice(start, stop)
        else:
            count, pieces = len(rows), self._of_positions(rows)
        columns = EncodedOnce(partial(self.field, pieces=pieces))
        return EncodedColumns(
            DeferredColumns(self._schema.fields, columns.values),
            DeferredColumns(self._schema.fields, columns.present),
            count,
        )

    def _of_slice(self, start: int, stop: int) -> list[Piece]:
        starts = self._blocks.starts
        pieces: list[Piece] = []
        row = start
        while row < stop:
            block = block_of(starts, row)
            end = min(stop, starts[block + 1])
            pieces.append((block, slice(row - starts[block], end - starts[block])))
            row = end
        return pieces

    def _of_positions(self, rows: NDArray[Any]) -> list[Piece]:
        starts = self._blocks.starts
        pieces: list[Piece] = []
        done = 0
        while done < len(rows):
            block = block_of(starts, int(rows[done]))
            end = int(np.searchsorted(rows, starts[block + 1]))
            pieces.append((block, rows[done:end] - starts[block]))
            done = end
        return pieces

    def field(self, name: str, pieces: Sequence[Piece]) -> Encoded:
        """Return a field's values, and where they are, at rows of some blocks."""
        parts = [_taken(self._block(block, name), rows) for block, rows in pieces]
        return joined(parts or [_taken(self._block(0, name), slice(0, 0))])

    def _block(self, block: int, name: str) -> Encoded:
        key = block, name
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        field, place = self._schema.fields[name], self._places[name]
        column = plain(self._blocks.column(block, place))
        if is_numeric(column.type) and takes_numbers(field):
            found = encoded(name, field, numbers_of(column))
        else:
            written = self._blocks.schema.names[place]
            found = encoded(name, field, text_block(self._blocks.path, written, column))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._bytes += _size(found)
            while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
        return found


def parquet_records(path: Path) -> ArrowRecords:
    """Return the records of a Parquet file (see `ArrowRecords`)."""
    return ArrowRecords(ParquetBlocks(path))


def frame_records(table: pyarrow.Table, path: Path) -> ArrowRecords:
    """Return the records of an Arrow table (see `ArrowRecords`); `path` names it in messages."""
    return ArrowRecords(FrameBlocks(table, path))


def _value_type(kind: Any) -> Any:
    return getattr(kind, "value_type", kind)


def _taken(column: Encoded, rows: slice | NDArray[Any]) -> Encoded:
    values, present = column
    return rows_of(values, rows), present[rows]


def _size(column: Encoded) -> int:
    values, present = column
    words = values if isinstance(values, tuple) else (values,)
    mask = 0 if present.strides == (0,) else present.nbytes
    return sum(word.nbytes for word in words) + mask
