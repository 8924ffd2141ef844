r"""Signed calls: an Ed25519 signature over the call's name, its subject, and the time.

The signature is over `b"askance <Call> v1\\0"`, the study's digest (for List: the public key) and
the time as 8 bytes, big-endian and signed. It travels in the call's metadata, so that an aggregator
reads no message before it has checked it. A call that was overheard is good for no other call, no
other study, and for no longer than the clocks may differ.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from askance_client.codec import parse
from askance_client.errors import AskanceError, RemoteProtocolError
from askance_client.service import Metadata, Received
from askance_protos.v1 import analyst_pb2 as pb

TOLERANCE_S = 300  # how far the caller's clock may be off, either way
_SUBJECT_BYTES = 32
_SIGNATURE_BYTES = 64
_MAX_BYTES = 256  # of a signed call: four short fields
CALL_KEY = "askance-call-bin"


class Call(StrEnum):
    """A call that is signed, by the name it has on the wire."""

    SUBMIT = "Submit"
    LIST = "List"
    WATCH = "Watch"
    RESULT = "Result"
    EXPORT = "Export"
    CANCEL = "Cancel"


class CallRefused(AskanceError):
    """The aggregator does not do what was asked.

    Args:
      reason: a word for programs.
      message: one line of text.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SignedCall:
    """A call as it travels.

    Args:
      public_key: the caller's.
      subject: the study's digest; for List the caller's public key.
      at_unix_s: when it was signed.
      signature: the caller's.
    """

    public_key: bytes
    subject: bytes
    at_unix_s: int
    signature: bytes


def sign_call(call: Call, subject: bytes, key: Ed25519PrivateKey, now_s: int) -> SignedCall:
    """The call, signed now."""
    public = key.public_key().public_bytes_raw()
    return SignedCall(public, subject, now_s, key.sign(_signed_bytes(call, subject, now_s)))


def check_call(call: Call, signed: SignedCall, keys: Container[bytes], now_s: int) -> bytes:
    """Return the public key that has signed the call, one of `keys`.

    Raises:
      CallRefused: none of them, or at another time.
    """
    if abs(signed.at_unix_s - now_s) > TOLERANCE_S:
        raise CallRefused(
            "stale-call",
            f"{call}: expected the time within {TOLERANCE_S} s of the aggregator's, found it"
            f" {abs(signed.at_unix_s - now_s)} s off",
        )
    content = _signed_bytes(call, signed.subject, signed.at_unix_s)
    if signed.public_key not in keys:
        raise CallRefused("untrusted-key", f"{call}: expected a trusted analyst's key, got another")
    if _is_signed(signed.public_key, signed.signature, content):
        return signed.public_key
    raise CallRefused(
        "bad-signature", f"{call}: expected the signature of the caller's key, found none"
    )


def call_metadata(signed: SignedCall) -> Metadata:
    """Return the metadata of a signed call."""
    message = pb.SignedCall(
        public_key=signed.public_key,
        subject=signed.subject,
        at_unix_s=signed.at_unix_s,
        signature=signed.signature,
    )
    return ((CALL_KEY, message.SerializeToString(deterministic=True)),)


def read_call(metadata: Received) -> SignedCall:
    """Read the signed call in a call's metadata; `check_call` checks it.

    Raises:
      RemoteProtocolError: there is none.
    """
    data = dict(metadata or ()).get(CALL_KEY)
    if not isinstance(data, bytes):
        raise RemoteProtocolError(f"call: expected {CALL_KEY} in the metadata, got none")
    message = parse(pb.SignedCall, data, limit=_MAX_BYTES)
    return _sized(
        SignedCall(message.public_key, message.subject, message.at_unix_s, message.signature)
    )


def _is_signed(public_key: bytes, signature: bytes, content: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _sized(signed: SignedCall) -> SignedCall:
    for what, found, size in (
        ("a public key", signed.public_key, _SUBJECT_BYTES),
        ("a subject", signed.subject, _SUBJECT_BYTES),
        ("a signature", signed.signature, _SIGNATURE_BYTES),
    ):
        if len(found) != size:
            raise RemoteProtocolError(
                f"call: expected {what} of {size} bytes, found {len(found)} bytes"
            )
    return signed


def _signed_bytes(call: Call, subject: bytes, at_unix_s: int) -> bytes:
    return (
        b"askance %b v1\0" % call.value.encode()
        + subject
        + at_unix_s.to_bytes(8, "big", signed=True)
    )
