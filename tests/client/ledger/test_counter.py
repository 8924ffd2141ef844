"""A counter outside the folder: a folder put back whole is refused, a killed device is not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from askance_client.cli import counters
from askance_client.cli.counters import CounterCommand, CounterFile, OwnCounter, a_counter
from askance_client.cli.repairing import accept_loss, repair_clock
from askance_client.errors import InvalidParameter, StoreError, StoreFailed
from askance_client.ledger import (
    SECONDS_PER_DAY,
    Charge,
    LedgerBehind,
    LedgerFile,
    Limits,
    Overrun,
    mark_path,
)
from askance_client.ledger.mark import Mark

STUDY = b"s" * 32
LIFE = 1_000
LIMITS = Limits(LIFE, LIFE, LIFE)
NOW = 20_000 * SECONDS_PER_DAY
COMMAND = """\
#!/bin/sh
# Raises the number in a file to at least the second argument, and prints it.
read -r n < "$1"
if [ "$2" -gt "$n" ]; then echo "$2" > "$1.new"; mv "$1.new" "$1"; fi
cat "$1"
"""


Replace = Callable[[str], None]


class Place:
    """Folder with a ledger, and a counter beside it on what stands for another volume."""

    def __init__(self, root: Path, kind: str) -> None:
        self.folder, self.outside = root / "device", root / "outside"
        self.folder.mkdir()
        self.outside.mkdir()
        self.ledger = self.folder / "ledger.sqlite"
        self.number = self.outside / "number"
        self.number.write_text("0\n")
        (self.outside / "counter.sh").write_text(COMMAND)
        command = f"command:sh {self.outside}/counter.sh {self.number}"
        self.setting = command if kind == "command" else str(self.outside / "counter")
        LedgerFile.create(self.ledger).close()

    @property
    def counter(self) -> OwnCounter:
        return a_counter(self.setting, self.folder)

    def open(self) -> LedgerFile:
        return LedgerFile.open(self.ledger, self.counter)

    def spend(self, *requests: int) -> None:
        file = self.open()
        for request in requests:
            spend(file, request)
        file.close()

    def copy(self) -> Path:
        copy = self.folder.with_name("copy")
        shutil.copytree(self.folder, copy)
        return copy

    def put_back(self, copy: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(copy, self.folder)

    def counted(self) -> int:
        if isinstance(self.counter, CounterFile):
            mark = Mark.open(self.outside / "counter")
            mark.close()
            return mark.high.place
        return int(self.number.read_text())

    def life(self) -> int:
        file = self.open()
        spent = file.ledger().totals(STUDY, 0).life
        file.close()
        return spent


@pytest.fixture(params=["file", "command"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


@pytest.fixture
def in_file(tmp_path: Path) -> Place:
    return Place(tmp_path, "file")


def spend(file: LedgerFile, request: int) -> bytes | Overrun:
    name = request.to_bytes(32, "big")
    charge = Charge(name, STUDY, name, NOW, 5, b"y", b"request %d" % request, b"study")
    return file.ledger("", b"id").commit(charge, LIMITS, lambda *told: b"report %d" % told[3])


def test_a_folder_that_was_put_back_whole_is_refused(place: Place) -> None:
    """Without the counter the mark fits, and the same folder is opened."""
    place.spend(1)
    copy = place.copy()
    place.spend(2, 3)
    place.put_back(copy)
    LedgerFile.open(place.ledger).close()
    with pytest.raises(LedgerBehind, match="row 3, as its counter says, found 1 as the last one"):
        place.open()


def test_the_counter_follows_every_commit_and_a_retry_costs_none(place: Place) -> None:
    file = place.open()
    for request, rows in ((1, 1), (2, 2), (2, 2), (3, 3)):
        spend(file, request)
        assert place.counted() == rows
    file.close()
    assert place.life() == 15


def test_a_counter_that_is_set_later_begins_at_the_ledgers_place(place: Place) -> None:
    file = LedgerFile.open(place.ledger)
    for request in range(4):
        spend(file, request)
    file.close()
    place.open().close()
    assert place.counted() == 4


def test_a_counter_of_another_ledger_is_refused(in_file: Place, tmp_path: Path) -> None:
    in_file.spend(1)
    (tmp_path / "other").mkdir()
    second = Place(tmp_path / "other", "file")
    second.setting = in_file.setting
    with pytest.raises(LedgerBehind, match="expected its own counter, found another ledger's"):
        second.open()


def test_another_history_of_the_same_length_is_refused(in_file: Place) -> None:
    """A file has the row's hash; a command has the number alone, and cannot tell."""
    in_file.spend(1)
    copy = in_file.copy()
    in_file.spend(2)
    in_file.put_back(copy)
    file = LedgerFile.open(in_file.ledger)  # as if the counter had not been set
    spend(file, 3)
    file.close()
    with pytest.raises(LedgerBehind, match="row 2 to be the one that its counter has"):
        in_file.open()


