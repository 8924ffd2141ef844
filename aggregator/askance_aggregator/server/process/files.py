"""Files of an operator, and what it means that one cannot be read."""

from __future__ import annotations

from pathlib import Path

from askance_client.errors import AskanceError


class NotOperable(AskanceError):
    """Something that the aggregator needs is missing, in use or unreadable; it does not start."""


def read_needed(path: Path, what: str) -> bytes:
    """The bytes of a file that the aggregator cannot do without.

    Raises:
      NotOperable: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotOperable(f"{what} {path}: cannot be read: {error.strerror}") from None
