"""Connections to one PostgreSQL database: settings, transactions, and the hold of its processes."""

from __future__ import annotations

import select
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import psycopg
from psycopg import errors
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg_pool import ConnectionPool

from askance_aggregator.store.dialect import Execute, StatementAnswer
from askance_aggregator.store.moves import check_not_moved
from askance_aggregator.store.postgresql import schema
from askance_aggregator.store.watch import UNWATCHED, StoreWatch
from askance_client.errors import StoreError, StoreFailed

# PostgreSQL's binary form of an array: dimensions, whether it has nulls, the elements' type, then
# length and lower bound per dimension; each element is its length in bytes and its bytes.
_HEADER = struct.Struct(">iiIii")
_LENGTH = struct.Struct(">i")
_BIGINT_OID, _BIGINTS_OID = 20, 1016
_BYTEA_OID, _BYTEAS_OID = 17, 1001
_BIGINT = np.dtype([("length", ">i4"), ("value", ">i8")])


@dataclass(frozen=True, slots=True)
class Bigints:
    """An array of bigint; numbers of less than 64 bits."""

    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Byteas:
    """An array of bytea."""

    values: Sequence[bytes]


class _BigintsDumper(Dumper):
    format = Format.BINARY
    oid = _BIGINTS_OID

    def dump(self, obj: Bigints) -> bytes:
        elements = np.empty(len(obj.values), _BIGINT)
        elements["length"] = 8
        elements["value"] = obj.values
        return _header(_BIGINT_OID, len(obj.values)) + elements.tobytes()


class _ByteasDumper(Dumper):
    format = Format.BINARY
    oid = _BYTEAS_OID

    def dump(self, obj: Byteas) -> bytes:
        pack = _LENGTH.pack
        parts = [part for value in obj.values for part in (pack(len(value)), value)]
        return _header(_BYTEA_OID, len(obj.values)) + b"".join(parts)


def register_arrays(connection: psycopg.Connection) -> None:
    """Let a connection take `Bigints` and `Byteas` as parameters."""
    connection.adapters.register_dumper(Bigints, _BigintsDumper)
    connection.adapters.register_dumper(Byteas, _ByteasDumper)


def _header(oid: int, count: int) -> bytes:
    return _HEADER.pack(1, 0, oid, count, 1) if count else _HEADER.pack(0, 0, oid, 0, 1)[:12]


Row: TypeAlias = tuple[Any, ...]  # typed by the columns, not by Python
Connection: TypeAlias = psycopg.Connection[Row]
T = TypeVar("T")

