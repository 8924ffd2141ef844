"""The store on disk: what survives, and what is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from askance.aggregator.store import SqliteStore, StoredReport
from askance.aggregator.store.migrations import KIND
from askance.client.errors import StoreError, UnsupportedStore
from askance.client.messages import AckStatus, SignedStudy

REQUEST = bytes([1]) * 32
STUDY = SignedStudy(b"a study", b"a key", b"a signature")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore.create(path)
    yield made
    made.close()


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_everything_survives_a_restart(path: Path, store: SqliteStore) -> None:
    store.enrol([(b"device", bytes(32))])
    store.add_study(REQUEST, STUDY)
    store.log(REQUEST).append("line")
    store.accept([StoredReport(REQUEST, 0, b"a"), StoredReport(REQUEST, 0, b"b")])
    store.close()
    again = SqliteStore.open(path)
    assert again.population() == 1
    assert again.studies() == {REQUEST: STUDY}
    assert list(again.log(REQUEST).lines()) == ["line"]
    assert list(again.reports(REQUEST)) == [(0, b"a")]
    assert list(again.evidence(REQUEST)) == [(0, b"b")]
    assert again.accept([StoredReport(REQUEST, 0, b"a")]) == [AckStatus.DUPLICATE]
    again.close()


def test_what_was_accepted_survives_a_kill(path: Path) -> None:
    """A process tells what it accepted, after each commit, and is killed; all of it is there."""
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from askance.aggregator.store import SqliteStore, StoredReport
        store = SqliteStore.create(Path(sys.argv[1]))
        for batch in range(10_000):
            store.accept([StoredReport(bytes(32), 3 * batch + i, b"r") for i in range(3)])
            print(batch, flush=True)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(25)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().split()]
    store = SqliteStore.open(path)
    ordinals = [ordinal for ordinal, _ in store.reports(bytes(32))]
    assert ordinals[: 3 * len(told)] == list(range(3 * len(told)))
    assert len(ordinals) % 3 == 0  # a batch is there whole or not at all
    store.close()


def test_a_commit_is_synced_to_the_disk_before_it_returns(path: Path, store: SqliteStore) -> None:
    def pragma(of: SqliteStore, name: str) -> object:
        return of._file.connection.execute(f"PRAGMA {name}").fetchone()[0]

    made = (pragma(store, "journal_mode"), pragma(store, "synchronous"))
    store.close()
    again = SqliteStore.open(path)
    opened = (pragma(again, "journal_mode"), pragma(again, "synchronous"))
    again.close()
    assert made == opened == ("wal", 2)  # 2 is FULL


def test_a_missing_store_is_refused_and_none_is_made(path: Path) -> None:
    with pytest.raises(StoreError, match="found no file"):
        SqliteStore.open(path)
    assert not path.exists()


def test_a_store_is_never_overwritten(path: Path, store: SqliteStore) -> None:
    store.enrol([(b"device", bytes(32))])
    store.close()
    with pytest.raises(StoreError, match="expected no file"):
        SqliteStore.create(path)
    again = SqliteStore.open(path)
    assert again.population() == 1
    again.close()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be made"):
        SqliteStore.create(tmp_path / "nowhere" / "store.sqlite")


def test_it_is_private_to_its_owner(path: Path, store: SqliteStore) -> None:
    assert path.stat().st_mode & 0o777 == 0o600


def test_one_process_at_a_time(path: Path, store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="locked"):
        SqliteStore.open(path)
    assert store.population() == 0


def test_a_refused_file_is_not_held(path: Path, store: SqliteStore) -> None:
    store.close()
    edit(path, f"PRAGMA user_version={KIND.version + 1}")
    with pytest.raises(UnsupportedStore) as refused:
        SqliteStore.open(path)
    edit(path, f"PRAGMA user_version={KIND.version}")  # would be locked if the file were still open
    SqliteStore.open(path).close()
    assert refused.value.args  # the error, and with it its traceback, is alive until here


def test_a_newer_version_is_refused(path: Path, store: SqliteStore) -> None:
    store.close()
    edit(path, f"PRAGMA user_version={KIND.version + 1}")
    with pytest.raises(
        UnsupportedStore, match=f"version {KIND.version} at most, found {KIND.version + 1}"
    ):
        SqliteStore.open(path)


def test_an_older_version_is_brought_up_to_date(path: Path) -> None:
    path.touch()
    edit(path, f"PRAGMA application_id={KIND.application}")  # as if before the first step
    store = SqliteStore.open(path)
    assert store.enrol([(b"device", bytes(32))]) == range(1)
    store.close()
    assert SqliteStore.open(path).population() == 1


def test_another_kind_of_database_is_refused_and_left_as_it_was(path: Path) -> None:
    edit(path, "CREATE TABLE somebody_elses (x)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another kind"):
        SqliteStore.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"no database at all", bytes(8192)])
def test_what_is_no_database_is_refused_and_left_as_it_was(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match="expected a"):
        SqliteStore.open(path)
    assert path.read_bytes() == content


def test_a_damaged_store_is_refused(path: Path, store: SqliteStore) -> None:
    store.accept([StoredReport(REQUEST, ordinal, bytes(300)) for ordinal in range(500)])
    store.close()
    data = bytearray(path.read_bytes())
    assert len(data) > 3 * 4096
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xaa" * 200
    path.write_bytes(data)
    with pytest.raises(StoreError, match="expected a sound store"):
        SqliteStore.open(path)


def test_a_truncated_store_is_refused(path: Path, store: SqliteStore) -> None:
    store.accept([StoredReport(REQUEST, ordinal, bytes(300)) for ordinal in range(500)])
    store.close()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StoreError, match="expected a sound store"):
        SqliteStore.open(path)


class FailingConnection:
    """A disk that fails at the statement of your choice."""

    def __init__(self, connection: sqlite3.Connection, failing: set[str]) -> None:
        self._connection = connection
        self.failing = failing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement.split()[0] in self.failing:
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *parameters)


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
def test_a_failing_disk_stores_nothing_and_is_tried_again(
    store: SqliteStore, statement: str
) -> None:
    failing = FailingConnection(store._file.connection, {statement})
    store._file.connection = failing  # type: ignore[assignment]  # a stand-in for a broken disk
    with pytest.raises(StoreError, match="nothing was stored: disk I/O error"):
        store.accept([StoredReport(REQUEST, 0, b"a")])
    failing.failing.clear()
    assert list(store.reports(REQUEST)) == []
    assert store.accept([StoredReport(REQUEST, 0, b"a")]) == [AckStatus.ACCEPTED]


def test_a_disk_that_cannot_even_roll_back_acknowledges_nothing_more(store: SqliteStore) -> None:
    failing = FailingConnection(store._file.connection, {"COMMIT", "ROLLBACK"})
    store._file.connection = failing  # type: ignore[assignment]  # a stand-in for a broken disk
    for _ in range(2):
        with pytest.raises(StoreError):
            store.accept([StoredReport(REQUEST, 0, b"a")])
        failing.failing.discard("COMMIT")


def test_reading_from_a_failing_disk_is_a_store_error(store: SqliteStore) -> None:
    store._file.connection = FailingConnection(store._file.connection, {"SELECT"})  # type: ignore[assignment]  # a stand-in for a broken disk
    for read in (
        store.population,
        store.studies,
        lambda: store.device(b"device"),
        lambda: list(store.reports(REQUEST)),
        lambda: store.report(REQUEST, 0),
        lambda: list(store.evidence(REQUEST)),
    ):
        with pytest.raises(StoreError, match="cannot be read"):
            read()


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    store.close()
    with pytest.raises(StoreError):
        store.population()
    with pytest.raises(StoreError):
        store.accept([])
