"""Credentials of a call, as its metadata states them, and metadata of the aggregator's answers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from askance_aggregator.store import EnrolmentRefused
from askance_client.service import credentials
from askance_client.service.exchange import MAX_ENROLMENT_TOKEN_BYTES, PROTOCOL
from askance_client.service.identity import MAX_ID_BYTES, MAX_TOKEN_BYTES

_SOFTWARE_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,47}")  # other text reads as none


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


def read_credentials(metadata: credentials.Received) -> Credentials:
    """Read a caller's credentials; values that are too long for an identity read as none."""
    found = dict(metadata or ())
    software = str(found.get(credentials.SOFTWARE_KEY, ""))
    return Credentials(
        credentials.protocol_of(metadata),
        _bounded(found.get(credentials.DEVICE_KEY), MAX_ID_BYTES),
        _bounded(found.get(credentials.TOKEN_KEY), MAX_TOKEN_BYTES),
        _bounded(found.get(credentials.GATEWAY_KEY), MAX_ID_BYTES),
        software if _SOFTWARE_TEXT.fullmatch(software) else "",
    )


def read_enrolment(metadata: credentials.Received) -> bytes:
    """Read the operator's token of an Enrol; no bytes where there is none."""
    value = dict(metadata or ()).get(credentials.ENROLMENT_KEY)
    token = value if isinstance(value, bytes) else b""
    if len(token) > MAX_ENROLMENT_TOKEN_BYTES:
        raise EnrolmentRefused(
            f"expected an enrolment token of at most {MAX_ENROLMENT_TOKEN_BYTES} bytes, got"
            f" {len(token)} bytes"
        )
    return token


def accepted_metadata(version: int = PROTOCOL) -> credentials.Metadata:
    """Return the initial metadata of a stream whose caller, of this version, is accepted."""
    return ((credentials.PROTOCOL_KEY, str(version)),)


def retry_metadata(retry_ms: int) -> credentials.Metadata:
    """Return the trailing metadata that asks a caller to call again after a delay."""
    return ((credentials.RETRY_KEY, str(retry_ms)),)


def _bounded(value: str | bytes | None, most: int) -> bytes:
    return value if isinstance(value, bytes) and len(value) <= most else b""