class TestCounterFiles:
    def test_a_missing_one_is_refused_once_there_was_one(self, in_file: Place) -> None:
        in_file.spend(1)
        (in_file.outside / "counter").unlink()
        with pytest.raises(LedgerBehind, match=r"found no file \(is its volume mounted\?\)"):
            in_file.open()
        assert not (in_file.outside / "counter").exists()

    @pytest.mark.parametrize("slots", [(0,), (1,)])
    def test_a_torn_one_leaves_the_place_before(
        self, in_file: Place, slots: tuple[int, ...]
    ) -> None:
        in_file.spend(1, 2)
        path = in_file.outside / "counter"
        data = bytearray(path.read_bytes())
        for slot in slots:
            data[slot * 4096 + 40] ^= 1
        path.write_bytes(data)
        assert in_file.life() == 10

    @pytest.mark.parametrize("data", [b"", b"x", bytes(8192)])
    def test_a_damaged_one_is_refused(self, in_file: Place, data: bytes) -> None:
        in_file.spend(1)
        (in_file.outside / "counter").write_bytes(data)
        with pytest.raises(LedgerBehind, match="expected a sound mark, found a damaged one"):
            in_file.open()

    def test_nothing_is_sent_while_it_cannot_be_written(
        self, in_file: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = in_file.open()
        pwrite, writes = os.pwrite, []

        def full(descriptor: int, data: bytes, offset: int) -> int:
            writes.append(descriptor)
            if len(set(writes)) > 1:  # the mark's descriptor is the first
                raise OSError(28, "No space left on device")
            return pwrite(descriptor, data, offset)

        with monkeypatch.context() as broken:
            broken.setattr(os, "pwrite", full)
            for attempt in (lambda: spend(file, 1), lambda: file.ledger().stored(bytes(32))):
                with pytest.raises(StoreError, match="charged, and nothing was sent: No space"):
                    attempt()
        assert in_file.counted() == 0
        assert spend(file, 1) == b"report 1"
        assert in_file.counted() == 1
        file.close()
        assert in_file.life() == 5

    def test_a_folder_that_cannot_be_written_is_refused_at_the_start(self, in_file: Place) -> None:
        in_file.setting = str(in_file.outside / "none" / "counter")
        expected = "counter: .*cannot be written: No such file .*make its folder"
        with pytest.raises(StoreFailed, match=expected) as refused:
            in_file.open()
        assert "accept-loss" not in str(refused.value)

    def test_a_file_that_cannot_be_opened_is_no_loss(self, in_file: Place) -> None:
        """A folder in its place, or the rights of another user: no charge was forgotten."""
        in_file.open().close()
        place = Path(in_file.setting)
        place.unlink()
        place.mkdir()
        with pytest.raises(StoreFailed, match=r"counter: .*cannot be opened: Is a") as it:
            in_file.open()
        assert "accept-loss" not in str(it.value)

    def test_a_file_in_the_folder_itself_is_none(self, in_file: Place) -> None:
        for text in ("counter", str(in_file.folder / "counter"), "../device/counter"):
            with pytest.raises(InvalidParameter, match="expected a file outside"):
                a_counter(text, in_file.folder)


FAILING = {
    "exit 3": "expected exit code 0, got another",
    "echo": "expected a number, got ''",
    "echo one": "expected a number, got 'one'",
    "echo -1": "expected a number, got '-1'",
    "echo 1 2": "expected a number, got '1 2'",
    "echo 1234567890123456789": "expected a number, got '1234567890123456789'",
    "sleep 60": "expected its output in time",
    "exec >&-; sleep 60": "expected its end in time",
    "echo 1; sleep 60 &": "expected its output in time",
}


class TestCommands:
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(tmp_path, "command")

    @pytest.fixture
    def replace_command(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> Replace:
        """Put another command in the place of the counter's; one that hangs is given up soon."""

        def replace(body: str) -> None:
            hangs = FAILING.get(body, "").endswith("in time")
            monkeypatch.setattr(counters, "_TIME_MS", 300 if hangs else 10_000)
            (place.outside / "counter.sh").write_text(body)

        return replace

    @pytest.mark.parametrize("body", FAILING)
    def test_a_command_that_fails_or_hangs_at_the_start_is_refused(
        self, place: Place, body: str, replace_command: Replace
    ) -> None:
        place.spend(1)
        replace_command(body)
        with pytest.raises(LedgerBehind, match=FAILING[body]):
            place.open()

    @pytest.mark.parametrize("body", FAILING)
    def test_nothing_is_sent_while_it_fails_and_the_charge_stands(
        self, place: Place, body: str, replace_command: Replace
    ) -> None:
        file = place.open()
        replace_command(body)
        for attempt in (lambda: spend(file, 1), lambda: file.ledger().stored(bytes(32))):
            with pytest.raises(StoreError, match=FAILING[body]):
                attempt()
        replace_command(COMMAND)
        assert spend(file, 1) == b"report 1"
        file.close()
        assert (place.life(), place.counted()) == (5, 1)

    def test_one_that_does_not_rise_lets_nothing_be_sent(self, place: Place) -> None:
        file = place.open()
        (place.outside / "counter.sh").write_text("echo 0")
        with pytest.raises(StoreError, match="nothing was sent: expected 1, got 0"):
            spend(file, 1)
        file.close()

    def test_one_that_another_ledger_raises_lets_nothing_be_sent(self, place: Place) -> None:
        file = place.open()
        place.number.write_text("7\n")
        with pytest.raises(StoreError, match="nothing was sent: expected 1, got 7"):
            spend(file, 1)
        file.close()
        with pytest.raises(LedgerBehind, match="expected row 7, as its counter says, found 1"):
            place.open()

    def test_a_program_that_is_not_there_is_refused(self, place: Place) -> None:
        place.setting = "command:/nowhere/counter"
        with pytest.raises(LedgerBehind, match="cannot be run: No such file"):
            place.open()

    @pytest.mark.parametrize("text", ["command:", "command:  ", 'command:a "b'])
    def test_words_are_needed(self, text: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidParameter, match="expected a command's words"):
            a_counter(text, tmp_path)

    def test_words_may_be_quoted(self, tmp_path: Path) -> None:
        (tmp_path / "a b").write_text("echo 41")
        found = a_counter("command:sh 'a b'", tmp_path)
        assert isinstance(found, CounterCommand)
        assert found.read() == 41


KILLED = """
import os, signal, sys
from pathlib import Path
from askance_client.cli import counters
from askance_client.ledger import Charge, LedgerFile, Limits
from askance_client.ledger.mark import Mark

step, path, setting = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
file = LedgerFile.open(path, counters.a_counter(setting, path.parent))
mark, counter = file._file._marks
counted = type(counter).advance

def advance(self, place, chained):
    if self is mark:
        if step == "mark":
            die()
        return advanced(self, place, chained)
    if step == "counter":
        die()
    counted(self, place, chained)
    if step == "send":
        die()

advanced = Mark.advance
Mark.advance = advance
type(counter).advance = advance
compose = die if step == "commit" else lambda *told: b"report %d" % told[3]
name = (2).to_bytes(32, "big")
charge = Charge(name, b"s" * 32, name, 20_000 * 86_400, 5, b"y", b"request 2", b"study")
print(file.ledger("", b"id").commit(charge, Limits(1000, 1000, 1000), compose), flush=True)
"""


@pytest.mark.parametrize("step", ["commit", "mark", "counter", "send"])
def test_a_device_killed_before_any_step_goes_on_without_a_loss(place: Place, step: str) -> None:
    """Nothing was sent; the ledger is at or ahead of the counter, by its last commit at most."""
    place.spend(1)
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), step, place.ledger, place.setting],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, ""), killed.stderr
    charged = step != "commit"
    assert place.counted() == (2 if step == "send" else 1)
    file = place.open()
    assert place.counted() == (2 if charged else 1)
    assert file.ledger("", b"id").totals(STUDY, 0).life == (10 if charged else 5)
    assert spend(file, 2) == b"report 2"
    file.close()
    assert (place.counted(), place.life()) == (2, 10)


