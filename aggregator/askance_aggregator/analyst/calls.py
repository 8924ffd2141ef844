r"""Signed calls: an Ed25519 signature over the call's name, its subject, and the time.

The signature is over `b"askance <Call> v1\\0"`, the study's digest (for List: the public key) and
the time as 8 bytes, big-endian and signed; and, for one epoch of a study, its index as 4 bytes. It
travels in the call's metadata, so that an aggregator reads no message before it has checked it. A
call that was overheard is good for no other call, no other study or epoch, and for no longer than
the clocks may differ.

That is version 1, which older clients send. Version 2 adds a nonce and the SHA-256 of the request's
bytes: the signature is over `b"askance <Service>/<Call> v2\\0"`, the subject, the time, the epoch
(4 bytes, also if it is 0), the digest and the nonce.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from google.protobuf.descriptor import MethodDescriptor

from askance_client.codec import parse
from askance_client.errors import AskanceError, InvalidParameter, RemoteProtocolError
from askance_client.printable import unknown_text
from askance_client.service import Metadata
from askance_client.service.credentials import Received
from askance_protos.v1 import analyst_pb2 as pb
from askance_protos.v1 import operator_pb2

TOLERANCE_S = 300  # how far the caller's clock may be off, either way
_SUBJECT_BYTES = 32
_SIGNATURE_BYTES = 64
NONCE_BYTES = 16
_MAX_BYTES = 256  # of a signed call: short fields
CALL_KEY = "askance-call-bin"
TOKEN_KEY = "authorization"
NO_SUBJECT = bytes(_SUBJECT_BYTES)  # of a call about no study, by a caller without a key
_BEARER = "bearer"


METHODS: Mapping[str, MethodDescriptor] = {
    f"{service.name}/{method.name}": method
    for file in (pb.DESCRIPTOR, operator_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}
"""Methods of the services for analysts and operators, by service and name, of the .proto."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is signed, by service and name, "Analysts/Submit"; one of `METHODS`."""

    method: str

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidParameter(f"call: {unknown_text(self.method, METHODS)}")

    def __str__(self) -> str:
        """Return the name without the service."""
        return self.method.partition("/")[2]


class CallRefused(AskanceError):
    """The aggregator does not do what was asked; `reason` is a word for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SignedCall:
    """A call as it travels.

    Args:
      subject: the study's digest; for List the caller's public key.
      at_unix_s: when it was signed.
      epoch: index of the epoch that is asked about; 0: the study itself.
      body_digest: SHA-256 of the request's bytes, 32 bytes; empty in version 1.
      nonce: 16 random bytes; empty in version 1.
    """

    public_key: bytes
    subject: bytes
    at_unix_s: int
    signature: bytes
    epoch: int = 0
    body_digest: bytes = b""
    nonce: bytes = b""


def sign_call(
    call: Call,
    subject: bytes,
    key: Ed25519PrivateKey,
    now_s: int,
    epoch: int = 0,
    *,
    body: bytes = b"",
    nonce: bytes = b"",
) -> SignedCall:
    """Sign a call now.

    The subject is the study's digest, 32 bytes, and for calls about no study the caller's public
    key; epoch 0 is the study itself. Version 2 signs the request's bytes, `body`, with a nonce of
    16 random bytes; without a nonce, the call is signed as version 1.
    """
    public = key.public_key().public_bytes_raw()
    digest = hashlib.sha256(body).digest() if nonce else b""
    unsigned = SignedCall(public, subject, now_s, b"", epoch, digest, nonce)
    return replace(unsigned, signature=key.sign(_signed_bytes(call, unsigned)))


def unsigned_call(
    subject: bytes, now_s: int, epoch: int = 0, *, body: bytes, nonce: bytes
) -> SignedCall:
    """Make a call that a bearer token authenticates; the arguments are those of `sign_call`."""
    return SignedCall(b"", subject, now_s, b"", epoch, hashlib.sha256(body).digest(), nonce)


def check_call(call: Call, signed: SignedCall, keys: Container[bytes], now_s: int) -> bytes:
    """Return the one of `keys` that signed the call; CallRefused: none did, or at another time."""
    if abs(signed.at_unix_s - now_s) > TOLERANCE_S:
        raise CallRefused(
            "stale-call",
            f"{call}: expected the time within {TOLERANCE_S} s of the aggregator's, found it"
            f" {abs(signed.at_unix_s - now_s)} s off",
        )
    if signed.public_key not in keys:
        raise CallRefused("untrusted-key", f"{call}: expected a trusted analyst's key, got another")
    if _is_signed(signed.public_key, signed.signature, _signed_bytes(call, signed)):
        return signed.public_key
    raise CallRefused(
        "bad-signature", f"{call}: expected the signature of the caller's key, found none"
    )


def check_body(call: Call, signed: SignedCall, data: bytes) -> None:
    """Check that a request is the one that was signed, or raise CallRefused.

    Version 1 signs none.
    """
    if signed.nonce and hashlib.sha256(data).digest() != signed.body_digest:
        raise CallRefused(
            "bad-signature", f"{call}: expected the message that the call was signed for"
        )


def call_metadata(signed: SignedCall) -> Metadata:
    """Return the metadata of a signed call."""
    message = pb.SignedCall(
        public_key=signed.public_key,
        subject=signed.subject,
        at_unix_s=signed.at_unix_s,
        signature=signed.signature,
        epoch=signed.epoch,
        body_digest=signed.body_digest,
        nonce=signed.nonce,
    )
    return ((CALL_KEY, message.SerializeToString(deterministic=True)),)


def token_metadata(token: str) -> Metadata:
    """Return the metadata of a bearer token."""
    return ((TOKEN_KEY, f"Bearer {token}"),)


def read_token(metadata: Received) -> str | None:
    """Return the bearer token in a call's metadata; None if there is none."""
    found = dict(metadata or ()).get(TOKEN_KEY)
    if found is None:
        return None
    scheme, _, token = str(found).partition(" ")
    if scheme.lower() != _BEARER or not token.strip():
        raise CallRefused(
            "bad-token", f"token: expected {TOKEN_KEY}: Bearer TOKEN, got another form"
        )
    return token.strip()


