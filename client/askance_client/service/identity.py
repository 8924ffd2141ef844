"""Identity of a device to its aggregator. It decides nothing about privacy."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from askance_client.errors import InvalidParameter

MAX_ID_BYTES = 64
MIN_TOKEN_BYTES = 16
MAX_TOKEN_BYTES = 64
DERIVED_ID_BYTES = 16
SECRET_BYTES = 32


def token_digest(token: bytes) -> bytes:
    """Return the digest of a token that an aggregator keeps: SHA-256.

    A random secret needs no salt.
    """
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


@dataclass(frozen=True, slots=True)
class Secret:
    """Secret of a device's folder, from which every identity of the folder is derived.

    Privacy: the secret is a key of HMAC-SHA-256 and never sent. Each value that is sent is an
      output of HMAC for an input of its own, so that a token that was sent reveals neither the
      secret nor any other token or id.

    Args:
      value: 32 random bytes.

    Raises:
      InvalidParameter: value is not 32 bytes.
    """

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value) != SECRET_BYTES:
            raise InvalidParameter(
                f"secret: expected {SECRET_BYTES} bytes, got {len(self.value)} bytes"
            )

    def device(self) -> Identity:
        """Return the identity of a folder's one device.

        The id is the first 16 bytes of HMAC("askance device id v1"), the token all 32 bytes of
        HMAC("askance device token v1").
        """
        return self._identity(b"askance device id v1", b"askance device token v1")

    def gateway(self) -> Identity:
        """Return the identity of the gateway itself, which no member has.

        The id is the first 16 bytes of HMAC("askance gateway id v1"), the token all 32 bytes of
        HMAC("askance gateway token v1").
        """
        return self._identity(b"askance gateway id v1", b"askance gateway token v1")

    def member(self, name: str) -> Identity:
        """Return the identity of a gateway's member.

        The id is the first 16 bytes of HMAC("askance member id v1", 0, name), the token all 32
        bytes of HMAC("askance member token v1", 0, name), the name in UTF-8.
        """
        suffix = b"\0" + name.encode("utf-8")
        return self._identity(b"askance member id v1" + suffix, b"askance member token v1" + suffix)

    def _identity(self, for_id: bytes, for_token: bytes) -> Identity:
        return Identity(
            hmac.digest(self.value, for_id, "sha256")[:DERIVED_ID_BYTES],
            hmac.digest(self.value, for_token, "sha256"),
        )
