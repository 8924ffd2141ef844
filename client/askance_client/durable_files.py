"""New files that last, and are made whole or not at all."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def write_new(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Make a file of these bytes, durable when this returns; what is there is never overwritten.

    Raises:
      OSError: something is there already, or the disk says no; then nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask has taken away
            file.write(data)
            file.flush()
            flush(file.fileno())
        sync(path.parent)  # its name is to last as well
    except OSError:
        path.unlink(missing_ok=True)  # half a key would keep a whole one from being made
        raise


def replace_whole(path: Path, data: bytes) -> None:
    """Put a file of these bytes, of mode 0600, in the place of another, durably.

    Raises:
      OSError: the disk says no; what was there stands as it was.
    """
    beside = path.with_name(f".{path.name}-new")
    beside.unlink(missing_ok=True)
    write_new(beside, data, mode=0o600)
    beside.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file's bytes, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def flush(descriptor: int) -> None:
    """Make an open file's bytes durable."""
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone ends at the drive's cache
    if full is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, full)
