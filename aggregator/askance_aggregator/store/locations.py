"""Addresses of stores, as operators write them, and the stores that they open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from askance_aggregator.store import moves
from askance_aggregator.store.backups import BackupFile, Manifest, open_backup
from askance_aggregator.store.inspection import StoreFacts, inspect_file
from askance_aggregator.store.migrations import KIND
from askance_aggregator.store.sql_store import Store
from askance_aggregator.store.sqlite import SQLITE, SqliteStore, restore_sqlite
from askance_aggregator.store.sqlite_moves import held_sqlite, new_store
from askance_aggregator.store.watch import StoreWatch
from askance_client.errors import InvalidParameter, StoreError
from askance_client.printable import value_text

if TYPE_CHECKING:
    from askance_aggregator.store.postgresql import PostgresqlDatabase, PostgresqlStore

_SQLITE = "sqlite:///"
_POSTGRESQL = ("postgresql://", "postgres://")
_EXPECTED = f"expected {_SQLITE}FILE or {_POSTGRESQL[0]}[USER@]HOST[:PORT]/DATABASE"


class StoreLocation(Protocol):
    """Address of a store.

    Methods that open the store raise StoreError if there is none, or it is damaged, not reachable
    or in use by a process that excludes this one; UnsupportedStore if a newer version wrote it.
    """

    def with_password_file(self, path: Path) -> StoreLocation:
        """Return the location with the file that holds its password.

        Raises:
          InvalidParameter: a store without a password.
        """
        ...

    def open(self, watch: StoreWatch | None = None) -> Store:
        """Open the store to serve from it, alone; `watch` observes later operations."""
        ...

    def open_beside(self) -> Store:
        """Open the store for an operator's command, also while processes serve from it."""
        ...

    def open_to_read(self) -> Store:
        """Open the store to look into it while no process serves from it; raises as `open`."""
        ...

    def open_to_look(self) -> Store:
        """Open the store to look into it, also while processes serve from it."""
        ...

    def migrate(self) -> int:
        """Bring the store's schema to this version, and return the version.

        If a step cannot be applied, those before it are.
        """
        ...

    def inspect(self, now_s: Callable[[], float]) -> StoreFacts:
        """Read the store's state without holding or changing it; `now_s` is this machine's clock.

        Raises:
          StoreError: none there, not a store, or not reachable.
        """
        ...

    @property
    def secret_files(self) -> tuple[Path, ...]:
        """Files that hold a secret."""
        ...

    def restore(self, backup: BackupFile, now_s: int) -> None:
        """Make the store of a backup, where there is none or an empty one.

        Raises:
          StoreError: a store with content is there, or the backup is damaged, of another kind of
            store or, as UnsupportedStore, of a newer version; nothing was stored.
        """
        ...

    def hold(self, new: moves.MoveMark | None = None) -> AbstractContextManager[moves.MoveEnd]:
        """Hold the store alone, to be moved; with `new`, make one with that mark where none is."""
        ...

    @property
    def control(self) -> Path | None:
        """Path of the socket at which the process that holds the store alone takes commands.

        None: commands open the store beside any process.
        """
        ...


@dataclass(frozen=True, slots=True)
class SqliteLocation:
    """Address of a store in one SQLite file."""

    path: Path

    def __str__(self) -> str:
        return f"{_SQLITE}{self.path}"

    def with_password_file(self, path: Path) -> StoreLocation:
        raise InvalidParameter(
            f"store_password_file: expected none for a SQLite store, got {str(path)!r}"
        )

    def open(self, watch: StoreWatch | None = None) -> Store:
        return SqliteStore.open_to_serve(self.path, watch)

    def open_beside(self) -> Store:
        return SqliteStore.open_beside(self.path)

    def open_to_read(self) -> Store:
        return SqliteStore.open(self.path)

    def open_to_look(self) -> Store:
        return self.open_beside()

    def migrate(self) -> int:
        SqliteStore.open(self.path).close()  # applies the steps that it lacks
        return KIND.version

    def restore(self, backup: BackupFile, now_s: int) -> None:
        restore_sqlite(backup, self.path, now_s)

    def hold(self, new: moves.MoveMark | None = None) -> AbstractContextManager[moves.MoveEnd]:
        path = self.path.absolute()  # the other end keeps the address
        return held_sqlite(path, str(SqliteLocation(path)), new)

    @property
    def control(self) -> Path | None:
        return self.path.with_name(f"{self.path.name}.sock")

    def inspect(self, now_s: Callable[[], float]) -> StoreFacts:
        return inspect_file(self.path)

    @property
    def secret_files(self) -> tuple[Path, ...]:
        return (self.path,)


