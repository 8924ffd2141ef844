"""The ledger on disk: what survives, and what is refused."""

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

from askance.client.errors import StoreError, UnsupportedStore
from askance.client.ledger import Charge, Limits, SqliteLedger, Totals

STUDY = b"s" * 32
AMPLE = Limits(study=1 << 40, day=1 << 40, life=1 << 40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    made = SqliteLedger.create(path)
    yield made
    made.close()


def spend(ledger: SqliteLedger, number: int, nano_nats: int = 5) -> bytes:
    charge = Charge(
        number.to_bytes(32, "big"), STUDY, number.to_bytes(32, "big"), 10, nano_nats, b"y"
    )
    report = ledger.commit(charge, AMPLE, lambda symbol, charged, spent: b"report %d" % spent)
    assert isinstance(report, bytes)
    return report


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_everything_survives_a_restart(path: Path, ledger: SqliteLedger) -> None:
    report = spend(ledger, 1)
    history = list(ledger.history())
    ledger.close()
    again = SqliteLedger.open(path)
    assert again.stored((1).to_bytes(32, "big")) == report
    assert again.totals(STUDY, 10) == Totals(5, 5, 5, 10)
    assert list(again.history()) == history
    assert spend(again, 1) == report
    again.close()


def test_what_was_spent_survives_a_kill(path: Path) -> None:
    """A process tells of each charge after its commit, and is killed; none is forgotten."""
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from askance.client.ledger import Charge, Limits, SqliteLedger
        ledger = SqliteLedger.create(Path(sys.argv[1]))
        limits = Limits(1 << 40, 1 << 40, 1 << 40)
        for number in range(10_000):
            name = number.to_bytes(32, "big")
            charge = Charge(name, b"s" * 32, name, 10, 5, b"y")
            ledger.commit(charge, limits, lambda symbol, charged, spent: b"report")
            print(number, flush=True)
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
    ledger = SqliteLedger.open(path)
    assert ledger.totals(STUDY, 10).life >= 5 * len(told)
    assert all(ledger.stored(number.to_bytes(32, "big")) for number in told)
    ledger.close()


def test_a_commit_is_synced_to_the_disk_before_it_returns(path: Path, ledger: SqliteLedger) -> None:
    def pragma(of: SqliteLedger, name: str) -> object:
        return of._file.connection.execute(f"PRAGMA {name}").fetchone()[0]

    made = (pragma(ledger, "journal_mode"), pragma(ledger, "synchronous"))
    ledger.close()
    again = SqliteLedger.open(path)
    opened = (pragma(again, "journal_mode"), pragma(again, "synchronous"))
    again.close()
    assert made == opened == ("wal", 2)  # 2 is FULL


def test_a_missing_ledger_is_refused_and_none_is_made(path: Path) -> None:
    with pytest.raises(StoreError, match="found no file"):
        SqliteLedger.open(path)
    assert not path.exists()


def test_a_ledger_is_never_overwritten(path: Path, ledger: SqliteLedger) -> None:
    spend(ledger, 1)
    with pytest.raises(StoreError, match="expected no file"):
        SqliteLedger.create(path)
    assert ledger.totals(STUDY, 10).life == 5


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be made"):
        SqliteLedger.create(tmp_path / "nowhere" / "ledger.sqlite")


def test_it_is_private_to_its_owner(path: Path, ledger: SqliteLedger) -> None:
    spend(ledger, 1)
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0


def test_one_process_at_a_time(path: Path, ledger: SqliteLedger) -> None:
    with pytest.raises(StoreError, match="locked"):
        SqliteLedger.open(path)
    spend(ledger, 1)


def test_a_newer_version_is_refused_and_left_as_it_was(path: Path, ledger: SqliteLedger) -> None:
    ledger.close()
    edit(path, "PRAGMA user_version=2")
    before = path.read_bytes()
    with pytest.raises(UnsupportedStore, match="version 1 at most, found 2"):
        SqliteLedger.open(path)
    assert path.read_bytes() == before


def test_a_refused_file_is_not_held(path: Path, ledger: SqliteLedger) -> None:
    ledger.close()
    edit(path, "PRAGMA user_version=2")
    with pytest.raises(UnsupportedStore) as refused:
        SqliteLedger.open(path)
    edit(path, "PRAGMA user_version=1")  # would be locked if the file were still open
    SqliteLedger.open(path).close()
    assert refused.value.args  # the error, and with it its traceback, is alive until here


def test_another_kind_of_database_is_refused_and_left_as_it_was(path: Path) -> None:
    edit(path, "CREATE TABLE somebody_elses (x)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another kind"):
        SqliteLedger.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"no database at all", bytes(8192)])
def test_what_is_no_database_is_refused_and_left_as_it_was(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match="expected a"):
        SqliteLedger.open(path)
    assert path.read_bytes() == content


def filled(ledger: SqliteLedger, path: Path) -> bytearray:
    for number in range(150):
        spend(ledger, number)
    ledger.close()
    data = bytearray(path.read_bytes())
    assert len(data) > 4 * 4096
    return data


def test_a_damaged_ledger_is_refused(path: Path, ledger: SqliteLedger) -> None:
    data = filled(ledger, path)
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xaa" * 200
    path.write_bytes(data)
    with pytest.raises(StoreError, match="expected a sound ledger"):
        SqliteLedger.open(path)


def test_a_truncated_ledger_is_refused(path: Path, ledger: SqliteLedger) -> None:
    data = filled(ledger, path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreError, match="expected a sound ledger"):
        SqliteLedger.open(path)


def test_a_row_that_no_ledger_writes_is_refused_by_the_file_itself(
    path: Path, ledger: SqliteLedger
) -> None:
    ledger.close()
    good = {"request_digest": bytes(32), "study_digest": STUDY, "question": bytes(32), "day": 1}
    good |= {"nano_nats": 1, "symbol": b"y", "report": b"r"}
    for column, value in {"nano_nats": -1, "day": -1, "study_digest": b"short"}.items():
        row = {**good, column: value}
        connection = sqlite3.connect(path)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(
                f"INSERT INTO charges ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                tuple(row.values()),
            )
        connection.close()


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


@pytest.mark.parametrize("statement", ["BEGIN", "SELECT", "INSERT", "COMMIT"])
def test_a_failing_disk_spends_nothing_and_is_tried_again(
    ledger: SqliteLedger, statement: str
) -> None:
    failing = FailingConnection(ledger._file.connection, {statement})
    ledger._file.connection = failing  # type: ignore[assignment]  # a stand-in for a broken disk
    with pytest.raises(StoreError, match="nothing was spent: disk I/O error"):
        spend(ledger, 1)
    failing.failing.clear()
    assert ledger.totals(STUDY, 10).life == 0
    assert spend(ledger, 1) == b"report 5"


@pytest.mark.parametrize("statement", ["INSERT", "COMMIT"])
def test_a_disk_that_cannot_even_roll_back_lets_nothing_more_out(
    ledger: SqliteLedger, statement: str
) -> None:
    failing = FailingConnection(ledger._file.connection, {statement, "ROLLBACK"})
    ledger._file.connection = failing  # type: ignore[assignment]  # a stand-in for a broken disk
    for _ in range(2):
        with pytest.raises(StoreError, match="nothing was spent"):
            spend(ledger, 1)
        failing.failing.discard(statement)


def test_a_closed_ledger_says_so(ledger: SqliteLedger) -> None:
    ledger.close()
    with pytest.raises(StoreError):
        spend(ledger, 1)
    with pytest.raises(StoreError):
        ledger.stored(bytes(32))
