"""Kinds of record sources, by the words of a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.records.databases import (
    Database,
    KeyedDatabase,
    Select,
    select_duckdb,
    select_sqlite,
)
from askance_client.records.naming import AllRows, ByColumn, Naming
from askance_client.records.processes import CommandReader, EndpointReader, EnvironmentReader
from askance_client.records.sources import ReadLimits, RecordSource, Several
from askance_client.records.table_sources import (
    DirectorySource,
    FileReader,
    TableReader,
    TableSource,
)
from askance_client.records.tables import (
    Table,
    read_csv,
    read_json,
    read_json_lines,
    table_of_items,
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Place that records come from.

    Args:
      kind: a key of `KINDS`.
      where: a path, a command's words, a URL or a prefix, one word but for a command.
      query: of a database, else None.
    """

    kind: str
    where: tuple[str, ...]
    query: str | None = None


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Settings of a source besides its origin.

    Args:
      folder: what relative paths are relative to, and where commands run.
      naming: which rows are answered for, under which names; None: all are of one member, or as
        a kind that names its members has it.
    """

    folder: Path
    naming: Naming | None
    several: Several
    limits: ReadLimits


@dataclass(frozen=True, slots=True)
class SourceKind:
    """Kind of record sources.

    Args:
      key: the configuration's key of its place: data, command, url or environment.
      suffixes: of files that are of this kind unless the configuration names another.
      names: whether the kind names its members itself.
    """

    key: str
    open: Callable[[Origin, SourceSettings], RecordSource]
    suffixes: tuple[str, ...] = ()
    queried: bool = False
    names: bool = False


def read_parquet(path: Path) -> Table:
    """Read the records of a Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InvalidParameter(
            "records: expected pyarrow installed to read Parquet (pip install pyarrow)"
        ) from None
    try:
        items = parquet.read_table(path).to_pylist()
    except OSError as error:
        raise InvalidRecord(f"{path}: cannot be read: {error.strerror}") from None
    except pyarrow.ArrowException:
        raise InvalidRecord(f"{path}: expected a Parquet file, got other bytes") from None
    return table_of_items(path, items)


def open_source(origin: Origin, settings: SourceSettings) -> RecordSource:
    """Make a record source; nothing is read."""
    return KINDS[origin.kind].open(origin, settings)


def kind_of_path(path: str) -> str:
    """Return the kind of a file by its suffix; csv unless another kind has it."""
    suffix = Path(path).suffix.lower()
    return next((name for name, kind in KINDS.items() if suffix in kind.suffixes), "csv")


def _table_source(reader: TableReader, settings: SourceSettings) -> RecordSource:
    rule = settings.naming or AllRows()
    return TableSource(reader, rule, settings.several, settings.limits)


def _of_file(parse: Callable[[Path], Table]) -> Callable[[Origin, SourceSettings], RecordSource]:
    def open_file(origin: Origin, settings: SourceSettings) -> RecordSource:
        path = settings.folder.joinpath(origin.where[0])
        return _table_source(FileReader(path, parse, settings.limits.wall_ms), settings)

    return open_file


def _of_database(select: Select) -> Callable[[Origin, SourceSettings], RecordSource]:
    def open_database(origin: Origin, settings: SourceSettings) -> RecordSource:
        path = settings.folder.joinpath(origin.where[0])
        database = Database(path, origin.query or "", select)
        if isinstance(settings.naming, ByColumn):  # asked for one key, not for the whole table
            return KeyedDatabase(database, settings.naming, settings.several, settings.limits)
        return _table_source(database, settings)

    return open_database


def _directory(origin: Origin, settings: SourceSettings) -> RecordSource:
    return DirectorySource(settings.folder.joinpath(origin.where[0]), _PARSERS)


def _command(origin: Origin, settings: SourceSettings) -> RecordSource:
    return _table_source(CommandReader(origin.where, settings.folder), settings)


def _endpoint(origin: Origin, settings: SourceSettings) -> RecordSource:
    return _table_source(EndpointReader(origin.where[0]), settings)


def _environment(origin: Origin, settings: SourceSettings) -> RecordSource:
    return _table_source(EnvironmentReader(origin.where[0], os.environ), settings)


KINDS: Mapping[str, SourceKind] = {
    "csv": SourceKind("data", _of_file(read_csv), (".csv",)),
    "json": SourceKind("data", _of_file(read_json), (".json",)),
    "json-lines": SourceKind("data", _of_file(read_json_lines), (".jsonl", ".ndjson")),
    "parquet": SourceKind("data", _of_file(read_parquet), (".parquet",)),
    "sqlite": SourceKind(
        "data", _of_database(select_sqlite), (".sqlite", ".sqlite3", ".db"), queried=True
    ),
    "duckdb": SourceKind("data", _of_database(select_duckdb), (".duckdb",), queried=True),
    "directory": SourceKind("data", _directory, names=True),
    "command": SourceKind("command", _command),
    "http": SourceKind("url", _endpoint),
    "environment": SourceKind("environment", _environment),
}
"""Every kind, by its word in a configuration."""

_PARSERS: Mapping[str, Callable[[Path], Table]] = {
    ".csv": read_csv,
    ".json": read_json,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
}
