"""Who a device is to its aggregator. It decides nothing about privacy."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from askance.client.errors import InvalidParameter

MAX_ID_BYTES = 64
MIN_TOKEN_BYTES = 16
MAX_TOKEN_BYTES = 64
MEMBER_ID_BYTES = 16


def token_digest(token: bytes) -> bytes:
    """What an aggregator keeps of a token: its SHA-256. A random secret needs no salt."""
    return hashlib.sha256(token).digest()


@dataclass(frozen=True, slots=True)
class Identity:
    """The name that a device was enrolled under and the secret that proves it.

    Args:
      device_id: 1 to 64 bytes.
      token: 16 to 64 random bytes; it is never shown.
    """

    device_id: bytes
    token: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.device_id) <= MAX_ID_BYTES:
            raise InvalidParameter(
                f"identity: expected an id of 1 to {MAX_ID_BYTES} bytes,"
                f" found {len(self.device_id)}"
            )
        if not MIN_TOKEN_BYTES <= len(self.token) <= MAX_TOKEN_BYTES:
            raise InvalidParameter(
                f"identity: expected a token of {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} bytes,"
                f" found {len(self.token)}"
            )


def member_identity(root: Identity, name: str) -> Identity:
    """Who one of a gateway's members is to the aggregator.

    The id is the first 16 bytes of HMAC-SHA-256(root token, "askance member id v1", 0, name), the
    token all 32 of HMAC-SHA-256(root token, "askance member token v1", 0, name), the name in UTF-8.
    So a gateway keeps one secret, and nobody without it can tell which name an id stands for. The
    root itself is a single device's identity; a gateway's root is never enrolled, nor told.
    """

    def derived(what: bytes) -> bytes:
        return hmac.digest(root.token, what + b"\0" + name.encode("utf-8"), "sha256")

    return Identity(
        derived(b"askance member id v1")[:MEMBER_ID_BYTES], derived(b"askance member token v1")
    )
