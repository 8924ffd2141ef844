"""Blocks of rows of Arrow data: slices of a table in memory, and row groups of a Parquet file.

A block's column is read when it is asked for, alone, so that a file is never in memory as a whole.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from askance_client.errors import InvalidParameter, InvalidRecord

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


class ParquetBlocks:
    """Row groups of a Parquet file, read as often as they are asked for, by any thread.

    It can be pickled: the file is opened again, and must be the one that it was.

    Args:
      path: the file.

    Raises:
      InvalidParameter: pyarrow is not installed.
      InvalidRecord: no file, or none of that form.
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
        """Read one column of a row group; texts come as a dictionary.

        Raises:
          InvalidRecord: the file cannot be read, or is another one since it was opened.
        """
        with self._opened() as file:
            name = self.schema.field(place).name
            return file.read_row_group(block, columns=[name], use_threads=False).column(0)

    @contextmanager
    def _opened(self) -> Iterator[parquet.ParquetFile]:
        """Lend an open file to one thread at a time.

        Raises:
          InvalidRecord: it cannot be read, or is another one than at first.
        """
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
            raise InvalidParameter(
                f"{self.path}: expected pyarrow installed to read it"
                " (pip install 'askance[frames]')"
            ) from None
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
