"""Who calls: an Ed25519 signature over the call's name, what it is about, and the time.

The signature is over `b"askance <Call> v1\\0"`, the study's digest (for List: the public key) and
the time as 8 bytes, big-endian and signed. A call that was overheard is good for no other call, no
other study, and for no longer than the clocks may differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from askance.client.codec import parse
from askance.client.errors import AskanceError, RemoteProtocolError
from askance.protos.v1 import analyst_pb2 as pb

TOLERANCE_S = 300  # how far the caller's clock may be off, either way
_SUBJECT_BYTES = 32
_SIGNATURE_BYTES = 64
_MAX_BYTES = 256  # of a call's message: three short fields


class Call(StrEnum):
    """A call that is signed, by the name it has on the wire."""

    LIST = "List"
    WATCH = "Watch"
    RESULT = "Result"
    EXPORT = "Export"
    CANCEL = "Cancel"


class CallRefused(AskanceError):
    """The aggregator does not do what was asked.

    Args:
      reason: a word for programs.
      message: a line for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SignedCall:
    """A call as it travels.

    Args:
      subject: the study's digest; for List the caller's public key.
      at_unix_s: when it was signed.
      signature: the caller's.
    """

    subject: bytes
    at_unix_s: int
    signature: bytes


def sign_call(call: Call, subject: bytes, key: Ed25519PrivateKey, now_s: int) -> SignedCall:
    """The call, signed now."""
    return SignedCall(subject, now_s, key.sign(_signed_bytes(call, subject, now_s)))


def check_call(call: Call, signed: SignedCall, keys: Iterable[bytes], now_s: int) -> bytes:
    """Which of these public keys has signed the call.

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
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signed.signature, content)
        except (InvalidSignature, ValueError):
            continue
        return key
    raise CallRefused(
        "bad-signature", f"{call}: expected the signature of a trusted analyst's key, found none"
    )


def encode_study_call(signed: SignedCall) -> bytes:
    """The bytes of a call about a study."""
    return pb.StudyCall(
        study_digest=signed.subject, at_unix_s=signed.at_unix_s, signature=signed.signature
    ).SerializeToString(deterministic=True)


def decode_study_call(data: bytes) -> SignedCall:
    """A call about a study; its signature is `check_call`'s business.

    Raises:
      RemoteProtocolError: not such a call.
    """
    message = parse(pb.StudyCall, data, limit=_MAX_BYTES)
    return _sized(SignedCall(message.study_digest, message.at_unix_s, message.signature))


def encode_list_call(signed: SignedCall) -> bytes:
    """The bytes of the call for all studies of a key."""
    return pb.ListStudiesRequest(
        public_key=signed.subject, at_unix_s=signed.at_unix_s, signature=signed.signature
    ).SerializeToString(deterministic=True)


def decode_list_call(data: bytes) -> SignedCall:
    """The call for all studies of a key.

    Raises:
      RemoteProtocolError: not such a call.
    """
    message = parse(pb.ListStudiesRequest, data, limit=_MAX_BYTES)
    return _sized(SignedCall(message.public_key, message.at_unix_s, message.signature))


def _sized(signed: SignedCall) -> SignedCall:
    for what, found, size in (
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
