r"""Signatures of approvers over studies, and the ends that approvers bring about.

An approval is an Ed25519 signature over `b"askance approve v1\0"` and the study's digest, 32 bytes:
no signature over a study or a call is one, and an approval of a study is none of another.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_DOMAIN = b"askance approve v1\0"
REFUSED, WITHDRAWN = "approval-refused", "approval-withdrawn"
"""Reasons of a cancelled study that an approver has ended: before it was approved, or after."""
NOT_APPROVED = "not-approved"
"""Reason of a failed study that no approver had signed before it expired."""


def sign_approval(digest: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return an approver's signature over a study, 64 bytes."""
    return key.sign(_DOMAIN + digest)


def is_approval(digest: bytes, public_key: bytes, signature: bytes) -> bool:
    """Return whether a signature is a key's approval of a study."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, _DOMAIN + digest)
    except (InvalidSignature, ValueError):
        return False
    return True
