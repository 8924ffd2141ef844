"""Creation of a file is all or nothing: a killed process leaves no file in its place."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from askance_client.errors import StoreError
from askance_client.sqlite_file import FileKind, SqliteFile
from tests.client.process.conftest import ENVIRONMENT

KIND = FileKind("box", 0x626F7820, ("CREATE TABLE things (name TEXT) STRICT;",), "no", "make one")


def test_it_is_the_owner_s_alone_and_nothing_else_is_left_beside(tmp_path: Path) -> None:
    file = SqliteFile.create(tmp_path / "box", KIND)
    assert stat.S_IMODE((tmp_path / "box").stat().st_mode) == 0o600
    file.close()
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


_DIES = """
import os, sys
from pathlib import Path
from tests.client.sqlite_file.test_creation import KIND
from askance_client.sqlite_file import SqliteFile
os.link = lambda *_: os._exit(9)  # the last moment before the file is there
SqliteFile.create(Path(sys.argv[1]), KIND)
"""


def test_a_death_meanwhile_leaves_the_place_free(tmp_path: Path) -> None:
    path = tmp_path / "box"
    done = subprocess.run(
        [sys.executable, "-c", _DIES, str(path)], env=ENVIRONMENT, timeout=60, check=False
    )
    assert done.returncode == 9
    assert not path.exists()
    SqliteFile.create(path, KIND).close()


def test_a_file_that_came_to_be_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "box"
    link = os.link

    def late(source: str, target: Path) -> None:
        path.write_text("somebody's")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(StoreError, match="expected no file there yet, found one"):
        SqliteFile.create(path, KIND)
    assert path.read_text() == "somebody's"
    assert list(tmp_path.iterdir()) == [path]


def test_a_script_that_fails_leaves_nothing(tmp_path: Path) -> None:
    broken = FileKind("box", 1, ("CREATE TABLE;",), "no", "make one")
    with pytest.raises(StoreError, match="cannot be made"):
        SqliteFile.create(tmp_path / "box", broken)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be made: No such file"):
        SqliteFile.create(tmp_path / "none" / "box", KIND)


def test_an_older_version_takes_the_steps_that_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "box"
    SqliteFile.create(path, KIND).close()
    newer = FileKind(
        "box",
        KIND.application,
        (*KIND.steps, "ALTER TABLE things ADD COLUMN size INTEGER;"),
        "",
        "",
    )
    file = SqliteFile.open(path, newer)
    with file.transaction() as connection:
        connection.execute("INSERT INTO things VALUES ('a', 3)")
    file.close()
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (2,)
