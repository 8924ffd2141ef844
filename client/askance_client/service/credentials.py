"""Credentials of a call, in its metadata.

An aggregator sees a call's metadata before it reads a message. A caller that it refuses there costs
it no message. Values under keys that end in "-bin" are bytes; gRPC encodes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from askance_client.service.exchange import PROTOCOL
from askance_client.service.identity import Identity
from askance_client.version import __version__

PROTOCOL_KEY = "askance-protocol"
DEVICE_KEY = "askance-device-bin"
GATEWAY_KEY = "askance-gateway-bin"
TOKEN_KEY = "askance-token-bin"
ENROLMENT_KEY = "askance-enrolment-bin"
SOFTWARE_KEY = "askance-software"
SOFTWARE = f"askance-client/{__version__}"
"""Name and version of this package, which an operator is shown; the same on every device."""
TAKES_ADDRESS = ("askance-takes-address", "1")
"""Of a Certify whose caller knows the field `address` of the answer; earlier versions do not."""
RETRY_KEY = "askance-retry-after-ms"
"""In the trailing metadata of a call that was refused: when to call again, in milliseconds."""

_MAX_RETRY_DIGITS = 9  # 11 days; longer text is no delay
_MAX_PROTOCOL_DIGITS = 4  # longer text is no version
_SPOKEN = ((PROTOCOL_KEY, str(PROTOCOL)), (SOFTWARE_KEY, SOFTWARE))

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
Received: TypeAlias = Iterable[tuple[str, str | bytes]] | None
"""Metadata as gRPC passes it on."""


def device_metadata(identity: Identity) -> Metadata:
    """Return the metadata of a device's CheckIn or Participate."""
    return (*_SPOKEN, (DEVICE_KEY, identity.device_id), (TOKEN_KEY, identity.token))


def gateway_metadata(identity: Identity) -> Metadata:
    """Return the metadata of a gateway's Relay."""
    return (*_SPOKEN, (GATEWAY_KEY, identity.device_id), (TOKEN_KEY, identity.token))


def enrolment_metadata(token: bytes) -> Metadata:
    """Return the metadata of an Enrol under an operator's token."""
    return ((PROTOCOL_KEY, str(PROTOCOL)), (ENROLMENT_KEY, token))


def protocol_of(metadata: Received) -> int:
    """Read the version of the exchange that the other side speaks; 0 where there is none."""
    return _number(metadata, PROTOCOL_KEY, _MAX_PROTOCOL_DIGITS)


def read_retry_ms(metadata: Received) -> int:
    """Read when a refused caller is asked to call again, in milliseconds; 0 where it is not."""
    return _number(metadata, RETRY_KEY, _MAX_RETRY_DIGITS)


def _number(metadata: Received, key: str, most_digits: int) -> int:
    """Read a number in decimal digits; 0 where there is none, or a longer one."""
    text = dict(metadata or ()).get(key)
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal():
        return 0
    return int(text) if len(text) <= most_digits else 0
