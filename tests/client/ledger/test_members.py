"""Many members' ledgers in one file: budgets apart, commits together, nothing seen too early."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from askance_client.errors import InvalidParameter, StoreError
from askance_client.ledger import (
    SECONDS_PER_DAY,
    Charge,
    LedgerFile,
    Limits,
    Overrun,
    Totals,
)
from askance_client.ledger.postings import KIND
from askance_client.sqlite_file import FileKind, SqliteFile

STUDY = b"s" * 32
LIMITS = Limits(study=100, day=100, life=100)
MEMBERS = tuple(f"member {number}" for number in range(40))
WAIT_S = 10


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


def charge(number: int, nano_nats: int, symbol: bytes = b"y") -> Charge:
    return Charge(name(number), STUDY, name(number), 10 * SECONDS_PER_DAY, nano_nats, symbol)


def compose(symbol: bytes, charged: int, spent: int, sequence: int) -> bytes:
    return symbol + b" charged %d spent %d" % (charged, spent)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[LedgerFile]:
    made = LedgerFile.create(path)
    yield made
    made.close()


def test_each_member_has_the_whole_of_a_budget(file: LedgerFile) -> None:
    for member in MEMBERS:
        ledger = file.ledger(member)
        assert ledger.commit(charge(1, 100), LIMITS, compose) == b"y charged 100 spent 100"
        assert ledger.commit(charge(2, 1), LIMITS, compose) is Overrun.LIFE
    assert file.members() == tuple(sorted(MEMBERS))


def test_the_same_question_is_frozen_for_each_member_alone(file: LedgerFile) -> None:
    assert file.ledger("a").commit(charge(1, 5, b"0"), LIMITS, compose) == b"0 charged 5 spent 5"
    assert file.ledger("b").commit(charge(1, 5, b"1"), LIMITS, compose) == b"1 charged 5 spent 5"
    assert file.ledger("a").stored(name(1)) == b"0 charged 5 spent 5"
    assert file.ledger("").stored(name(1)) is None


def test_all_that_is_kept_is_told_in_order(file: LedgerFile, path: Path) -> None:
    file.ledger("b").commit(charge(1, 5), LIMITS, compose)
    file.ledger("a").commit(charge(2, 6), LIMITS, compose)
    kept = list(file.answers())
    assert [(one.member, one.charge, one.report) for one in kept] == [
        ("b", charge(1, 5), b"y charged 5 spent 5"),
        ("a", charge(2, 6), b"y charged 6 spent 6"),
    ]
    file.close()
    again = LedgerFile.open(path)
    assert list(again.answers()) == kept
    again.close()


@pytest.mark.parametrize("member", ["x" * 257, "é" * 129, "a\0b", "\ud800"])
def test_a_name_that_cannot_be_kept_is_refused(file: LedgerFile, member: str) -> None:
    with pytest.raises(InvalidParameter, match="member's name"):
        file.ledger(member)


def test_a_single_device_s_file_from_before_members_keeps_its_charges(path: Path) -> None:
    before = FileKind(KIND.name, KIND.application, KIND.steps[:1], KIND.undone, KIND.make)
    old = SqliteFile.create(path, before)
    for number, cost in ((1, 70), (2, 0), (3, 20)):
        with old.transaction() as connection:
            connection.execute(
                "INSERT INTO charges (request_digest, study_digest, question, day, nano_nats,"
                " symbol, report) VALUES (?, ?, ?, 10, ?, ?, ?)",
                (name(number), STUDY, name(number), cost, b"y", b"report %d" % number),
            )
    old.close()
    ledger = LedgerFile.open(path).ledger()
    assert ledger.totals(STUDY, 10) == Totals(
        90, 90, 90, 11 * SECONDS_PER_DAY - 1, answers=2, study_answers=2
    )
    assert [entry.request_digest for entry in ledger.history()] == [name(1), name(3)]
    assert ledger.stored(name(3)) == b"report 3"
    assert ledger.commit(charge(4, 11), LIMITS, compose) is Overrun.LIFE
    ledger.close()
    again = LedgerFile.open(path)
    assert again.members() == ("",)
    again.close()


class SlowDisk:
    """A connection whose commits wait to be let through, and are counted."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.commits = 0
        self.reached = threading.Event()
        self.let_through = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT":
            self.commits += 1
            self.reached.set()
            assert self.let_through.wait(WAIT_S)
        return self._connection.execute(statement, *parameters)


