"""Receivers of webhooks, as the operator configures them."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from askance_aggregator.store import Receiving
from askance_client.errors import InvalidParameter

TIMEOUT_S = 10
LONGEST_WAIT_S = 900
TRY_FOR_S = 3 * 86_400
_PREFIX = "whsec_"
_SECRET_BYTES = range(24, 65)  # by Standard Webhooks
_SECRET = (
    f"expected {_PREFIX} and the base64 of {_SECRET_BYTES[0]} to {_SECRET_BYTES[-1]} bytes in each"
    " line"
)


class SecretFile(Protocol):
    """Place of a secret; as text it names the place only."""

    def read_bytes(self) -> bytes:
        """Return the secret; raise OSError if it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class WebhookReceiver:
    """Receiver of the ends of studies.

    Args:
      name: in status, metrics and the log.
      url: https, or http of a loopback address (see `urls.check_url`).
      secret: place of the secrets that sign, one per line (see `secrets_of`).
      analyst: whose studies; None: all analysts'.
      ca: certificates by which the receiver's is checked (PEM); None: the system's.
      timeout_s: seconds for a whole try.
      longest_wait_s: between two tries of one end.
      try_for_s: seconds from the first try of an end, after which it is given up.
    """

    name: str
    url: str
    secret: SecretFile
    analyst: bytes | None = None
    ca: Path | None = None
    timeout_s: int = TIMEOUT_S
    longest_wait_s: int = LONGEST_WAIT_S
    try_for_s: int = TRY_FOR_S

    @property
    def receiving(self) -> Receiving:
        """The receiver as the store's queue knows it."""
        return Receiving(self.name, self.analyst)

    def check(self) -> None:
        """Check that all files can be read; raise InvalidParameter otherwise."""
        try:
            self.secrets()
            if self.ca is not None:
                self.ca.read_bytes()
        except OSError as error:
            raise InvalidParameter(
                f"webhook {self.name}: ca {self.ca}: cannot be read: {error.strerror}"
            ) from None
        except InvalidParameter as error:
            raise InvalidParameter(f"webhook {self.name}: {error}") from None

    def secrets(self) -> tuple[bytes, ...]:
        """Read the secrets; raise InvalidParameter if there is none, or one is malformed."""
        try:
            return secrets_of(self.secret.read_bytes())
        except OSError as error:
            raise InvalidParameter(
                f"secret {self.secret}: cannot be read: {error.strerror}"
            ) from None
        except InvalidParameter as error:
            raise InvalidParameter(f"secret {self.secret}: {error}") from None


def secrets_of(content: bytes) -> tuple[bytes, ...]:
    """Read secrets of Standard Webhooks, one per line: each signs, so that one can be replaced."""
    lines = content.decode("ascii", "replace").split()
    if not lines:
        raise InvalidParameter(f"{_SECRET}, got none")
    found = []
    for line in lines:
        try:
            secret = base64.b64decode(line.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if not line.startswith(_PREFIX) or len(secret) not in _SECRET_BYTES:
            raise InvalidParameter(f"{_SECRET}, got another text of {len(line)} characters")
        found.append(secret)
    return tuple(found)
