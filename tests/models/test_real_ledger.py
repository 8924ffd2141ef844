"""The model of the ledger drives the real one, step by step: each says what the other says.

Real are the ledger file with its mark and counter, the device's core, the comparison of the
aggregator's number, and the repair. A crash is an exception at a step: what is on the disk by then
is what the next process finds. The network and the aggregator are the model's.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from askance_aggregator.encoding import encode_request
from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_client.accounting import parse_epsilon
from askance_client.cli.counters import OwnCounter, a_counter
from askance_client.cli.repairing import accept_loss
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, Examiner, Policy
from askance_client.ledger import LedgerBehind, LedgerFile
from askance_client.ledger.mark import Mark, mark_path
from askance_client.messages import Reason, Refusal, Request
from askance_client.service import Identity
from askance_client.service.answering import DeviceAnswers
from askance_client.service.runtime import LedgerOlder, check_sequence
from tests.aggregator.server.devices.conftest import KEY, NOW_S, SCHEMA
from tests.aggregator.server.devices.conftest import World as Service
from tests.models.ledger_model import (
    DIED,
    GAP,
    LOSS,
    NOTHING,
    REFUSED_AT_START,
    REFUSED_BUDGET,
    REFUSED_ECHO,
    STARTED,
    LedgerModel,
    Row,
    World,
    sequence,
)

ONE = parse_epsilon("1")
LIFE = 2
GREATEST = (1 << 64) - 1
IDENTITY = Identity(b"a device", bytes(32))
COMMAND = 'read -r n < "$1"; if [ "$2" -gt "$n" ]; then echo "$2" > "$1"; fi; cat "$1"'
QUERIES = (
    predicate(SCHEMA.smoker == 1),
    predicate(SCHEMA.colour == "red"),
    predicate(SCHEMA.colour == "green"),
)


class Killed(BaseException):
    """The process ends here."""


class Coins:
    """Coins of a request's first draw are the least words, of its second one the greatest."""

    draw = 0

    def words(self, request: bytes, count: int) -> tuple[int, ...]:
        return (GREATEST if self.draw else 0,) * count


class DyingConnection:
    """Connection whose process ends before its next commit."""

    def __init__(self, connection: sqlite3.Connection, end: Callable[[], None]) -> None:
        self._connection = connection
        self._end = end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        if statement == "COMMIT":
            self._end()
        return self._connection.execute(statement, *parameters)


