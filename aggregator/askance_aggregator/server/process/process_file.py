"""File that names the process which serves a configuration; a lock says that it still runs."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from askance_aggregator.server.process.files import NotOperable
from askance_aggregator.server.process.logs import logger

_LOG = logger(__name__)


def process_path(configuration: Path) -> Path:
    """Return the path of the file, beside the configuration."""
    return configuration.with_suffix(".pid")


@contextmanager
def process_file(path: Path) -> Iterator[None]:
    """Name this process in a file and lock it, for the length of a block.

    Where the file cannot be written, or another process holds it (a replica with the same
    configuration), this process serves without: it is then reloaded by SIGHUP.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        _LOG.warning("no process file", path=str(path), message=error.strerror)
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except OSError as error:
        _LOG.warning("no process file", path=str(path), message=error.strerror)
    try:
        yield
    finally:
        os.close(descriptor)  # and with it the lock; the file stays, and names no running process


def reload_process(path: Path) -> int:
    """Send SIGHUP to the process that a file names, and return its number.

    Raises:
      NotOperable: no process holds the file, or it may not be signalled.
    """
    try:
        with path.open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        number = int(path.read_text())
        try:
            os.kill(number, signal.SIGHUP)
        except OSError as error:
            raise NotOperable(f"process {number}: {error.strerror}") from None
        return number
    except OSError:
        pass
    raise NotOperable(
        f"{path}: expected a running aggregator, got none (start it, or send it SIGHUP yourself)"
    )