class TestRepairs:
    def test_an_accepted_loss_charges_everything_and_passes_the_counter(self, place: Place) -> None:
        place.spend(1)
        copy = place.copy()
        place.spend(2, 3, 4)
        place.put_back(copy)
        assert accept_loss(place.ledger, [], LIFE, NOW, everyone=True, counter=place.counter) == 1
        assert place.life() == LIFE
        file = place.open()
        assert spend(file, 2) is Overrun.LIFE
        assert spend(file, 1) == b"report 1"
        file.close()
        place.put_back(copy)
        with pytest.raises(LedgerBehind, match="counter"):
            place.open()

    def test_one_member_is_not_enough(self, place: Place) -> None:
        copy = place.copy()
        place.spend(1)
        place.put_back(copy)
        with pytest.raises(StoreError, match="expected all members to be charged"):
            accept_loss(place.ledger, [], LIFE, NOW, everyone=False, counter=place.counter)

    def test_a_lost_counter_is_made_anew(self, in_file: Place) -> None:
        in_file.spend(1)
        (in_file.outside / "counter").unlink()
        accept_loss(
            in_file.ledger, [("", b"id")], LIFE, NOW, everyone=True, counter=in_file.counter
        )
        assert in_file.life() == LIFE

    def test_a_command_that_fails_is_no_loss(self, tmp_path: Path) -> None:
        place = Place(tmp_path, "command")
        place.spend(1)
        (place.outside / "counter.sh").write_text("exit 1")
        with pytest.raises(StoreError, match="expected exit code 0"):
            accept_loss(place.ledger, [], LIFE, NOW, everyone=True, counter=place.counter)
        (place.outside / "counter.sh").write_text(COMMAND)
        assert place.life() == 5

    def test_a_crash_before_the_counter_is_put_on_is_gone_on_from(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place.spend(1)
        copy = place.copy()
        place.spend(2)
        place.put_back(copy)

        class Stopped(Exception):
            pass

        def stop(*_: object) -> None:
            raise Stopped

        with monkeypatch.context() as crashing:
            crashing.setattr(CounterFile, "replace", stop)
            crashing.setattr(CounterCommand, "replace", stop)
            with pytest.raises(Stopped):
                accept_loss(place.ledger, [], LIFE, NOW, everyone=True, counter=place.counter)
        accept_loss(place.ledger, [], LIFE, NOW, everyone=True, counter=place.counter)
        assert place.life() == LIFE

    def test_a_clock_is_not_repaired_in_a_ledger_behind_its_counter(self, place: Place) -> None:
        """The row of the repair would bring the ledger to the counter's number."""
        copy = place.copy()
        place.spend(1)
        place.put_back(copy)
        with pytest.raises(LedgerBehind, match="as its counter says"):
            repair_clock(place.ledger, NOW, place.counter)
        assert Mark.open(mark_path(place.ledger)).high.place == 0
