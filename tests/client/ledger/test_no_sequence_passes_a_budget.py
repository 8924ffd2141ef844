"""Any sequence of charges, restarts, failing disks, lost rows and restored copies keeps the budget.

The model keeps what the ledger said and nothing else; both ledgers are run against it.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from askance_client.errors import StoreError
from askance_client.ledger import (
    SECONDS_PER_DAY,
    Charge,
    Ledger,
    LedgerBehind,
    LedgerFile,
    Limits,
    Overrun,
    Span,
    SqliteLedger,
)
from askance_simulation.fleets.memory_ledger import MemoryLedger

DAY = SECONDS_PER_DAY
STUDIES = [bytes([n]) * 32 for n in range(3)]
SMALL = st.integers(0, 7)


def name(kind: bytes, number: int) -> bytes:
    return kind * 31 + bytes([number])


class FailingCommit:
    """A disk that fails at the next commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._connection, attribute)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *parameters)


class Spending(RuleBasedStateMachine):
    """A device's life, as its ledger sees it."""

    ledger: Ledger

    def make(self) -> Ledger:
        return MemoryLedger()

    @initialize(
        study=st.integers(0, 40),
        day=st.integers(0, 60),
        life=st.integers(0, 90),
        window=st.none() | st.integers(0, 60),
        epoch=st.none() | st.integers(0, 40),
        days=st.integers(1, 3),
        answers=st.integers(1, 8),
        work=st.integers(1, 60),
    )
    def begin(
        self,
        study: int,
        day: int,
        life: int,
        window: int | None,
        epoch: int | None,
        days: int,
        answers: int,
        work: int,
    ) -> None:
        self.limits = Limits(study, day, life, answers=answers, work=work)
        self.window, self.epoch, self.days = window, epoch, days
        self.reports: dict[bytes, bytes] = {}
        self.frozen: dict[bytes, bytes] = {}
        self.entries: list[tuple[bytes, int, int]] = []  # study, day, nano-nats
        self.work: list[tuple[bytes, int, int]] = []  # study, day, weight
        self.ledger = self.make()

    @rule(
        request=SMALL,
        study=st.sampled_from(STUDIES),
        question=SMALL,
        day=st.integers(0, 3),
        nano_nats=st.integers(1, 25),
        symbol=st.binary(min_size=1, max_size=2),
        weight=st.integers(0, 40),
    )
    def answer(
        self,
        request: int,
        study: bytes,
        question: int,
        day: int,
        nano_nats: int,
        symbol: bytes,
        weight: int,
    ) -> None:
        asked, at_s = (name(b"r", request), study, name(b"q", question)), day * DAY
        charge = Charge(*asked, at_s, nano_nats, symbol, weight=weight)
        limits = self.limits_on(day)
        standing = self.ledger.standing(charge.request_digest, charge.question, study, day, limits)
        assert standing.totals.window == self.in_window(day)
        assert standing.totals.epoch == self.in_epoch(study, day)
        outcome = self.ledger.commit(charge, limits, self.compose)
        if charge.request_digest in self.reports:
            assert outcome == self.reports[charge.request_digest]
            return
        if charge.question in self.frozen:
            assert outcome == self.compose(self.frozen[charge.question], 0, 0, 0)
            return
        if isinstance(outcome, Overrun):
            assert self.would_pass(study, day, nano_nats, weight) is outcome
            return
        spent = self.total(study=study) if self.epoch is None else self.in_epoch(study, day)
        spent += nano_nats
        assert outcome == self.compose(symbol, nano_nats, spent, len(self.entries) + 1)
        self.reports[charge.request_digest] = outcome
        self.frozen[charge.question] = symbol
        self.entries.append((study, day, nano_nats))
        self.work.append((study, day, weight))

    @rule(request=SMALL)
    def look(self, request: int) -> None:
        digest = name(b"r", request)
        assert self.ledger.stored(digest) == self.reports.get(digest)

    @invariant()
    def no_limit_is_passed_and_nothing_is_forgotten(self) -> None:
        history = [(e.study_digest, e.at_s // DAY, e.nano_nats) for e in self.ledger.history()]
        assert history == self.entries
        for study in STUDIES:
            for day in range(4):
                totals = self.ledger.totals(study, day)
                assert totals.study == self.total(study=study) <= self.limits.study
                assert totals.day == self.total(day=day) <= self.limits.day
                assert totals.life == self.total() <= self.limits.life
                answers = [of for of, _, _ in self.entries if of == study]
                assert totals.study_answers == len(answers) <= self.limits.answers
                assert totals.answers == len(self.entries)
                assert totals.work == self.worked(study, day) <= self.limits.work
                assert totals.last_s == DAY * max((entry[1] for entry in self.entries), default=0)

    def limits_on(self, day: int) -> Limits:
        """Windows of `days` days, and epochs of two."""
        window = None if self.window is None else Span((day - self.days + 1) * DAY, self.window)
        epoch = None if self.epoch is None else Span(day // 2 * 2 * DAY, self.epoch)
        return self.limits._replace(window=window, epoch=epoch)

    def in_window(self, day: int) -> int:
        if self.window is None:
            return 0
        return sum(cost for _, on, cost in self.entries if on > day - self.days)

    def in_epoch(self, study: bytes, day: int) -> int:
        if self.epoch is None:
            return 0
        return sum(cost for of, on, cost in self.entries if of == study and on >= day // 2 * 2)

    @staticmethod
    def compose(symbol: bytes, charged: int, spent: int, sequence: int) -> bytes:
        return symbol + b"/%d/%d/%d" % (charged, spent, sequence)

    def total(self, study: bytes | None = None, day: int | None = None) -> int:
        return sum(
            cost for of, on, cost in self.entries if study in (None, of) and day in (None, on)
        )

    def worked(self, study: bytes, day: int) -> int:
        return sum(weight for of, on, weight in self.work if (of, on) == (study, day))

    def would_pass(self, study: bytes, day: int, cost: int, weight: int) -> Overrun | None:
        if self.total() + cost > self.limits.life:
            return Overrun.LIFE
        if self.window is not None and self.in_window(day) + cost > self.window:
            return Overrun.WINDOW
        if self.total(day=day) + cost > self.limits.day:
            return Overrun.DAY
        if self.total(study=study) + cost > self.limits.study:
            return Overrun.STUDY
        if self.epoch is not None and self.in_epoch(study, day) + cost > self.epoch:
            return Overrun.EPOCH
        if len([of for of, _, _ in self.entries if of == study]) >= self.limits.answers:
            return Overrun.STUDY_ANSWERS
        return Overrun.WORK if self.worked(study, day) + weight > self.limits.work else None


class DurableSpending(Spending):
    """The same on a disk, with restarts and failures."""

    backup: tuple[bytes, int] | None = None

    def make(self) -> Ledger:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger"
        return LedgerFile.create(self.path).ledger()

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = LedgerFile.open(self.path).ledger()

    @rule(request=st.integers(8, 11), nano_nats=st.integers(1, 25))
    def fail(self, request: int, nano_nats: int) -> None:
        """The disk fails under a commit: what would be new is not there, what was there is."""
        assert isinstance(self.ledger, SqliteLedger)
        connection = self.ledger._file.file.connection
        self.ledger._file.file.connection = FailingCommit(connection)  # type: ignore[assignment]  # a broken disk
        question = name(b"q", request)
        charge = Charge(name(b"r", request), STUDIES[0], question, 0, nano_nats, b"x")
        try:
            self.ledger.commit(charge, self.limits, self.compose)
            raise AssertionError("a failed commit must not return")
        except StoreError:
            pass
        finally:
            self.ledger._file.file.connection = connection

    @rule()
    def back_up(self) -> None:
        self.ledger.close()
        self.backup = self.path.read_bytes(), len(self.entries)
        self.ledger = LedgerFile.open(self.path).ledger()

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        """A copy without all of the charges is refused; a whole one is the ledger itself."""
        assert self.backup is not None
        copy, charges = self.backup
        self.ledger.close()
        now = self.path.read_bytes()
        self.path.write_bytes(copy)
        if charges < len(self.entries):
            self.refused()
            self.path.write_bytes(now)
        self.ledger = LedgerFile.open(self.path).ledger()

    @precondition(lambda self: self.entries)
    @rule(first=st.integers(0, 40), count=st.integers(1, 40))
    def lose_rows(self, first: int, count: int) -> None:
        """A ledger that lost any of its rows is refused."""
        first = first % len(self.entries) + 1
        self.ledger.close()
        now = self.path.read_bytes()
        connection = sqlite3.connect(self.path)
        with connection:
            connection.execute(
                "DELETE FROM postings WHERE place BETWEEN ? AND ?", (first, first + count - 1)
            )
        connection.close()
        self.refused()
        self.path.write_bytes(now)
        self.ledger = LedgerFile.open(self.path).ledger()

    @precondition(lambda self: self.entries)
    @rule()
    def lose_the_log(self) -> None:
        """A killed process leaves the log; without it, charges are missing unless it was folded."""
        with tempfile.TemporaryDirectory() as folder:
            killed = Path(folder) / "ledger"
            for suffix in ("", ".mark"):
                shutil.copy(f"{self.path}{suffix}", f"{killed}{suffix}")
            try:
                ledger = LedgerFile.open(killed).ledger()
            except LedgerBehind:
                return
            assert len(list(ledger.history())) == len(self.entries)
            ledger.close()

    def refused(self) -> None:
        try:
            LedgerFile.open(self.path).ledger()
        except LedgerBehind:
            return
        raise AssertionError("expected a ledger that lost charges to be refused")

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.ledger.close()
            self.folder.cleanup()


Spending.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
DurableSpending.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestMemoryLedger = Spending.TestCase
TestSqliteLedger = DurableSpending.TestCase
