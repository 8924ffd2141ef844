"""The ledger on disk: what survives, and what is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from askance_client.errors import StoreError
from askance_client.ledger import SECONDS_PER_DAY, Charge, LedgerFile, Limits, SqliteLedger, Totals

DAY = SECONDS_PER_DAY
STUDY = b"s" * 32
AMPLE = Limits(study=1 << 40, day=1 << 40, life=1 << 40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    made = LedgerFile.create(path).ledger()
    yield made
    made.close()


def spend(ledger: SqliteLedger, number: int, nano_nats: int = 5) -> bytes:
    charge = Charge(
        number.to_bytes(32, "big"), STUDY, number.to_bytes(32, "big"), 10 * DAY, nano_nats, b"y"
    )
    report = ledger.commit(
        charge, AMPLE, lambda symbol, charged, spent, sequence: b"report %d" % spent
    )
    assert isinstance(report, bytes)
    return report


def test_everything_survives_a_restart(path: Path, ledger: SqliteLedger) -> None:
    report = spend(ledger, 1)
    history = list(ledger.history())
    ledger.close()
    again = LedgerFile.open(path).ledger()
    assert again.stored((1).to_bytes(32, "big")) == report
    assert again.totals(STUDY, 10) == Totals(5, 5, 5, 10 * DAY, answers=1, study_answers=1)
    assert list(again.history()) == history
    assert spend(again, 1) == report
    again.close()


def test_what_was_spent_survives_a_kill(path: Path) -> None:
    """A process prints each charge after its commit, and is killed; none is lost."""
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from askance_client.ledger import Charge, LedgerFile, Limits
        ledger = LedgerFile.create(Path(sys.argv[1])).ledger()
        limits = Limits(1 << 40, 1 << 40, 1 << 40)
        for number in range(10_000):
            name = number.to_bytes(32, "big")
            charge = Charge(name, b"s" * 32, name, 10, 5, b"y")
            ledger.commit(charge, limits, lambda symbol, charged, spent, sequence: b"report")
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
    ledger = LedgerFile.open(path).ledger()
    assert ledger.totals(STUDY, 10).life >= 5 * len(told)
    assert all(ledger.stored(number.to_bytes(32, "big")) for number in told)
    ledger.close()


def test_a_row_that_no_ledger_writes_is_refused_by_the_file_itself(
    path: Path, ledger: SqliteLedger
) -> None:
    ledger.close()
    good = {"request_digest": bytes(32), "study_digest": STUDY, "question": bytes(32), "at_s": 1}
    good |= {"nano_nats": 1, "symbol": b"y", "report": b"r", "hash": bytes(32)}
    good |= {"member": "", "enrolment": b"", "sequence": 1, "kind": "answer"}
    bad = {"nano_nats": 0, "at_s": -1, "study_digest": b"short", "sequence": 0, "kind": "gift"}
    for column, value in {**bad, "question": None}.items():
        row = {**good, column: value}
        connection = sqlite3.connect(path)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(
                f"INSERT INTO postings ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                tuple(row.values()),
            )
        connection.close()


@pytest.mark.parametrize("statement", ["BEGIN", "SELECT", "INSERT", "COMMIT"])
def test_a_failing_disk_spends_nothing_and_is_tried_again(
    ledger: SqliteLedger, statement: str, break_disk: Callable[..., set[str]]
) -> None:
    failing = break_disk(ledger._file.file, {statement})
    with pytest.raises(StoreError, match="nothing was spent: disk I/O error"):
        spend(ledger, 1)
    failing.clear()
    assert ledger.totals(STUDY, 10).life == 0
    assert spend(ledger, 1) == b"report 5"


@pytest.mark.parametrize("statement", ["INSERT", "COMMIT"])
def test_a_disk_that_cannot_even_roll_back_lets_nothing_more_out(
    ledger: SqliteLedger, statement: str, break_disk: Callable[..., set[str]]
) -> None:
    failing = break_disk(ledger._file.file, {statement, "ROLLBACK"})
    for _ in range(2):
        with pytest.raises(StoreError, match="nothing was spent"):
            spend(ledger, 1)
        failing.discard(statement)


def test_a_closed_ledger_says_so(ledger: SqliteLedger) -> None:
    ledger.close()
    with pytest.raises(StoreError):
        spend(ledger, 1)
    with pytest.raises(StoreError):
        ledger.stored(bytes(32))
