"""`askance aggregator recount`: counts of a store, and the key that signs them."""

from __future__ import annotations

import hmac
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance.cli.main import main
from tests.frozen.old_stores import DIGESTS, load_sqlite


@pytest.fixture
def home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An aggregator's folder with the store of an earlier version."""
    folder = tmp_path / "home"
    assert main(["aggregator", "init", str(folder)]) == 0
    (folder / "store.sqlite").unlink()
    load_sqlite(folder / "store.sqlite")
    capsys.readouterr()
    return folder


def test_it_prints_what_was_compared_and_the_key(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = hmac.digest((home / "enrolment.key").read_bytes(), b"askance counts key v1\0", "sha256")
    key = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw().hex()
    digest = DIGESTS["frequency"].hex()
    command = ["aggregator", "recount", digest, "--config", str(home / "aggregator.toml")]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "study": digest,
        "rounds": 1,
        "answers": 12,
        "salted": 0,
        "unsalted": 1,
        "counts_key": key,
    }
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "12 answers of 1 closed round: the counts are those of the stored reports" in out
    assert "without salts, not compared: 1" in out
    assert key in out


def test_the_status_and_the_folder_have_the_key(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = (home / "counts.pub").read_text().strip()
    command = ["aggregator", "status", "--config", str(home / "aggregator.toml")]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts_key"] == key
    assert main(command) == 0
    assert f"exports are signed by: {key}" in capsys.readouterr().out
    (home / "enrolment.key").unlink()
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts_key"] is None


def test_an_unknown_study_is_a_failure(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["aggregator", "recount", "00" * 32, "--config", str(home / "aggregator.toml")]
    assert main(command) == 1
    assert "expected a stored one, got none" in capsys.readouterr().err


def test_the_first_digits_of_a_study_are_not_enough(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digits = DIGESTS["frequency"].hex()[:8]
    command = ["aggregator", "recount", digits, "--config", str(home / "aggregator.toml")]
    assert main(command) == 2
    assert f"ID: expected all 64 digits of it, got '{digits}'" in capsys.readouterr().err
