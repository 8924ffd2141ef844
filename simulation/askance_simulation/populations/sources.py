"""Sources of records: a CSV or Parquet file, or a data set that ships with the package.

A data set is made on demand by a pure function, so that nothing is downloaded and no file is
shipped. It is found by name wherever a data file is expected. It is listed by the decorator
`dataset`, in its own module; importing the package lists all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

from askance_aggregator.names import Suits
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import nearest_text, value_text
from askance_client.queries import Schema
from askance_client.records import Table
from askance_simulation.populations.arrow_records import parquet_records
from askance_simulation.populations.files import DELIMITERS, PARQUET, read_csv_columns, read_file
from askance_simulation.populations.tables import MOST_OUTSIDE, Records, TableRecords, records_of

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
        """Return the records as those of a file are returned (see `files.read_file`)."""
        return Table(Path(self.name), self.columns, self.columns, self.make())


_CATALOGUE: dict[str, DataSet] = {}
DATA_SETS: Mapping[str, DataSet] = MappingProxyType(_CATALOGUE)
"""Data sets by name."""


def dataset(
    name: str, summary: str, columns: tuple[str, ...]
) -> Callable[[Callable[[], Rows]], Callable[[], Rows]]:
    """List a data set under `name`; the decorated function makes its rows.

    Raises:
      InvalidParameter: the name is taken.
    """
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

    Raises:
      InvalidParameter: another delimiter, or a share out of range.
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
          InvalidParameter: see `read_parquet`.
        """
        known = self._data_set()
        if known is not None:
            return known.table()
        self._check_name()
        return read_file(self.place, self.delimiter)

    def records(self) -> Table | Records:
        """Return the records to be counted and encoded; those of a Parquet file stay in it.

        Raises: as of `read`.
        """
        known = self._data_set()
        if known is not None:
            return known.table()
        self._check_name()
        if self.place.suffix.lower() == PARQUET:
            return parquet_records(self.place)
        return read_csv_columns(self.place, self.delimiter)

    def stamp(self) -> tuple[int, ...]:
        """Return the file's length, time and number, which differ once it was written; () without.

        Raises:
          InvalidRecord: it cannot be read.
        """
        if self._data_set() is not None or not self.place.exists():
            return ()
        try:
            found = self.place.stat()
        except OSError as error:
            raise InvalidRecord(f"{self.place}: cannot be read: {error.strerror}") from None
        return found.st_size, found.st_mtime_ns, found.st_ino

    def fingerprint(self) -> bytes:
        """Return digests of the content and the name, and the delimiter if it is no comma.

        Raises:
          InvalidRecord: no such file or data set, or it cannot be read.
        """
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

        Args, Raises: as of `DataSource.read` and `tables.records_of`.
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
