"""Keys of analysts and operators, in files, and proofs of calls: by a key or by a bearer token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from askance_aggregator.analyst import calls
from askance_client.durable_files import write_new
from askance_client.errors import InvalidParameter
from askance_client.service import Metadata

AnalystKey = Ed25519PrivateKey | Path | str | bytes


def create_key(path: Path) -> Ed25519PrivateKey:
    """Make a new key and its file.

    Raises:
      InvalidParameter: a file is there already (it is never overwritten), or none can be made.
    """
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        write_new(path, pem, mode=0o600)
    except FileExistsError:
        raise InvalidParameter(f"key {path}: expected no file there yet, got one") from None
    except OSError as error:
        raise InvalidParameter(f"key {path}: cannot be made: {error.strerror}") from None
    return key


def load_key(key: AnalystKey) -> Ed25519PrivateKey:
    """The key itself, from its file's path, or from what the file holds.

    Raises:
      InvalidParameter: no such file, or no unencrypted Ed25519 key in it.
    """
    if isinstance(key, Ed25519PrivateKey):
        return key
    if isinstance(key, bytes):
        return _parsed(key, "key")
    try:
        return _parsed(Path(key).read_bytes(), f"key {key}")
    except OSError as error:
        raise InvalidParameter(f"key {key}: cannot be read: {error.strerror}") from None


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public half of a key as hex; devices and aggregators pin it."""
    return key.public_key().public_bytes_raw().hex()


def _parsed(pem: bytes, what: str) -> Ed25519PrivateKey:
    try:
        found = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidParameter(
            f"{what}: expected an unencrypted private key in PEM, got other bytes or a passphrase"
        ) from None
    if not isinstance(found, Ed25519PrivateKey):
        raise InvalidParameter(f"{what}: expected an Ed25519 key, got one of another kind")
    return found


_MAX_TOKEN_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True)
class CallProof:
    """Proof of a caller: a key, which signs studies, and calls where there is no token.

    `token` returns the bearer token of the next call.
    """

    key: Ed25519PrivateKey | None
    token: Callable[[], str] | None
    random_bytes: Callable[[int], bytes]

    @property
    def subject(self) -> bytes:
        """Subject of a call that is about no study, 32 bytes."""
        if self.token is not None or self.key is None:
            return calls.NO_SUBJECT
        return self.key.public_key().public_bytes_raw()

    def metadata(
        self, call: calls.Call, subject: bytes, now_s: int, epoch: int, body: bytes
    ) -> Metadata:
        """Return the metadata that proves a call; the arguments are those of `sign_call`."""
        nonce = self.random_bytes(calls.NONCE_BYTES)
        if self.token is not None:
            bare = calls.unsigned_call(subject, now_s, epoch, body=body, nonce=nonce)
            return (*calls.token_metadata(self.token()), *calls.call_metadata(bare))
        assert self.key is not None  # `call_proof` has one of the two
        return calls.call_metadata(
            calls.sign_call(call, subject, self.key, now_s, epoch, body=body, nonce=nonce)
        )


def call_proof(
    key: AnalystKey | None,
    token_file: Path | str | None,
    random_bytes: Callable[[int], bytes],
) -> CallProof:
    """Return the proof of a caller with a key, with a token, or with both.

    The token's file is read anew for each call.
    """
    if key is None and token_file is None:
        raise InvalidParameter("connect: expected a key or a bearer token, got neither")
    loaded = None if key is None else load_key(key)
    if token_file is None:
        return CallProof(loaded, None, random_bytes)
    path = Path(token_file)
    _token(path)
    return CallProof(loaded, lambda: _token(path), random_bytes)


def _token(path: Path) -> str:
    """Read a token; an error never shows it."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_TOKEN_BYTES + 1).strip()
        text = content.decode("ascii")
    except OSError as error:
        raise InvalidParameter(f"bearer token {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if not text or len(content) > _MAX_TOKEN_BYTES or len(text.split()) != 1:
        raise InvalidParameter(f"bearer token {path}: expected one token, got another content")
    return text