@pytest.fixture
def disk(file: LedgerFile) -> SlowDisk:
    slow = SlowDisk(file._file.file.connection)
    file._file.file.connection = slow  # type: ignore[assignment]  # a stand-in
    return slow


def waiting(file: LedgerFile, count: int) -> None:
    """Return when this many steps wait for the next commit."""
    for _ in range(1000 * WAIT_S):
        if len(file._commits._waiting) == count:
            return
        threading.Event().wait(0.001)
    raise AssertionError("expected them to queue")


def test_who_comes_during_a_commit_is_the_next_one_together(
    file: LedgerFile, disk: SlowDisk
) -> None:
    with ThreadPoolExecutor(len(MEMBERS) + 1) as pool:
        spent = [pool.submit(file.ledger("first").commit, charge(1, 7), LIMITS, compose)]
        assert disk.reached.wait(WAIT_S)
        spent += [
            pool.submit(file.ledger(member).commit, charge(1, 7), LIMITS, compose)
            for member in MEMBERS
        ]
        waiting(file, len(MEMBERS))
        assert not any(one.done() for one in spent)
        disk.let_through.set()
        assert {one.result(WAIT_S) for one in spent} == {b"y charged 7 spent 7"}
    assert disk.commits == 2


def test_the_first_who_waits_leads_the_next_commit_for_all_in_their_order(
    file: LedgerFile, disk: SlowDisk
) -> None:
    """Else the last thread could lead each commit, and the first one wait for all of them."""
    composed: list[tuple[str, str]] = []  # the member, and whose thread it was done in

    def spend(member: str) -> None:
        threading.current_thread().name = member

        def told(symbol: bytes, charged: int, spent: int, sequence: int) -> bytes:
            composed.append((member, threading.current_thread().name))
            return compose(symbol, charged, spent, sequence)

        file.ledger(member).commit(charge(1, 7), LIMITS, told)

    threads = [threading.Thread(target=spend, args=(member,)) for member in MEMBERS[:4]]
    threads[0].start()
    assert disk.reached.wait(WAIT_S)
    for count, thread in enumerate(threads[1:], 1):
        thread.start()
        waiting(file, count)
    disk.let_through.set()
    for thread in threads:
        thread.join(WAIT_S)
    first, second, third, fourth = MEMBERS[:4]
    assert composed == [(first, first), (second, second), (third, second), (fourth, second)]


def test_nobody_reads_what_is_not_yet_on_the_disk(file: LedgerFile, disk: SlowDisk) -> None:
    """A stored report may be sent: it must not be found before its commit has returned."""
    with ThreadPoolExecutor(2) as pool:
        ledger = file.ledger("a")
        committed = pool.submit(ledger.commit, charge(1, 7), LIMITS, compose)
        assert disk.reached.wait(WAIT_S)
        read = pool.submit(ledger.stored, name(1))
        threading.Event().wait(0.05)
        assert not read.done()
        disk.let_through.set()
        assert read.result(WAIT_S) == committed.result(WAIT_S)


def test_a_step_that_fails_alone_takes_no_other_with_it(file: LedgerFile, disk: SlowDisk) -> None:
    def broken(symbol: bytes, charged: int, spent: int, sequence: int) -> bytes:
        raise ZeroDivisionError

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(file.ledger("first").commit, charge(1, 7), LIMITS, compose)
        assert disk.reached.wait(WAIT_S)
        steps = [
            pool.submit(file.ledger(member).commit, charge(1, 7), LIMITS, how)
            for member, how in (("a", compose), ("b", broken), ("c", compose))
        ]
        waiting(file, 3)
        disk.let_through.set()
        assert first.result(WAIT_S) == steps[0].result(WAIT_S) == steps[2].result(WAIT_S)
        with pytest.raises(ZeroDivisionError):
            steps[1].result(WAIT_S)
    assert file.members() == ("a", "c", "first")


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
def test_a_failing_disk_fails_all_who_waited_and_no_one_after(
    file: LedgerFile, statement: str, break_disk: Callable[..., set[str]]
) -> None:
    failing = break_disk(file._file.file, {statement})

    def spend(member: str) -> bytes | Overrun:
        return file.ledger(member).commit(charge(1, 7), LIMITS, compose)

    with ThreadPoolExecutor(8) as pool:
        for spent in [pool.submit(spend, member) for member in MEMBERS]:
            with pytest.raises(StoreError, match="nothing was spent: disk I/O error"):
                spent.result(WAIT_S)
        assert file.members() == ()
        failing.clear()
        assert set(pool.map(spend, MEMBERS)) == {b"y charged 7 spent 7"}
