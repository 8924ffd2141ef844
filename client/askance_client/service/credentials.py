"""Credentials of a call, in its metadata.

An aggregator sees a call's metadata before it reads a message. A caller that it refuses there costs
it no message. Values under keys that end in "-bin" are bytes; gRPC encodes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from askance_client.service.exchange import MAX_ENROLMENT_TOKEN_BYTES, PROTOCOL
from askance_client.service.identity import MAX_ID_BYTES, MAX_TOKEN_BYTES, Identity
from askance_client.version import __version__

PROTOCOL_KEY = "askance-protocol"
DEVICE_KEY = "askance-device-bin"
GATEWAY_KEY = "askance-gateway-bin"
TOKEN_KEY = "askance-token-bin"
ENROLMENT_KEY = "askance-enrolment-bin"
SOFTWARE_KEY = "askance-software"
SOFTWARE = f"askance-client/{__version__}"
"""Name and version of this package, which an operator is shown; the same on every device."""
RETRY_KEY = "askance-retry-after-ms"
"""In the trailing metadata of a call that was refused: when to call again, in milliseconds."""

_MAX_RETRY_DIGITS = 9  # 11 days; longer text is no delay
_MAX_PROTOCOL_DIGITS = 4  # longer text is no version
_SPOKEN = ((PROTOCOL_KEY, str(PROTOCOL)), (SOFTWARE_KEY, SOFTWARE))
_SOFTWARE_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,47}")  # other text reads as none

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
Received: TypeAlias = Iterable[tuple[str, str | bytes]] | None
"""Metadata as gRPC passes it on."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Protocol version, device id and token of a call; 0 and no bytes where they are missing.

    `gateway_id` is of a gateway that calls for its members, which names no device. `software` is
    the name and version of the caller's program; empty: it states none.
    """

    protocol: int
    device_id: bytes
    token: bytes = field(repr=False)
    gateway_id: bytes = b""
    software: str = ""


def device_metadata(identity: Identity) -> Metadata:
    """Return the metadata of a device's CheckIn or Participate."""
    return (*_SPOKEN, (DEVICE_KEY, identity.device_id), (TOKEN_KEY, identity.token))


def gateway_metadata(identity: Identity) -> Metadata:
    """Return the metadata of a gateway's Relay."""
    return (*_SPOKEN, (GATEWAY_KEY, identity.device_id), (TOKEN_KEY, identity.token))


def enrolment_metadata(token: bytes) -> Metadata:
    """Return the metadata of an Enrol under an operator's token."""
    return ((PROTOCOL_KEY, str(PROTOCOL)), (ENROLMENT_KEY, token))


def read_credentials(metadata: Received) -> Credentials:
    """Read a caller's credentials; values that are too long for an identity read as none."""
    found = dict(metadata or ())
    software = str(found.get(SOFTWARE_KEY, ""))
    return Credentials(
        protocol_of(metadata),
        _bounded(found.get(DEVICE_KEY), MAX_ID_BYTES),
        _bounded(found.get(TOKEN_KEY), MAX_TOKEN_BYTES),
        _bounded(found.get(GATEWAY_KEY), MAX_ID_BYTES),
        software if _SOFTWARE_TEXT.fullmatch(software) else "",
    )


def read_enrolment(metadata: Received) -> bytes:
    """Read the operator's token of an Enrol; no bytes where there is none."""
    return _bounded(dict(metadata or ()).get(ENROLMENT_KEY), MAX_ENROLMENT_TOKEN_BYTES)


def protocol_of(metadata: Received) -> int:
    """Read the version of the exchange that the other side speaks; 0 where there is none."""
    return _number(metadata, PROTOCOL_KEY, _MAX_PROTOCOL_DIGITS)


def accepted_metadata(version: int = PROTOCOL) -> Metadata:
    """Return the initial metadata of a stream whose caller is accepted.

    Args:
      version: of the exchange that follows: the caller's.
    """
    return ((PROTOCOL_KEY, str(version)),)


def retry_metadata(retry_ms: int) -> Metadata:
    """Return the trailing metadata that asks a caller to call again after a delay."""
    return ((RETRY_KEY, str(retry_ms)),)


def read_retry_ms(metadata: Received) -> int:
    """Read when a refused caller is asked to call again, in milliseconds; 0 where it is not."""
    return _number(metadata, RETRY_KEY, _MAX_RETRY_DIGITS)


def _number(metadata: Received, key: str, most_digits: int) -> int:
    """Read a number in decimal digits; 0 where there is none, or a longer one."""
    text = dict(metadata or ()).get(key)
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal():
        return 0
    return int(text) if len(text) <= most_digits else 0


def _bounded(value: str | bytes | None, most: int) -> bytes:
    return value if isinstance(value, bytes) and len(value) <= most else b""
