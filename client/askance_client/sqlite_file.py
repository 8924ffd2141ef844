"""A SQLite file that holds a ledger or a store: made whole, held alone, synced at every commit.

WAL and synchronous=FULL: what was committed survives a loss of power. The file is held exclusively
while it is open, so that no second process spends or counts on its own. What is no file of the kind
asked for is refused before anything in it is changed, and let go.

A forked child has a copy of each open connection. SQLite, closing it, would fold the log into the
file and delete it under the parent: the child never closes it, not at its end either, and never
uses it.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from askance_client.durable_files import sync
from askance_client.errors import StoreError, StoreFailed, UnsupportedStore


@dataclass(frozen=True, slots=True)
class FileKind:
    """Kind of a file: its application id and its migrations.

    Args:
      name: in errors: "ledger", "store".
      application: four bytes in the file's header that no other kind has.
      steps: SQL that takes an empty file to the present version, a step a version; only ever
        appended to. `user_version` in the header is how many were taken.
      undone: what to say of a step that failed: "nothing was spent".
      make: the command that makes one.
    """

    name: str
    application: int
    steps: tuple[str, ...]
    undone: str
    make: str

    @property
    def version(self) -> int:
        """The present one."""
        return len(self.steps)

    def script(self, taken: int) -> str:
        """Return one transaction that brings a file with `taken` steps to the present version."""
        return (
            f"BEGIN IMMEDIATE; PRAGMA application_id={self.application};"
            f" {''.join(self.steps[taken:])} PRAGMA user_version={self.version}; COMMIT;"
        )


class ProcessLock:
    """Lock that a forked child of the process that made it is refused.

    The child's copy may be held for ever, by a thread that only the parent has.
    """

    forks: ClassVar[int] = 0
    """Forks between the first process and this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forks = ProcessLock.forks

    @property
    def is_own(self) -> bool:
        """True in the process that made the lock; False in a forked child of it."""
        return self._forks == ProcessLock.forks

    def acquire(self) -> None:
        """Wait for the lock."""
        if not self.is_own:
            raise StoreError(
                "store: expected a call in the process that opened it, got one in a forked child"
                " of it: open it after the fork"
            )
        self._lock.acquire()

    def release(self) -> None:
        """Let the lock go."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SqliteFile:
    """An open file of a kind; safe to share between threads."""

    _open: ClassVar[weakref.WeakSet[SqliteFile]] = weakref.WeakSet()

    def __init__(self, connection: sqlite3.Connection, path: Path, kind: FileKind) -> None:
        """Use `create` or `open`."""
        self.connection = connection
        self._path = path
        self._kind = kind
        self.lock = ProcessLock()  # held in every step
        self._stuck = False  # in a transaction that could not be rolled back
        SqliteFile._open.add(self)

    @classmethod
    def create(cls, path: Path, kind: FileKind) -> SqliteFile:
        """Make a new file, readable by its owner only, and open it.

        It is made beside and linked into place when it is whole: a process that dies meanwhile
        leaves nothing at `path`.

        Raises:
          StoreError: something is there already (nothing is ever overwritten), or the disk says no.
        """
        if path.exists():
            raise StoreError(f"{kind.name} {path}: expected no file there yet, found one")
        try:
            descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
            os.close(descriptor)
        except OSError as error:
            raise StoreError(f"{kind.name} {path}: cannot be made: {error.strerror}") from None
        try:
            _fill(Path(beside), kind)
            os.link(beside, path)  # fails, atomically, where something has come to be meanwhile
            sync(path.parent)
        except FileExistsError:
            raise StoreError(f"{kind.name} {path}: expected no file there yet, found one") from None
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{kind.name} {path}: cannot be made: {error}") from None
        finally:
            with suppress(OSError):
                os.unlink(beside)
        return cls.open(path, kind)

    @classmethod
    def open(
        cls, path: Path, kind: FileKind, connect: Callable[[Path], sqlite3.Connection] | None = None
    ) -> SqliteFile:
        """Open a file and bring an older version up to date, or refuse.

        `connect` makes the connection; None: one that holds the file alone.

        Raises:
          StoreError: no file, not of this kind, damaged, or in use.
          UnsupportedStore: written by a newer version.
        """
        name = kind.name
        if not path.is_file():
            raise StoreError(f"{name} {path}: expected a {name}, found no file ({kind.make})")
        try:
            connection = (connect or _connect)(path)
        except sqlite3.Error as error:
            raise StoreError(f"{name} {path}: expected a sound {name}, found: {error}") from None
        try:
            _take_hold(connection, path, kind)
        except sqlite3.Error as error:
            connection.close()
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            expected = "one that no other process uses" if busy else f"a sound {name}"
            found = "it in use: stop that process first" if busy else f"a damaged one: {error}"
            raise StoreError(f"{name} {path}: expected {expected}, found {found}") from None
        except StoreError:
            connection.close()
            raise
        return cls(connection, path, kind)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read, alone.

        Raises:
            StoreError: the file cannot be read, or holds a transaction that was not rolled back.
        """
        with self.lock:
            self._check_usable()
            try:
                yield self.connection
            except sqlite3.Error as error:
                raise StoreFailed(f"{self._kind.name} {self._path}: cannot be read: {error}") from (
                    None
                )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Make one atomic, durable step; a failure of the disk leaves the file as it was.

        Raises:
            StoreError: nothing was made durable, or the file holds a transaction that was not
                rolled back.
        """
        with self.lock:
            self._check_usable()
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise StoreFailed(
                    f"{self._kind.name} {self._path}: {self._kind.undone}: {error}"
                ) from None
            except BaseException:
                self._roll_back()
                raise

    def close(self) -> None:
        """Close the file; a forked child leaves it to its parent."""
        if self.is_own:
            with self.lock:
                self.connection.close()

    @property
    def is_own(self) -> bool:
        """True in the process that opened the file; False in a forked child of it."""
        return self.lock.is_own

    @classmethod
    def leave_to_parent(cls) -> None:
        """Keep the connections of a forked child's parent from being closed, by its end as well."""
        ProcessLock.forks += 1
        for file in cls._open:
            # A reference that is never given back: at a process's end Python drops all others.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(file.connection))

    def _roll_back(self) -> None:
        try:
            if self.connection.in_transaction:  # SQLite rolls back by itself on some errors
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:
            # The open transaction still shows its rows to every read: nothing may leave and
            # nothing may be acknowledged until the file is opened again.
            self._stuck = True

    def _check_usable(self) -> None:
        if self._stuck:
            raise StoreError(
                f"{self._kind.name} {self._path}: {self._kind.undone}: expected a transaction that"
                " was rolled back, got one still open; restart the process"
            )


