r"""Enrolment tokens: what an operator hands to those who may make devices known.

A token is a line of text: URL-safe base64, without padding, of

    version (1 byte, 1) | id (16) | how many devices (4) | end in Unix seconds (8) | MAC (32)

numbers big-endian, the MAC an HMAC-SHA-256 of "askance enrolment v1\\0" and all before it, under
the aggregator's enrolment key. The token is not stored: the key alone says whether it is genuine.
The store keeps its id, limit and end, whether it was revoked, and how many devices have used it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from askance_aggregator.analyst.signed_counts import CountsSigner
from askance_aggregator.server.process.files import NotOperable, SecretSource, read_needed
from askance_aggregator.store import EnrolmentRefused
from askance_client.errors import InvalidParameter

KEY_BYTES = 32
_CONTEXT = b"askance enrolment v1\0"
_VERSION = 1
_BODY = struct.Struct(">B16sIQ")
_MAC_BYTES = 32
_TEXT_BYTES = -(-(_BODY.size + _MAC_BYTES) * 4 // 3)
_DAY_S = 86_400
_MAX_DEVICES = (1 << 32) - 1
_MAX_DAYS = 36_525


@dataclass(frozen=True, slots=True)
class EnrolmentToken:
    """Enrolment token and what it permits."""

    text: str = field(repr=False)
    token_id: bytes  # the name under which its use is counted
    devices: int  # that may be enrolled with it, over all its uses
    ends_unix_s: int  # refused from then on


class EnrolmentTokens:
    """Make enrolment tokens and verify them (see `devices.EnrolmentVerifier`).

    Args:
      key: 32 secret bytes.
    """

    def __init__(
        self,
        key: bytes,
        now_s: Callable[[], int],
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._key = key
        self._now_s = now_s
        self._random_bytes = random_bytes

    def issue(self, devices: int, days: int) -> EnrolmentToken:
        """Return a new token for a number of devices, valid from now on for a number of days."""
        for what, number, most in (("devices", devices, _MAX_DEVICES), ("days", days, _MAX_DAYS)):
            if not 1 <= number <= most:
                raise InvalidParameter(f"{what}: expected 1 to {most}, found {number}")
        token_id = self._random_bytes(16)
        ends = self._now_s() + days * _DAY_S
        body = _BODY.pack(_VERSION, token_id, devices, ends)
        text = base64.urlsafe_b64encode(body + self._mac(body)).rstrip(b"=").decode()
        return EnrolmentToken(text, token_id, devices, ends)

    def verify(self, token: bytes) -> tuple[bytes, int]:
        if not token:
            raise EnrolmentRefused("expected an enrolment token, got none")
        data = _decoded(token)
        if data is None:
            raise EnrolmentRefused(
                "expected an enrolment token as `aggregator token` prints it, got other text"
            )
        body = data[: _BODY.size]
        if not hmac.compare_digest(self._mac(body), data[_BODY.size :]):
            raise EnrolmentRefused("expected an enrolment token of this aggregator, got another")
        _, token_id, devices, ends = _BODY.unpack(body)
        if self._now_s() >= ends:
            raise EnrolmentRefused(
                "expected an enrolment token that is valid still, found one past"
            )
        return token_id, devices

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, _CONTEXT + body, "sha256")


def read_tokens(path: SecretSource, now_s: Callable[[], int]) -> EnrolmentTokens:
    """Return the tokens of an aggregator by its enrolment key (see `read_enrolment_key`)."""
    return EnrolmentTokens(read_enrolment_key(path), now_s)


def read_enrolment_key(path: SecretSource) -> bytes:
    """Read an enrolment key in a file, or in a variable: 32 bytes, or 64 hexadecimal digits."""
    key = read_needed(path, "enrolment key")
    if len(text := key.strip()) == 2 * KEY_BYTES:
        with suppress(ValueError):
            key = bytes.fromhex(text.decode("ascii"))
    if len(key) != KEY_BYTES:
        raise NotOperable(
            f"enrolment key {path}: expected {KEY_BYTES} bytes, found {len(key)} bytes"
        )
    return key


def _decoded(token: bytes) -> bytes | None:
    """Return the bytes in a token's text; None if it is not the text of a token."""
    text = token.strip()
    if len(text) != _TEXT_BYTES:
        return None
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        return None
    return data if len(data) == _BODY.size + _MAC_BYTES and data[0] == _VERSION else None


def counts_signer(enrolment_key: SecretSource | None) -> CountsSigner | None:
    """Return the signer of exports' counts; None: there is no enrolment key to derive it from."""
    return None if enrolment_key is None else CountsSigner(read_enrolment_key(enrolment_key))
