"""Files and environment variables of an operator, and what it means that one cannot be read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

from askance_client.errors import AskanceError


class NotOperable(AskanceError):
    """Something that the aggregator needs is missing, in use or unreadable; it does not start."""


class SecretSource(Protocol):
    """Place of a secret: a `Path`, or a `SecretVariable`. As text it names the place only."""

    def read_bytes(self) -> bytes:
        """Return the secret; raise OSError if it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class SecretVariable:
    """Environment variable that holds a secret as text; read when the secret is needed."""

    name: str

    def __str__(self) -> str:
        return f"${self.name}"

    def read_bytes(self) -> bytes:
        text = os.environ.get(self.name)
        if not text:
            raise OSError(0, "it is not set")
        return text.encode()


def read_needed(source: SecretSource, what: str) -> bytes:
    """Read a file, or a variable, that is needed; raise NotOperable if it cannot be read."""
    try:
        return source.read_bytes()
    except OSError as error:
        raise NotOperable(f"{what} {source}: cannot be read: {error.strerror}") from None
