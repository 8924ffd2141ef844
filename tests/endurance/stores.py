"""Stores of aggregators that are killed: files, read from copies, and databases of one server."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol

from askance_aggregator.store import PostgresqlLocation, SqliteLocation, Store, StoreLocation

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.postgresql import PostgresqlServer  # noqa: E402 - a script is not run from the root


class Stores(Protocol):
    """Stores of one kind."""

    servers: int  # processes that can be killed beside the aggregator and the gateway

    def new(self, folder: Path) -> StoreLocation:
        """Make the store of an aggregator whose folder this is."""
        ...

    def looking(self, location: StoreLocation) -> AbstractContextManager[Store]:
        """Provide a store to be read while an aggregator may hold it."""
        ...

    def kill_server(self) -> None:
        """Kill the server and start it again."""
        ...


class SqliteStores:
    """A file in each aggregator's folder, read from a copy after its process was killed."""

    servers = 0

    def new(self, folder: Path) -> StoreLocation:
        """Return the store that `askance aggregator init` has made."""
        return SqliteLocation(folder / "store.sqlite")

    @contextmanager
    def looking(self, location: StoreLocation) -> Iterator[Store]:
        """Yield a copy."""
        assert isinstance(location, SqliteLocation)
        with copied(location.path) as copy, closing(SqliteLocation(copy).open()) as store:
            yield store

    def kill_server(self) -> None:
        """Raise AssertionError: there is none."""
        raise AssertionError("expected a store with a server")


class PostgresqlStores:
    """A database per aggregator, all in one server."""

    servers = 1

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server

    def new(self, folder: Path) -> StoreLocation:
        """Make a database with the schema."""
        location = PostgresqlLocation(self._server.new_database())
        location.migrate()
        return location

    @contextmanager
    def looking(self, location: StoreLocation) -> Iterator[Store]:
        """Yield the store, which another process may hold."""
        with closing(location.open_to_read()) as store:
            yield store

    def kill_server(self) -> None:
        """Kill the server with all its processes; it recovers when it starts."""
        self._server.kill()
        self._server.start()


@contextmanager
def stores_of(kind: str) -> Iterator[Stores]:
    """Provide stores of a kind: sqlite or postgresql."""
    if kind == "sqlite":
        yield SqliteStores()
        return
    with PostgresqlServer.running() as server:
        yield PostgresqlStores(server)


@contextmanager
def copied(file: Path) -> Iterator[Path]:
    """A copy of the database of a process that was killed."""
    with tempfile.TemporaryDirectory(prefix="askance-") as folder:
        for suffix in ("", "-wal", ".mark"):
            part = file.with_name(file.name + suffix)
            if part.exists():
                shutil.copy(part, folder)
        yield Path(folder) / file.name