def read_call(metadata: Received) -> SignedCall:
    """Read the signed call in a call's metadata; `check_call` checks it."""
    return _sized(_decoded(metadata), _SUBJECT_BYTES, _SIGNATURE_BYTES)


def read_unsigned_call(metadata: Received) -> SignedCall:
    """Read the call in the metadata of a call with a bearer token."""
    return _sized(_decoded(metadata), 0, 0)


def _decoded(metadata: Received) -> SignedCall:
    data = dict(metadata or ()).get(CALL_KEY)
    if not isinstance(data, bytes):
        raise RemoteProtocolError(f"call: expected {CALL_KEY} in the metadata, got none")
    message = parse(pb.SignedCall, data, limit=_MAX_BYTES)
    return SignedCall(
        message.public_key,
        message.subject,
        message.at_unix_s,
        message.signature,
        message.epoch,
        message.body_digest,
        message.nonce,
    )


def _is_signed(public_key: bytes, signature: bytes, content: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _sized(signed: SignedCall, key_bytes: int, signature_bytes: int) -> SignedCall:
    for what, found, size in (
        ("a public key", signed.public_key, key_bytes),
        ("a subject", signed.subject, _SUBJECT_BYTES),
        ("a signature", signed.signature, signature_bytes),
    ):
        if len(found) != size:
            raise RemoteProtocolError(
                f"call: expected {what} of {size} bytes, found {len(found)} bytes"
            )
    sizes = (len(signed.body_digest), len(signed.nonce))
    if sizes not in ((0, 0), (_SUBJECT_BYTES, NONCE_BYTES)):
        raise RemoteProtocolError(
            f"call: expected a message's digest of {_SUBJECT_BYTES} bytes and a nonce of"
            f" {NONCE_BYTES}, or neither, found {sizes[0]} and {sizes[1]} bytes"
        )
    return signed


def _signed_bytes(call: Call, signed: SignedCall) -> bytes:
    time = signed.at_unix_s.to_bytes(8, "big", signed=True)
    epoch = signed.epoch.to_bytes(4, "big")
    if signed.nonce:
        head = b"askance %b v2\0" % call.method.encode()
        return head + signed.subject + time + epoch + signed.body_digest + signed.nonce
    head = b"askance %b v1\0" % str(call).encode()
    return head + signed.subject + time + (epoch if signed.epoch else b"")
