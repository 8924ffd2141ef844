"""An analyst's key in a file: Ed25519, PKCS8 PEM, readable by its owner only."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from askance_client.durable_files import write_new
from askance_client.errors import InvalidParameter

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
