"""Files that could not be written whole, or that are named oddly."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from askance_aggregator.analyst import StudyExport, create_key, load_key
from askance_client.errors import InvalidParameter, StoreError
from askance_client.messages import SignedStudy


def test_a_key_that_a_full_disk_broke_off_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Existing files are never overwritten: half a key would have blocked a whole one."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "analyst.pem"
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(InvalidParameter, match="cannot be made: No space left"):
            create_key(path)
    assert list(tmp_path.iterdir()) == []
    made = create_key(path)
    assert load_key(path).private_bytes_raw() == made.private_bytes_raw()
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidParameter, match="expected no file there yet"):
        create_key(path)
    assert load_key(path).private_bytes_raw() == made.private_bytes_raw()


@pytest.mark.parametrize("name", [".", "/", "..", "nowhere/export"])
def test_an_export_needs_the_name_of_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="cannot be written"):
        StudyExport(SignedStudy(b"", b"", b""), (), None).write(Path(name))
    assert list(tmp_path.iterdir()) == []
