"""Sources whose members are rows of a table that is read as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

from askance_client.errors import InvalidRecord
from askance_client.records.naming import ALONE, AllRows, Naming, name_in
from askance_client.records.sources import Members, ReadLimits, Several, SourceFailed
from askance_client.records.tables import Table, table_of_items

# A file that was changed so shortly before it was read may be changed once more without another
# time of change: file systems of Linux count these in steps of at most 10 ms.
_SETTLED_MS = 100
_NS_PER_MS = 10**6


class TableReader(Protocol):
    """Table that is read as a whole."""

    @property
    def place(self) -> str:
        """The source's name in messages."""
        ...

    def version(self) -> object | None:
        """Return what differs if the table does; None if it has to be read to know."""
        ...

    def read(self, limits: ReadLimits) -> Table:
        """Read the table now.

        Args:
          limits: of the read; a file is read whatever the time it takes.

        Raises:
          InvalidRecord: it is none.
          SourceFailed: it could not be read, or not in time.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Reading:
    """A table as it was read, and the rows of its members."""

    version: object | None
    table: Table
    rows: Mapping[str, tuple[int, ...]]
    left_out: tuple[str, ...]


class TableSource:
    """Members of a table, by a naming.

    The table that was read last serves the next question as long as its version is the same.

    Args:
      limits: of a read; a caller waits no longer for another caller's read.
    """

    def __init__(
        self, reader: TableReader, rule: Naming, several: Several, limits: ReadLimits
    ) -> None:
        self._reader = reader
        self._rule = rule
        self._several = several
        self._limits = limits
        self._lock = Lock()  # held while the table is read
        self._last: _Reading | None = None

    @property
    def naming(self) -> str:
        return self._rule.text

    def members(self) -> Members:
        reading = self._read(self._limits.patient())
        table = reading.table
        if not reading.rows:
            raise InvalidRecord(f"{table.path}: expected a row with a usable name, got none")
        self._several.check(table, reading.rows)
        theirs = table.choose([row for rows in reading.rows.values() for row in rows])
        warnings = [f"{problem}; values count as missing" for problem in theirs.malformed.values()]
        warnings += [
            f"{problem}; left out, for want of a certain name" for problem in reading.left_out
        ]
        return Members(
            tuple(reading.rows), tuple(f"{table.path}: {warning}" for warning in warnings), theirs
        )

    def load(self, member: str) -> Table:
        reading = self._read(self._limits)
        rows = reading.rows.get(member)
        if rows is None:
            raise SourceFailed(f"{self._reader.place}: expected a row of each member, got none")
        return reading.table.choose(rows)

    def _read(self, limits: ReadLimits) -> _Reading:
        if not self._lock.acquire(timeout=limits.whole_s):
            raise SourceFailed(f"{self._reader.place}: expected the read before to end, got none")
        try:
            version = self._reader.version()
            last = self._last
            if last is None or version is None or last.version != version:
                table = self._reader.read(limits)
                chosen = self._rule.choose(table)
                last = _Reading(version, table, chosen.rows, chosen.left_out)
                self._last = last if version is not None else None
            return last
        finally:
            self._lock.release()


class FileReader:
    """Table in a file, read again when the file has changed."""

    def __init__(
        self, path: Path, parse: Callable[[Path], Table], wall_ms: Callable[[], int]
    ) -> None:
        self._path = path
        self._parse = parse
        self._wall_ms = wall_ms

    @property
    def place(self) -> str:
        return str(self._path)

    def version(self) -> object | None:
        """Return the file's identity, size and times of change.

        None if the file cannot be looked at, or changed just now (see `_SETTLED_MS`).
        """
        try:
            found = self._path.stat()
        except OSError:
            return None
        changed_ns = max(found.st_mtime_ns, found.st_ctime_ns)
        if self._wall_ms() - changed_ns // _NS_PER_MS < _SETTLED_MS:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def read(self, limits: ReadLimits) -> Table:
        return self._parse(self._path)


class DirectorySource:
    """Members with a file each, named by the file's name without its suffix.

    Args:
      folder: the folder; files whose names begin with a dot are none of it.
      parsers: reader of a file, by its suffix in lower case; other files are left out.
    """

    naming = "members are file names"

    def __init__(self, folder: Path, parsers: Mapping[str, Callable[[Path], Table]]) -> None:
        self._folder = folder
        self._parsers = parsers
        self._paths: Mapping[str, Path] = {}

    def members(self) -> Members:
        """Name the members by the files that there are; their content is read later."""
        try:
            found = sorted(self._folder.iterdir())
        except OSError as error:
            raise InvalidRecord(f"{self._folder}: cannot be read: {error.strerror}") from None
        paths: dict[str, Path] = {}
        left_out = []
        for path in found:
            if path.name.startswith(".") or not path.is_file():
                continue
            if path.suffix.lower() not in self._parsers or name_in(path.stem) is None:
                left_out.append(f"{self._folder}: a file is left out, for want of a known suffix")
            elif path.stem in paths:
                raise InvalidRecord(
                    f"{self._folder}: expected one file per member, got two of one name"
                )
            else:
                paths[path.stem] = path
        if not paths:
            raise InvalidRecord(f"{self._folder}: expected a file per member, got none")
        self._paths = paths
        return Members(tuple(paths), tuple(left_out))

    def load(self, member: str) -> Table:
        path = self._paths[member]
        return self._parsers[path.suffix.lower()](path)


class CallableSource:
    """Records from a function of the application.

    Args:
      function: returns a mapping from columns to values, or several of them, one per record.
    """

    naming = AllRows().text

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def members(self) -> Members:
        """Return the one member; the function is not called."""
        return Members((ALONE,))

    def load(self, member: str) -> Table:
        """Call the function."""
        found = self._function()
        items: object = [found] if isinstance(found, Mapping) else found
        if (
            not isinstance(items, Sequence)
            or isinstance(items, str | bytes)
            or not all(isinstance(item, Mapping) for item in items)
        ):
            raise SourceFailed(
                "records: expected a mapping, or a sequence of mappings, from the function, got a"
                f" {type(found).__name__}"
            )
        return table_of_items("records", items)
