"""Files of an operator: secrets that only their owner reads, and what can be read at all."""

from __future__ import annotations

import os
from pathlib import Path

from askance.client.errors import AskanceError


class NotOperable(AskanceError):
    """Something that the aggregator needs is missing, in use or unreadable; it does not start."""


def write_new(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Makes a file of these bytes, durable when this returns; what is there is never overwritten.

    Raises:
      OSError: something is there already, or the disk says no; then nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask has taken away
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)  # its name is to last as well
    except OSError:
        path.unlink(missing_ok=True)  # half a key would keep a whole one from being made
        raise


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable.

    Raises:
      OSError: the disk says no.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_needed(path: Path, what: str) -> bytes:
    """The bytes of a file that the aggregator cannot do without.

    Raises:
      NotOperable: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotOperable(f"{what} {path}: cannot be read: {error.strerror}") from None
