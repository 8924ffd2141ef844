"""Parsing of untrusted bytes."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from askance_client.errors import RemoteProtocolError

# A 64 x 64 table of 64-bit entries takes about 40 kB; a query of 4,096 nodes stays below this too.
MAX_MESSAGE_BYTES = 256 * 1024

M = TypeVar("M", bound=Message)


def digest_of(payload: bytes) -> bytes:
    """The name of a payload: SHA-256 of its bytes as they travelled."""
    return hashlib.sha256(payload).digest()


def parse(kind: type[M], data: bytes, *, limit: int = MAX_MESSAGE_BYTES) -> M:
    """Parse `data` as a `kind`, whole and understood to the last field.

    Raises:
      RemoteProtocolError: too long, not a `kind`, or with fields this version does not know.
    """
    name = kind.__name__
    if len(data) > limit:
        raise RemoteProtocolError(f"{name}: expected at most {limit} bytes, found {len(data)}")
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise RemoteProtocolError(
            f"{name}: expected a serialised message, found other bytes"
        ) from None
    size = message.ByteSize()
    message.DiscardUnknownFields()  # at every depth, without a walk that costs time for each item
    if message.ByteSize() != size:
        raise RemoteProtocolError(f"{name}: expected known fields only, found others")
    return message