class RealDevice:
    """A device in a folder, that is ended at any step and started again.

    Args:
        root: an empty folder; the device's is in it, and the counter beside that.
        counter: "file", "number" or None.
    """

    def __init__(self, root: Path, counter: str | None) -> None:
        self._root = root
        self._folder = root / "device"
        self._folder.mkdir()
        self._path = self._folder / "ledger.sqlite"
        self._kind = counter
        self._number = root / "number"
        self._number.write_text("0\n")
        (root / "counter.sh").write_text(COMMAND)
        self._coins = Coins()
        service = Service()
        self._study = service.study
        digest = digest_of(self._study.study)
        self._payloads = [
            encode_request(Request(digest, 0, 0, query, randomized_response(ONE)))
            for query in QUERIES
        ]
        self._file: LedgerFile | None = None
        self._device: Device | None = None
        self._copies = 0
        LedgerFile.create(self._path).close()

    @property
    def counter(self) -> OwnCounter | None:
        match self._kind:
            case "file":
                return a_counter(str(self._root / "counter"), self._folder)
            case "number":
                script = f"command:sh {self._root}/counter.sh {self._number}"
                return a_counter(script, self._folder)
        return None

    def start(self, *, dies_before: str = "") -> str:
        """Start the process, which may end before the mark or the counter is brought up."""
        advance = Mark.advance
        try:
            if dies_before:
                Mark.advance = self._dying(dies_before)  # type: ignore[method-assign, assignment]  # a crash
            self._file = LedgerFile.open(self._path, self.counter)
        except LedgerBehind:
            return REFUSED_AT_START
        except Killed:
            return DIED
        finally:
            Mark.advance = advance  # type: ignore[method-assign]
        self._device = Device(
            schema=SCHEMA,
            record=SCHEMA.encode({"smoker": 1, "colour": "red"}),
            policy=Policy(frozenset({KEY.public_key().public_bytes_raw()}), LIFE * ONE),
            ledger=self._file.ledger("", IDENTITY.device_id),
            coins=self._coins,
            now_s=lambda: NOW_S,
            examiner=Examiner(),
        )
        assert self._device.introduce(self._study) is None
        return STARTED

    def ask(self, request: int, echo: int, draw: int, dies_before: str = "") -> object:
        """Let an aggregator ask; return the report's bytes, a refusal, or that the process died."""
        assert self._device is not None
        assert self._file is not None
        try:
            answers = DeviceAnswers()
            asyncio.run(check_sequence(answers, self._device, IDENTITY, echo))
        except LedgerOlder:
            return REFUSED_ECHO
        self._coins.draw = draw
        file: Any = self._file._file
        if dies_before == "commit":
            file.file.connection = DyingConnection(file.file.connection, self._end)
        elif dies_before in ("mark", "count"):
            mark = file._marks[("mark", "count").index(dies_before)]
            mark.advance = lambda *_: self._end()
        try:
            report = self._device.answer(self._payloads[request])
            if dies_before == "send":
                self._end()
        except Killed:
            return DIED
        outcome = decode_report(report).outcome
        if isinstance(outcome, Refusal):
            assert outcome.reason is Reason.OVER_LIFE_BUDGET
            return REFUSED_BUDGET
        return report

    def crash(self) -> None:
        """End the process between two messages."""
        try:
            self._end()
        except Killed:
            return

    def copy(self) -> int:
        """Copy the folder, and return the copy's number."""
        self._copies += 1
        shutil.copytree(self._folder, self._root / f"copy {self._copies}")
        return self._copies

    def put_back(self, number: int, *, whole: bool) -> None:
        """Put a copy back: the whole folder, or all but the mark."""
        mark = mark_path(self._path)
        kept = mark.read_bytes()
        shutil.rmtree(self._folder)
        shutil.copytree(self._root / f"copy {number}", self._folder)
        if not whole:
            mark.write_bytes(kept)

    def accept(self) -> None:
        """Accept the loss, as the owner's command does."""
        members = [("", IDENTITY.device_id)]
        life = LIFE * ONE
        accept_loss(self._path, members, life, NOW_S, everyone=True, counter=self.counter)

    def rows(self) -> list[tuple[str, int]]:
        """Return kind and sequence number of all rows of the file that is on the disk."""
        with tempfile.TemporaryDirectory() as folder:
            for file in self._folder.glob("ledger.sqlite*"):
                shutil.copy(file, folder)
            connection = sqlite3.connect(Path(folder) / self._path.name)
            found = connection.execute("SELECT kind, sequence FROM postings ORDER BY place")
            rows = found.fetchall()
            connection.close()
        return rows

    def places(self) -> tuple[int, int | None]:
        """Return the places of the mark and of the counter."""
        mark = _place(mark_path(self._path))
        if self._kind == "number":
            return mark, int(self._number.read_text())
        counter = self._root / "counter"
        return mark, _place(counter) if counter.exists() else None

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()

    def _let_go(self) -> None:
        """Close the files as the end of a process does, which waits for no lock of its own."""
        if self._file is not None:
            marked: Any = self._file._file
            marked.file.connection.close()
            for mark in marked._marks:
                mark.close()

    def _end(self) -> None:
        """End the process: keep what is on the disk now."""
        ended = self._root / "ended"
        shutil.copytree(self._folder, ended)
        try:
            self._let_go()
        finally:
            self._file = self._device = None
            shutil.rmtree(self._folder)
            ended.rename(self._folder)
        raise Killed

    def _dying(self, step: str) -> Callable[[Mark, int, bytes], None]:
        advance = Mark.advance
        own = str(mark_path(self._path))

        def advanced(mark: Mark, place: int, chained: bytes) -> None:
            if (str(mark._path) == own) == (step == "mark"):
                raise Killed
            advance(mark, place, chained)

        return advanced


def _place(path: Path) -> int:
    mark = Mark.open(path)
    mark.close()
    return mark.high.place


