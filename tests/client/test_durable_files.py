"""New files: bytes first, then the name, both durable; whole or not there at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from askance_client import durable_files
from askance_client.durable_files import write_new


def test_the_bytes_and_then_the_name_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "key", list[os.stat_result]()
    monkeypatch.setattr(durable_files, "flush", lambda file: synced.append(os.fstat(file)))
    write_new(path, b"secret", mode=0o600)
    assert [one.st_ino for one in synced] == [path.stat().st_ino, tmp_path.stat().st_ino]
    assert synced[0].st_size == 6  # all of it was written before
    assert stat.S_IMODE(synced[0].st_mode) == 0o600


@pytest.mark.parametrize("failing", [1, 2], ids=["the bytes", "the name"])
def test_what_cannot_be_synced_is_not_there(
    tmp_path: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []

    def flush(_: int) -> None:
        calls.append(None)
        if len(calls) == failing:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable_files, "flush", flush)
    with pytest.raises(OSError, match="No space left"):
        write_new(tmp_path / "key", b"secret")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_new(path, b"first")
    with pytest.raises(FileExistsError):
        write_new(path, b"second")
    assert path.read_bytes() == b"first"
