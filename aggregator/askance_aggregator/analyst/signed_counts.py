r"""Signatures of an aggregator under the counts that an export holds.

Signed is `b"askance counts v1\0"`, the study's digest (32 bytes), the epoch's index (8 bytes, big
endian) and the SHA-256 of the transcript's lines, each with a line feed: so the counts, answers and
roots of every tally, and the requests that they answer. The key is derived from the enrolment key,
which replicas share: an aggregator with another enrolment key signs by another key from then on.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PUBLIC_KEY_BYTES, SIGNATURE_BYTES = 32, 64
_DOMAIN = b"askance counts v1\0"
_KEY_DOMAIN = b"askance counts key v1\0"


@dataclass(frozen=True, slots=True)
class CountsSignature:
    """Signature of an aggregator under a transcript.

    Args:
      public_key: Ed25519, 32 bytes; of the aggregator.
      signature: 64 bytes.
    """

    public_key: bytes
    signature: bytes

    def holds(self, study_digest: bytes, epoch: int, lines: Iterable[str]) -> bool:
        """Return whether the key has signed these lines as a study's transcript so far."""
        content = hashlib.sha256()
        for line in lines:
            content.update(line.encode() + b"\n")
        try:
            key = Ed25519PublicKey.from_public_bytes(self.public_key)
            key.verify(self.signature, _statement(study_digest, epoch, content.digest()))
        except (InvalidSignature, ValueError):
            return False
        return True


def keys_text(keys: Collection[bytes]) -> str:
    """Format the keys one of which an error expected."""
    return " or ".join(key.hex() for key in sorted(keys)) or "one of no keys"


class CountsSigner:
    """Signs transcripts for one aggregator.

    Args:
      enrolment_key: the aggregator's secret, 32 bytes.
    """

    def __init__(self, enrolment_key: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(
            hmac.digest(enrolment_key, _KEY_DOMAIN, "sha256")
        )

    @property
    def public_key(self) -> bytes:
        """Key by which readers check the signatures."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, study_digest: bytes, epoch: int, transcript: bytes) -> CountsSignature:
        """Sign a transcript by the SHA-256 of its lines."""
        signature = self._key.sign(_statement(study_digest, epoch, transcript))
        return CountsSignature(self.public_key, signature)


def _statement(study_digest: bytes, epoch: int, transcript: bytes) -> bytes:
    return _DOMAIN + study_digest + epoch.to_bytes(8, "big") + transcript
