"""An analyst's key in a file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from askance_aggregator.analyst import create_key, load_key, public_hex
from askance_client.errors import InvalidParameter


def test_a_key_is_made_once_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "analyst.pem"
    key = create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for given in (path, str(path), path.read_bytes(), key):
        assert public_hex(load_key(given)) == public_hex(key)
    before = path.read_bytes()
    with pytest.raises(InvalidParameter, match="expected no file there yet, got one"):
        create_key(path)
    assert path.read_bytes() == before


def test_no_key_is_made_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="cannot be made: No such file"):
        create_key(tmp_path / "none" / "analyst.pem")


def test_what_is_no_key_is_told_without_repeating_it(tmp_path: Path) -> None:
    path = tmp_path / "analyst.pem"
    with pytest.raises(InvalidParameter, match="cannot be read"):
        load_key(path)
    path.write_text("a secret")
    with pytest.raises(InvalidParameter, match="expected an unencrypted private key") as caught:
        load_key(path)
    assert "secret" not in str(caught.value)
    other = X25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(InvalidParameter, match="expected an Ed25519 key"):
        load_key(other)