class LedgerMachine(RuleBasedStateMachine):
    """Operations of the model, each done by the real device as well."""

    counters: tuple[str | None, ...] = (None, "file")

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        counter = data.draw(st.sampled_from(self.counters))
        self.world = World(
            requests=3, life=LIFE, folder=True, accepts=True, counter=counter, copies=2
        )
        self.model = LedgerModel(self.world)
        self.state = self.model.initial
        self._temporary = tempfile.TemporaryDirectory()
        self.real = RealDevice(Path(self._temporary.name), counter)
        self.reports: dict[Row, bytes] = {}
        self.copies: list[int] = []

    def may(self, *operation: object) -> bool:
        return operation in list(self.model.operations(self.state))

    def step(self, *operation: Any) -> object:
        """Do an operation in the model."""
        assert self.may(*operation), operation
        self.state, said = self.model.apply(self.state, operation)
        return said

    def settle(self, dies_before: str) -> bool:
        """Do the steps that are left, up to a crash; return whether it came."""
        while self.state.todo:
            if self.state.todo[0] == dies_before:
                self.step("crash")
                return True
            self.said = self.step(self.state.todo[0])
        return False

    @precondition(lambda self: not self.state.up)
    @rule(dies_before=st.sampled_from(["", "", "", "mark", "count"]))
    def start(self, dies_before: str) -> None:
        if self.world.counter == "number":
            dies_before = ""
        expected = self.step("start")
        if expected == STARTED and self.settle(dies_before):
            expected = DIED
        elif expected == REFUSED_AT_START or dies_before:
            dies_before = ""
        assert self.real.start(dies_before=dies_before) == expected

    @precondition(lambda self: self.state.up)
    @rule(
        data=st.data(),
        dies_before=st.sampled_from(["", "", "", "commit", "mark", "count", "send"]),
    )
    def ask(self, data: st.DataObject, dies_before: str) -> None:
        asks = [found for found in self.model.operations(self.state) if found[0] == "ask"]
        _, request, echo = operation = data.draw(st.sampled_from(asks))
        assert isinstance(request, int)
        assert isinstance(echo, int)
        draw = self.state.drawn[request]
        expected = self.step(*operation)
        row = self.state.answer
        if expected == NOTHING:
            todo = self.state.todo
            if self.settle(dies_before if dies_before in todo else ""):
                expected = DIED
            else:
                expected = self.said
            if dies_before not in todo:
                dies_before = ""
        else:
            dies_before = ""
        found = self.real.ask(request, echo, draw, dies_before)
        if not isinstance(found, bytes):
            assert found == expected
            return
        assert row is not None
        assert expected == (row, decode_report(found).sequence)
        assert self.reports.setdefault(row, found) == found
        others = [other for other in self.reports if other[0] == row[0] and other != row]
        outcome = decode_report(found).outcome
        assert all(decode_report(self.reports[other]).outcome != outcome for other in others)

    @precondition(lambda self: self.state.up)
    @rule()
    def crash(self) -> None:
        self.step("crash")
        self.real.crash()

    @precondition(lambda self: self.may("copy the folder"))
    @rule()
    def copy(self) -> None:
        self.step("copy the folder")
        self.copies = [*self.copies, self.real.copy()][-len(self.state.copies) :]

    @precondition(lambda self: not self.state.up and self.state.copies)
    @rule(data=st.data(), whole=st.booleans())
    def put_back(self, data: st.DataObject, whole: bool) -> None:
        number = data.draw(st.integers(0, len(self.state.copies) - 1))
        self.step("put back the folder" if whole else "put back the file", number)
        self.real.put_back(self.copies[number], whole=whole)

    @precondition(lambda self: self.may("accept a loss"))
    @rule()
    def accept(self) -> None:
        self.step("accept a loss")
        self.real.accept()

    @precondition(lambda self: self.state.under_way)
    @rule(data=st.data(), name=st.sampled_from(["deliver", "deliver", "lose"]))
    def network(self, data: st.DataObject, name: str) -> None:
        row, number = data.draw(st.sampled_from(sorted(self.state.under_way)))
        self.step(name, row, number)

    @invariant()
    def the_disk_is_the_models(self) -> None:
        if not hasattr(self, "state"):
            return
        kept = [row for row in self.state.rows if row != GAP]
        expected = [
            ("loss" if row == LOSS else "answer", sequence(tuple(kept[: place + 1])))
            for place, row in enumerate(kept)
        ]
        assert self.real.rows() == expected
        mark, counter = self.real.places()
        assert mark == len(self.state.mark)
        if self.world.counter is not None and counter is not None:
            model = self.state.counter
            assert counter == (model if isinstance(model, int) else len(model))

    def teardown(self) -> None:
        if hasattr(self, "real"):
            self.real.close()
            self._temporary.cleanup()


class CommandMachine(LedgerMachine):
    """The same with a counter that a command keeps, which takes longer."""

    counters = ("number",)


STEADY = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
LedgerMachine.TestCase.settings = STEADY
CommandMachine.TestCase.settings = settings(STEADY, max_examples=20)
TestLedger = LedgerMachine.TestCase
TestLedgerWithACommand = pytest.mark.slow(CommandMachine.TestCase)