if hasattr(os, "register_at_fork"):  # Windows has none, and no fork
    os.register_at_fork(after_in_child=SqliteFile.leave_to_parent)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    return connection


# `fullfsync` has an effect on macOS only, where fsync alone leaves data in the drive's cache.
_DURABLE = {
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "fullfsync": ("ON", 1),
    "checkpoint_fullfsync": ("ON", 1),
    "foreign_keys": ("ON", 1),
}


def _set_durable(connection: sqlite3.Connection, path: Path, kind: FileKind) -> None:
    """Set the pragmas that make a commit durable, and read them back."""
    for name, (value, in_force) in _DURABLE.items():
        connection.execute(f"PRAGMA {name}={value}").fetchall()
        row = connection.execute(f"PRAGMA {name}").fetchone()
        if row is None or row[0] != in_force:
            found = "nothing" if row is None else row[0]
            raise StoreError(
                f"{kind.name} {path}: expected {name} = {in_force} in force, got {found}"
            )


def _fill(path: Path, kind: FileKind) -> None:
    """Make a whole file of an empty one; closing it folds the log into it."""
    connection = _connect(path)
    try:
        _set_durable(connection, path, kind)
        connection.executescript(kind.script(0))
    finally:
        connection.close()
    sync(path)


def _take_hold(connection: sqlite3.Connection, path: Path, kind: FileKind) -> None:
    name = kind.name
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != kind.application:
        raise StoreError(f"{name} {path}: expected a {name}, got another kind of file")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > kind.version:
        raise UnsupportedStore(
            f"{name} {path}: expected version {kind.version} at most, found {version}"
        )
    problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise StoreError(f"{name} {path}: expected a sound {name}, found: {problem}")
    _set_durable(connection, path, kind)
    connection.execute("BEGIN IMMEDIATE")  # takes the exclusive lock now, not at the first write
    connection.execute("COMMIT")
    if version < kind.version:
        connection.executescript(kind.script(version))