@dataclass(frozen=True, slots=True)
class PostgresqlLocation:
    """Address of a store in a PostgreSQL database.

    Args:
      url: a connection URI as libpq reads it, without a password.
      password_file: holds the password and nothing else, read anew for every connection; None:
        libpq finds one (PGPASSFILE, ~/.pgpass, PGPASSWORD), or none is needed.
    """

    url: str
    password_file: Path | None = None

    def __str__(self) -> str:
        return self.url

    def with_password_file(self, path: Path) -> StoreLocation:
        return replace(self, password_file=path)

    def open(self, watch: StoreWatch | None = None) -> Store:
        return _stores().open(self.url, self._parameters(), watch)

    def open_beside(self) -> Store:
        return self.open()

    def open_to_read(self) -> Store:
        return _stores().open_to_read(self.url, self._parameters())

    def open_to_look(self) -> Store:
        return self.open_to_read()

    def migrate(self) -> int:
        return _databases().migrate(self.url, self._parameters())

    def restore(self, backup: BackupFile, now_s: int) -> None:
        _stores()
        from askance_aggregator.store.postgresql.backup import restore_postgresql

        restore_postgresql(self.url, self._parameters(), backup, now_s)

    def hold(self, new: moves.MoveMark | None = None) -> AbstractContextManager[moves.MoveEnd]:
        parameters = self._parameters()  # refuses where psycopg is missing
        from askance_aggregator.store.postgresql.moves import held_postgresql

        return held_postgresql(self.url, parameters, new)

    @property
    def control(self) -> Path | None:
        return None

    def inspect(self, now_s: Callable[[], float]) -> StoreFacts:
        parameters = self._parameters()  # refuses where psycopg is missing
        from askance_aggregator.store.postgresql.inspection import inspect_database

        return inspect_database(self.url, parameters, now_s)

    @property
    def secret_files(self) -> tuple[Path, ...]:
        return () if self.password_file is None else (self.password_file,)

    def _parameters(self) -> Callable[[], dict[str, str]]:
        """The connection parameters, with the password that the file holds at each call."""
        _stores()
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        try:
            given = {name: str(value) for name, value in conninfo_to_dict(self.url).items()}
        except ProgrammingError as error:
            what = str(error).strip()
            raise InvalidParameter(f"store: {_EXPECTED}, got {self.url!r}: {what}") from None
        if self.password_file is None:
            return lambda: given
        path = self.password_file
        _password(path)
        return lambda: {**given, "password": _password(path)}


def store_location(text: str, folder: Path | None = None) -> StoreLocation:
    """Parse the address of a store.

    Args:
      text: sqlite:///FILE, sqlite:////FILE (absolute), or a connection URI of PostgreSQL.
      folder: what a relative FILE is relative to; None: the current folder.
    """
    if text.startswith(_SQLITE) and text != _SQLITE:
        return SqliteLocation((folder or Path()) / text.removeprefix(_SQLITE))
    if text.startswith(_POSTGRESQL):
        shown = without_password(text)
        if shown != text:
            raise InvalidParameter(
                f"expected no password in an address, got one in {value_text(shown)} (put it in a"
                " file: store_password_file in the configuration, or PGPASSFILE)"
            )
        return PostgresqlLocation(text)
    raise InvalidParameter(f"{_EXPECTED}, got {value_text(without_password(text))}")


def move_store(
    source: StoreLocation, target: StoreLocation, context: moves.MoveContext
) -> moves.Moved:
    """Move a store to an empty one of the other kind; both are held alone until the end.

    Raises:
      StoreError: a store of the same kind, or as `moves.move` does; the source is as it was.
    """
    if type(source) is type(target):
        raise StoreError(
            f"store {target}: expected a store of the other kind than {source}, got one of its own"
            " kind (to copy it, back it up and restore the backup)"
        )
    with source.hold() as given:
        moved = moves.check_source(given)  # before a target is made
        if moved is not None and moved.other != str(target):
            raise moved.refusal(given.name)
        with target.hold(context.mark_of_target(given.name)) as taken, new_store() as new:
            return moves.move(given, taken, new, context)


def check_backup(path: Path) -> Manifest:
    """Read a whole backup and return its manifest."""
    with open_backup(path) as backup:
        kind = backup.manifest.kind
        backup.check(kind, _version_of(kind))
        backup.verify()
        return backup.manifest


def _version_of(kind: str) -> int:
    """Return the version of a kind's schema that this program knows; 0: it knows no such kind."""
    if kind == SQLITE:
        return KIND.version
    if kind != "postgresql":
        return 0
    _stores()
    from askance_aggregator.store.postgresql import schema

    return schema.VERSION


def without_password(text: str) -> str:
    """Return an address without the passwords that it may hold; "..." stands in their place."""
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        scheme, mark, rest = text.partition("://")
        return f"{scheme}://...@{rest.rpartition('@')[2]}" if mark and "@" in rest else text
    user, mark, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    netloc = f"{name}:...@{host}" if colon else f"{user}{mark}{host}"
    shown = parts.query
    if any("password" in key for key, _ in query):
        shown = "&".join(
            f"{key}={'...' if 'password' in key else quote(value)}" for key, value in query
        )
    if netloc == parts.netloc and shown == parts.query:
        return text
    return urlunsplit((parts.scheme, netloc, parts.path, shown, parts.fragment))


def _password(path: Path) -> str:
    try:
        return path.read_text().rstrip("\r\n")
    except OSError as error:
        raise StoreError(f"store_password_file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StoreError(f"store_password_file {path}: expected UTF-8 text") from None


def _stores() -> type[PostgresqlStore]:
    """The store's class, by an extra that an aggregator on SQLite does not need."""
    try:
        from askance_aggregator.store.postgresql import PostgresqlStore
    except ImportError as error:
        raise StoreError(
            f"store: expected psycopg for a postgresql:// address, got {error}"
            " (pip install 'askance[postgres]')"
        ) from None
    return PostgresqlStore


def _databases() -> type[PostgresqlDatabase]:
    _stores()
    from askance_aggregator.store.postgresql import PostgresqlDatabase

    return PostgresqlDatabase