_CONNECTIONS = 16  # more threads than the service has at work on its store
_WAIT_S = 5.0  # for a free connection
_RECONNECT_S = 1.0  # of the pool by itself; afterwards a caller makes it try again
_HELD = 0x61736B73  # "asks": the advisory lock of a migration, and shared of those that write
_PREDECESSOR = "2s"  # for the server to notice that the process before has died
_TRIES = 5  # of a transaction that the database gave up for another
_DEFAULTS = {
    "application_name": "askance",
    "client_encoding": "UTF8",
    "connect_timeout": "5",
    # A database that is gone without a word is noticed in some 25 s, and a write to it in 15 s.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
NEEDED = {"server_encoding": "UTF8", "fsync": "on", "full_page_writes": "on"}
# A commit returns when it is durable, whatever the role's or database's default; limits end what
# hangs. A synchronous standby that has to apply a commit first is more than is needed, and is kept.
_SETTINGS = """
SELECT set_config('search_path', %s, false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('lock_timeout', '30s', false), set_config('statement_timeout', '120s', false),
  set_config('idle_in_transaction_session_timeout', '60s', false),
  set_config('idle_session_timeout', '0', false),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)
"""
_RETRIED = (errors.SerializationFailure, errors.DeadlockDetected)
_REFUSED = (psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError)


class PostgresqlDatabase:
    """A pool of connections whose transactions are durable when they return.

    Processes that write share an advisory lock, each on a connection of its own; a migration takes
    it alone, and raises a token. Every write checks the token under a lock, so that a process that
    lost its hold without knowing it writes nothing to a schema of another version.

    A `name` is the database's address in errors, without a password; `parameters` returns libpq's
    connection parameters and is asked anew for every connection. Where there is no connection,
    StoreFailed is raised.
    """

    def __init__(self, name: str, parameters: Callable[[], dict[str, str]]) -> None:
        """Use `open`."""
        self.name = name
        self.token: int | None = None
        self._parameters = parameters
        self._watch: StoreWatch = UNWATCHED
        self._lost = False
        self._hold_lock = threading.Lock()
        self._hold: Connection | None = None
        self._hold_steps: list[Callable[[Connection], None]] = []
        self._processes: set[int] = set()  # of the server, for connections that were made here
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            kwargs=self._connection_arguments,
            min_size=1,
            max_size=_CONNECTIONS,
            open=False,
            configure=self._configure,
            timeout=_WAIT_S,
            reconnect_timeout=_RECONNECT_S,
            name="askance-store",
        )

    @classmethod
    def open(cls, name: str, parameters: Callable[[], dict[str, str]]) -> PostgresqlDatabase:
        """Connect, to read; `hold` allows writes.

        Raises:
          StoreError: another schema version than this one's, a database that loses commits, or a
            store that was moved away or not wholly moved here.
        """
        made = cls(name, parameters)
        try:
            with made._translated("cannot be opened"), made._connect() as connection:
                _check_server(connection, name)
                schema.check(connection, name)
                check_not_moved(executing(connection), name)
            made._pool.open()
        except StoreError:
            made.close()
            raise
        return made

    @classmethod
    def migrate(cls, name: str, parameters: Callable[[], dict[str, str]]) -> int:
        """Bring the database's schema to this version, and return the version.

        Raises:
          StoreFailed: a step failed; steps before it are applied.
          StoreError: the role may not, or a process that serves holds the store.
          UnsupportedStore: written by a newer version; nothing was changed.
        """
        with cls.alone(name, parameters, "cannot be migrated") as connection:
            version = schema.migrate(connection, name)
            check_not_moved(executing(connection), name)
            connection.execute("UPDATE holder SET token = token + 1")
            return version

    @classmethod
    @contextmanager
    def alone(
        cls, name: str, parameters: Callable[[], dict[str, str]], failure: str
    ) -> Iterator[Connection]:
        """Hold a database alone on one connection, as long as that is open.

        A process that lost its hold without knowing it may write until the token is raised.
        """
        made = cls(name, parameters)
        try:
            with made._translated(failure), closing(made._connect()) as connection:
                _check_server(connection, name)
                _take_lock(connection, name)
                yield connection
        finally:
            made.close()

    @classmethod
    def fill(
        cls,
        name: str,
        parameters: Callable[[], dict[str, str]],
        version: int,
        step: Callable[[Connection], None],
    ) -> None:
        """Make a schema of a version, fill it by one transaction and bring it to this version.

        The database has no schema yet, or has that version's.

        Raises:
          StoreFailed: a step failed; nothing was filled.
          StoreError: another schema is there, a process that serves holds the store, or it was
            moved away or not wholly moved here.
        """
        with cls.alone(name, parameters, "cannot be filled") as connection:
            found = schema.version(connection)
            if found not in (None, version):
                raise StoreError(
                    f"store {name}: expected no schema, or one of version {version}, got one"
                    f" of version {found} (give a new database)"
                )
            if one_row(connection, "SELECT to_regclass('moves') IS NOT NULL")[0]:
                check_not_moved(executing(connection), name)
            schema.migrate(connection, name, version)
            with connection.transaction():
                step(connection)
            schema.migrate(connection, name)
            connection.execute("UPDATE holder SET token = token + 1")

    def beside(self, step: Callable[[Connection], T]) -> T:
        """Run a step on a connection of its own, which is closed at the end."""
        with self._translated("cannot be read"), closing(self._connect()) as connection:
            return step(connection)

    def hold(self, watch: StoreWatch | None = None) -> None:
        """Become a process that writes; StoreError if the database is being migrated."""
        with self._translated("cannot be held"), self._hold_lock:
            self._hold = self._locked_connection()
            self.token = int(one_row(self._hold, "SELECT token FROM holder")[0])
            check_not_moved(executing(self._hold), self.name)  # since it was opened
        self._watch = watch or UNWATCHED

    def hold_also(self, step: Callable[[Connection], None]) -> None:
        """Run a step on the connection of the hold, and on each that replaces it."""
        with self._translated("cannot be held"), self._hold_lock:
            if self._hold is None or not _is_open(self._hold):
                self._hold = self._locked_connection()
            step(self._hold)
            self._hold_steps.append(step)

    def connect(self) -> Connection:
        """Return a connection beside the pool, which the caller closes."""
        with self._translated("cannot be reached"):
            return self._connect()

    @contextmanager
    def locked(self, key: int) -> Iterator[None]:
        """Hold an advisory lock during the block, on a connection of its own; wait for it 30 s."""
        with closing(self.connect()) as connection:
            with self._translated("cannot be locked"):
                connection.execute("SELECT pg_advisory_lock(%s::bigint)", (key,))
            yield

    def read(self, step: Callable[[Connection], T]) -> T:
        """Run statements that read."""
        try:
            with self._translated("cannot be read"), self._connection() as connection:
                return step(connection)
        except StoreFailed as error:
            self._watch.store_failed(error)
            raise

    def rows(self, statement: str, parameters: tuple[object, ...] = ()) -> list[Row]:
        """Run a statement as `read` does and return its rows."""
        return self.read(
            lambda connection: connection.execute(
                statement.encode(), parameters, binary=True
            ).fetchall()
        )

    def row(self, statement: str, parameters: tuple[object, ...] = ()) -> Row | None:
        """Run a statement as `read` does and return its first row, None if it has none."""
        rows = self.rows(statement, parameters)
        return rows[0] if rows else None

    def write(self, step: Callable[[Connection], T]) -> T:
        """Run a step as one transaction, again if the database gave it up for another.

        Raises:
          StoreFailed: nothing may be acknowledged; what became durable all the same is found by a
            later read.
          StoreError: nothing was stored: the database refused it, or it has been migrated.
        """

        def transaction(connection: Connection) -> T:
            with connection.transaction():
                row = connection.execute(
                    "SELECT token FROM holder WHERE token = %s FOR SHARE", (self.token,)
                ).fetchone()
                if row is None:
                    raise self.migrated()
                return step(connection)

        return self.run(transaction)

    def run(self, step: Callable[[Connection], T]) -> T:
        """Run a step that checks `token` and commits by itself; raises as `write`."""
        try:
            with self._translated("nothing was acknowledged"):
                self._keep_hold()
                result = self._tried(step)
        except StoreFailed as error:
            self._watch.store_failed(error)
            raise
        self._watch.store_written()
        return result

    def migrated(self) -> StoreError:
        """The complaint about a schema that was changed after this process opened it."""
        return StoreError(
            f"store {self.name}: expected the schema that was there when it was opened, found it"
            " migrated since; restart this process"
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()
        if self._hold is not None:
            self._hold.close()

    def _tried(self, step: Callable[[Connection], T]) -> T:
        for _ in range(_TRIES - 1):
            with suppress(*_RETRIED), self._connection() as connection:
                return step(connection)
        with self._connection() as connection:
            return step(connection)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Provide a connection; fail at once, and with the reason, while the database is gone."""
        # The pool alone would wait, try again with growing delays, and keep the reason for its log.
        if self._lost:
            self._connect().close()
        connection = self._pool.getconn()
        while not _is_open(connection):
            self._lost = True
            connection.close()
            self._pool.putconn(connection)  # discards it
            self._connect().close()
            connection = self._pool.getconn()
        self._lost = False
        try:
            yield connection
        finally:
            self._lost = connection.closed
            self._pool.putconn(connection)

    def _keep_hold(self) -> None:
        """Take the lock again on a new connection if the one that had it is broken."""
        if self.token is None:
            raise StoreError(f"store {self.name}: expected it held, found it opened to be read")
        if self._hold is not None and _is_open(self._hold):
            return
        with self._hold_lock:
            if self._hold is None or not _is_open(self._hold):
                if self._hold is not None:
                    self._hold.close()
                self._hold = self._locked_connection()

    def _locked_connection(self) -> Connection:
        connection = self._connect()
        try:
            _share_lock(connection, self.name)
            for step in self._hold_steps:
                step(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def has_process(self, number: int) -> bool:
        """Return whether a process of the server serves a connection of this process.

        True also for one that did and whose number another process has now, which is rare.
        """
        return number in self._processes

    def _connect(self) -> Connection:
        connection = psycopg.connect(**self._connection_arguments())
        self._configure(connection)
        return connection

    def _configure(self, connection: Connection) -> None:
        _configure(connection)
        self._processes.add(connection.info.backend_pid)

    def _connection_arguments(self) -> dict[str, Any]:
        return {**_DEFAULTS, **self._parameters(), "autocommit": True}

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Raise psycopg's errors as the store's own, with its name."""
        try:
            yield
        except _REFUSED as error:
            raise StoreError(f"store {self.name}: {what}: {_line(error)}") from None
        except psycopg.Error as error:
            raise StoreFailed(f"store {self.name}: {what}: {_line(error)}") from None


def executing(connection: Connection) -> Execute:
    """Return what runs the statements of a transaction that SQLite understands too."""

    def execute(statement: str, parameters: Sequence[object]) -> StatementAnswer:
        return connection.execute(statement.replace("?", "%s").encode(), parameters, binary=True)

    return execute


def add_partition(execute: Execute, study: int) -> None:
    """Make the table of a study's reports; attached, it takes no lock that reports wait for."""
    execute(
        f"CREATE TABLE reports_{study} (LIKE reports INCLUDING DEFAULTS INCLUDING CONSTRAINTS)", ()
    )
    execute(f"ALTER TABLE reports ATTACH PARTITION reports_{study} FOR VALUES IN ({study})", ())


def one_row(connection: Connection, statement: str, parameters: tuple[object, ...] = ()) -> Row:
    """Run a statement that gives a row, in a transaction, and return it."""
    row = connection.execute(statement.encode(), parameters, binary=True).fetchone()
    assert row is not None
    return row


def _configure(connection: Connection) -> None:
    register_arrays(connection)
    connection.execute(_SETTINGS, (schema.SCHEMA,))


def _check_server(connection: Connection, store: str) -> None:
    """Refuse a server that may lose a commit in a crash, or a database of another encoding."""
    for name, needed in NEEDED.items():
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        if row != (needed,):
            raise StoreError(f"store {store}: expected {name} = {needed}, found {row and row[0]}")


def _take_lock(connection: Connection, store: str) -> None:
    """Take the lock of a migration; a process that has just died may still share it."""
    await_lock(
        *(connection, b"SELECT pg_advisory_lock(%s)", (_HELD,)),
        f"store {store}: expected one that no other process uses, found it in use: stop that"
        " process first",
    )
    connection.execute(_SETTINGS, (schema.SCHEMA,))


def _share_lock(connection: Connection, store: str) -> None:
    """Take the lock that processes which write share."""
    await_lock(
        *(connection, b"SELECT pg_advisory_lock_shared(%s)", (_HELD,)),
        f"store {store}: expected none that is being migrated, found a migration: start again when"
        " it has ended",
    )


def await_lock(
    connection: Connection, statement: bytes, parameters: Sequence[object], refusal: str
) -> None:
    """Take a lock that the process before this one may still hold, or raise StoreError."""
    connection.execute("SELECT set_config('lock_timeout', %s, false)", (_PREDECESSOR,))
    try:
        connection.execute(statement, parameters)
    except errors.LockNotAvailable:
        raise StoreError(refusal) from None


def _is_open(connection: Connection) -> bool:
    """Return whether a connection is open, as far as this machine knows; without a round trip."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if not poll.poll(0):
        return True
    with suppress(psycopg.Error):  # the server said something: a notice, or that it ends
        connection.execute("")
    return not connection.closed


def _line(error: psycopg.Error) -> str:
    """The first line of what the database said: later ones may quote a row."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
