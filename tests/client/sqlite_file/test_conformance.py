"""Conformance suite of SQLite files: ledgers and stores."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.store import SqliteStore, StoredReport
from askance_aggregator.store.migrations import KIND as STORE
from askance_client import sqlite_file
from askance_client.errors import StoreError, UnsupportedStore
from askance_client.ledger import Charge, LedgerFile, Limits
from askance_client.ledger.postings import KIND as LEDGER
from askance_client.sqlite_file import FileKind, SqliteFile

PAGE = 4096


def fill_ledger(file: Any) -> None:
    ledger = file.ledger()
    for number in range(150):
        name = number.to_bytes(32, "big")
        charge = Charge(name, b"s" * 32, name, 864_000, 5, b"y")
        ledger.commit(charge, Limits(10**9, 10**9, 10**9), lambda *_: b"report")


def fill_store(store: Any) -> None:
    store.accept([StoredReport(bytes(32), ordinal, bytes(300)) for ordinal in range(500)])


@dataclass(frozen=True)
class Keeper:
    """A class that keeps its content in a SQLite file."""

    kind: FileKind
    type: Any
    fill: Callable[[Any], None]
    file: Callable[[Any], SqliteFile]


KEEPERS = {
    "ledger": Keeper(LEDGER, LedgerFile, fill_ledger, lambda file: file._file.file),
    "store": Keeper(STORE, SqliteStore, fill_store, lambda store: store._file),
}


@pytest.fixture(params=sorted(KEEPERS))
def keeper(request: pytest.FixtureRequest) -> Keeper:
    return KEEPERS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.sqlite"


@pytest.fixture
def kept(keeper: Keeper, path: Path) -> Iterator[Any]:
    made = keeper.type.create(path)
    yield made
    made.close()


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def refused(keeper: Keeper, path: Path, message: str) -> None:
    """Check that opening fails, that the error is one line, and that the file is unchanged."""
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as caught:
        keeper.type.open(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_commit_is_synced_to_the_disk_before_it_returns(
    keeper: Keeper, path: Path, kept: Any
) -> None:
    def pragmas(of: Any) -> list[object]:
        names = ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync")
        connection = keeper.file(of).connection
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    made = pragmas(kept)
    kept.close()
    again = keeper.type.open(path)
    opened = pragmas(again)
    again.close()
    assert made == opened == ["wal", 2, 1, 1]  # 2 is FULL


def test_a_missing_file_is_refused_and_none_is_made(keeper: Keeper, path: Path) -> None:
    with pytest.raises(StoreError, match="found no file"):
        keeper.type.open(path)
    assert not path.exists()


def test_it_is_never_overwritten(keeper: Keeper, path: Path, kept: Any) -> None:
    keeper.fill(kept)
    kept.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="expected no file"):
        keeper.type.create(path)
    assert path.read_bytes() == before


def test_it_is_private_to_its_owner(keeper: Keeper, path: Path, kept: Any) -> None:
    keeper.fill(kept)
    assert all(file.stat().st_mode & 0o077 == 0 for file in path.parent.iterdir())


def test_one_process_at_a_time(keeper: Keeper, path: Path, kept: Any) -> None:
    with pytest.raises(StoreError, match="no other process uses, found it in use"):
        keeper.type.open(path)
    keeper.fill(kept)


def test_a_newer_version_is_refused_left_as_it_was_and_let_go(
    keeper: Keeper, path: Path, kept: Any
) -> None:
    kept.close()
    now = keeper.kind.version
    edit(path, f"PRAGMA user_version={now + 1}")
    with pytest.raises(UnsupportedStore, match=f"version {now} at most, found {now + 1}") as newer:
        keeper.type.open(path)
    edit(path, f"PRAGMA user_version={now}")  # would be locked if the file were still open
    keeper.type.open(path).close()
    assert newer.value.args  # the error, and with it its traceback, is alive until here


def test_an_older_version_is_brought_up_to_date(keeper: Keeper, path: Path) -> None:
    path.touch()
    edit(path, f"PRAGMA application_id={keeper.kind.application}")  # as before the first step
    old = keeper.type.open(path)
    keeper.fill(old)
    old.close()
    keeper.type.open(path).close()


def test_another_kind_of_database_is_refused(keeper: Keeper, path: Path) -> None:
    edit(path, "CREATE TABLE somebody_elses (x)")
    refused(keeper, path, "another kind")


def test_each_other_s_files_are_refused(path: Path, tmp_path: Path) -> None:
    for one, other in (("ledger", "store"), ("store", "ledger")):
        place = tmp_path / one
        KEEPERS[one].type.create(place).close()
        refused(KEEPERS[other], place, "another kind")


@pytest.mark.parametrize("content", [b"", b"no database at all", bytes(8192)])
def test_what_is_no_database_is_refused(keeper: Keeper, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused(keeper, path, "expected a")


def test_a_damaged_file_is_refused(keeper: Keeper, path: Path, kept: Any) -> None:
    keeper.fill(kept)
    kept.close()
    data = bytearray(path.read_bytes())
    assert len(data) > 3 * PAGE
    for page in range(2, len(data) // PAGE):
        data[page * PAGE : page * PAGE + 200] = b"\xaa" * 200
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"expected a sound {keeper.kind.name}"):
        keeper.type.open(path)


def test_a_truncated_file_is_refused(keeper: Keeper, path: Path, kept: Any) -> None:
    keeper.fill(kept)
    kept.close()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match=f"expected a sound {keeper.kind.name}"):
        keeper.type.open(path)


class Deaf:
    """A connection on which a pragma does not come into force."""

    def __init__(self, connection: sqlite3.Connection, pragma: str) -> None:
        self._connection, self._pragma = connection, pragma

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement.startswith(f"PRAGMA {self._pragma}="):
            statement = f"PRAGMA {self._pragma}"
        return self._connection.execute(statement, *parameters)


@pytest.mark.parametrize(
    "pragma", ["journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync"]
)
def test_a_file_whose_commits_would_not_be_durable_is_refused(
    keeper: Keeper, path: Path, kept: Any, pragma: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.close()
    edit(path, "PRAGMA journal_mode=DELETE")
    connect = sqlite_file._connect

    def deaf(path: Path) -> Any:
        connection = connect(path)
        connection.execute("PRAGMA synchronous=NORMAL")
        return Deaf(connection, pragma)

    monkeypatch.setattr(sqlite_file, "_connect", deaf)
    with pytest.raises(StoreError, match=f"expected {pragma} = \\w+ in force, got"):
        keeper.type.open(path)


@pytest.mark.parametrize("statement", ["INSERT", "COMMIT"])
def test_nothing_is_read_inside_a_transaction_that_was_not_rolled_back(
    keeper: Keeper, path: Path, kept: Any, statement: str, break_disk: Callable[..., set[str]]
) -> None:
    file = keeper.file(kept)
    failing = break_disk(file, {statement, "ROLLBACK"})
    with pytest.raises(StoreError):
        keeper.fill(kept)
    failing.clear()
    for attempt in (file.reading, file.transaction):
        with pytest.raises(StoreError, match="still open; restart the process"), attempt():
            raise AssertionError("expected no access to the file")
    kept.close()
    again = keeper.type.open(path)
    keeper.fill(again)
    again.close()
