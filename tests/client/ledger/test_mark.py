"""A ledger that is older than it was is refused, and what its owner can do about it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from askance_client.cli import repairing
from askance_client.cli.repairing import accept_loss, repair_clock
from askance_client.errors import StoreError
from askance_client.ledger import (
    LOSS_STEP,
    SECONDS_PER_DAY,
    Charge,
    LedgerBehind,
    LedgerFile,
    Limits,
    Overrun,
    PostingKind,
    mark_path,
    marked,
)
from askance_client.ledger import mark as mark_module
from askance_client.ledger.mark import High, Mark
from askance_client.ledger.postings import KIND
from askance_client.sqlite_file import FileKind, SqliteFile

STUDY = b"s" * 32
LIFE = 10_000
LIMITS = Limits(LIFE, LIFE, LIFE)
NOW = 20_000 * SECONDS_PER_DAY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def spend(file: LedgerFile, number: int, member: str = "", at_s: int = NOW) -> bytes | Overrun:
    name = number.to_bytes(32, "big")
    charge = Charge(name, STUDY, name, at_s, 5, b"y", b"request %d" % number, b"study")
    ledger = file.ledger(member, b"id of " + member.encode())
    return ledger.commit(charge, LIMITS, lambda *told: b"report %d" % told[3])


def filled(path: Path, charges: int = 20, member: str = "") -> None:
    file = LedgerFile.create(path)
    for number in range(charges):
        spend(file, number, member)
    file.close()


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def copied(path: Path, to: Path) -> None:
    """Copy a ledger with all that is beside it, as a backup of the folder does."""
    to.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, to)


def life(path: Path, member: str = "") -> int:
    file = LedgerFile.open(path)
    spent = file.ledger(member).totals(STUDY, 0).life
    file.close()
    return spent


def refused(path: Path, message: str) -> None:
    before = path.read_bytes()
    with pytest.raises(LedgerBehind, match=message) as caught:
        LedgerFile.open(path)
    assert str(path) in str(caught.value)
    assert "docs/deployment.md (device accept-loss)" in str(caught.value)
    assert path.read_bytes() == before


def test_a_ledger_without_its_log_is_refused(path: Path) -> None:
    """Deleting -wal after 20 charges opened at 0 spent."""
    file = LedgerFile.create(path)
    for number in range(20):
        spend(file, number)
    lost = path.parent / "lost"
    copied(path, lost)  # as a process that was killed leaves it
    file.close()
    (lost / f"{path.name}-wal").unlink()
    refused(lost / path.name, "expected row 20, as its mark says, found 0 as the last one")


def test_a_restored_backup_is_refused(path: Path, tmp_path: Path) -> None:
    filled(path, 5)
    backup = path.read_bytes()
    file = LedgerFile.open(path)
    for number in range(5, 8):
        spend(file, number)
    file.close()
    path.write_bytes(backup)
    refused(path, "expected row 8, as its mark says, found 5 as the last one")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("place > 15", "expected row 20, as its mark says, found 15"),
        ("place BETWEEN 3 AND 9", "expected 20 rows, found 13"),
        ("place = 1", "expected 20 rows, found 19"),
        ("place < 20", "expected 20 rows, found 1"),
    ],
)
def test_a_ledger_with_deleted_rows_is_refused(path: Path, where: str, message: str) -> None:
    """Deleting 1,040 of 1,140 rows passed."""
    filled(path)
    edit(path, f"DELETE FROM postings WHERE {where}")
    refused(path, message)


def test_another_history_than_the_mark_s_is_refused(path: Path) -> None:
    """A backup that went on by itself: as many rows, but others."""
    filled(path, 5)
    backup = path.read_bytes()
    file = LedgerFile.open(path)
    spend(file, 5)
    file.close()
    edit(path, "UPDATE postings SET hash = zeroblob(32) WHERE place = 6")
    refused(path, "expected row 6 to be the one that its mark has, found another")
    path.write_bytes(backup)
    refused(path, "expected row 6, as its mark says, found 5")


def test_a_ledger_without_its_mark_is_refused(path: Path) -> None:
    filled(path)
    mark_path(path).unlink()
    refused(path, "expected the ledger's mark, found no file")


def test_another_ledger_s_mark_is_refused(path: Path, tmp_path: Path) -> None:
    filled(path)
    other = tmp_path / "other"
    filled(other, 3)
    shutil.copy(mark_path(other), mark_path(path))
    refused(path, "expected its own mark, found another ledger's")


@pytest.mark.parametrize("slots", [(0,), (1,)])
def test_a_mark_whose_write_was_cut_short_leaves_the_one_before(
    path: Path, slots: tuple[int, ...]
) -> None:
    filled(path)
    data = bytearray(mark_path(path).read_bytes())
    for slot in slots:
        data[slot * 4096 + 40] ^= 1
    mark_path(path).write_bytes(data)
    assert life(path) == 100


@pytest.mark.parametrize("data", [b"", b"x", bytes(8192)])
def test_a_damaged_mark_is_refused(path: Path, data: bytes) -> None:
    filled(path)
    mark_path(path).write_bytes(data)
    refused(path, "expected a sound mark, found a damaged one")


def test_a_lost_ledger_is_not_made_anew_beside_its_mark(path: Path) -> None:
    filled(path)
    path.unlink()
    with pytest.raises(StoreError, match="expected no mark without a ledger"):
        LedgerFile.create(path)
    assert not path.exists()


class Stopped(Exception):
    """The process ends here."""


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], None]:
    """Let the process end at a step; all that is on the disk by then is copied."""

    def put(step: str, to: Path) -> None:
        owner, name = {"write": (os, "pwrite"), "sync": (mark_module, "flush")}[step]
        whole = getattr(owner, name)

        def ends(*arguments: Any) -> Any:
            (ledger,) = to.parent.glob("ledger.sqlite")
            copied(ledger, to)
            monkeypatch.setattr(owner, name, whole)
            raise Stopped

        monkeypatch.setattr(owner, name, ends)

    return put


@pytest.mark.parametrize("step", ["write", "sync"])
def test_a_crash_between_commit_and_mark_keeps_the_charge(
    path: Path, step: str, stop_at: Callable[[str, Path], None]
) -> None:
    """The charge is durable, the mark is behind: the file opens, and the mark follows first."""
    file = LedgerFile.create(path)
    spend(file, 1)
    stop_at(step, path.parent / "crashed")
    with pytest.raises(Stopped):
        spend(file, 2)
    file.close()
    crashed = path.parent / "crashed" / path.name
    again = LedgerFile.open(crashed)
    mark = Mark.open(mark_path(crashed))
    assert mark.high.place == 2
    mark.close()
    assert again.ledger().totals(STUDY, 0).life == 10
    assert spend(again, 2) == b"report 2"
    again.close()


def test_a_crash_before_the_commit_leaves_the_mark_where_it_was(
    path: Path, break_disk: Callable[..., set[str]]
) -> None:
    file = LedgerFile.create(path)
    spend(file, 1)
    break_disk(file._file.file, {"COMMIT"})
    with pytest.raises(StoreError, match="nothing was spent"):
        spend(file, 2)
    copied(path, path.parent / "crashed")
    assert life(path.parent / "crashed" / path.name) == 5
    file.close()


def test_nothing_is_sent_while_the_mark_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LedgerFile.create(path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", full)
        for attempt in (lambda: spend(file, 1), lambda: file.ledger().stored(bytes(32))):
            with pytest.raises(StoreError, match="charged, and nothing was sent: No space left"):
                attempt()
    assert spend(file, 1) == b"report 1"  # the stored one: charged once
    assert file.ledger().totals(STUDY, 0).life == 5
    file.close()
    assert life(path) == 5


def test_the_mark_is_written_once_per_group_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LedgerFile.create(path)
    places: list[int] = []
    advance = Mark.advance

    def counted(self: Mark, place: int, chained: bytes) -> None:
        places.append(place)
        advance(self, place, chained)

    monkeypatch.setattr(Mark, "advance", counted)
    with file._file.transaction() as connection:
        for member in ("a", "b", "c"):
            name = member.encode() * 32
            charge = Charge(name, STUDY, name, NOW, 5, b"y")
            file.ledger(member)._charge(connection, charge, LIMITS, lambda *_: b"report")
    assert places == [3]
    spend(file, 1, "a")
    spend(file, 1, "a")  # stored: nothing new
    assert places == [3, 4]
    file.close()


@pytest.mark.parametrize("taken", [1, 2])
def test_a_ledger_from_before_the_marks_gets_one(path: Path, taken: int) -> None:
    before = FileKind(KIND.name, KIND.application, KIND.steps[:taken], KIND.undone, KIND.make)
    old = SqliteFile.create(path, before)
    with old.transaction() as connection:
        for number in range(3):
            connection.execute(
                "INSERT INTO charges (request_digest, study_digest, question, day, nano_nats,"
                " symbol, report) VALUES (?, ?, ?, 10, 5, x'01', x'02')",
                (number.to_bytes(32, "big"), STUDY, number.to_bytes(32, "big")),
            )
    old.close()
    assert life(path) == 15
    older = path.read_bytes()
    mark_path(path).unlink()
    refused(path, "expected the ledger's mark, found no file")
    assert older == path.read_bytes()


def test_a_crash_while_the_first_mark_is_made_is_gone_on_from(path: Path) -> None:
    SqliteFile.create(path, KIND).close()
    Mark.create(mark_path(path), High(bytes(16), 0, bytes(32))).close()
    assert life(path) == 0


@pytest.mark.parametrize("step", ["before the mark", "before the id"])
def test_a_crash_while_a_new_file_gets_its_mark_is_gone_on_from(
    path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is durable before the id: a file that has an id and no mark has lost one."""

    def ends(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as crashing:
        if step == "before the mark":
            crashing.setattr(Mark, "create", ends)
        else:
            crashing.setattr(marked, "write_fact", ends)
        with pytest.raises(Stopped):
            LedgerFile.create(path)
    assert mark_path(path).exists() == (step == "before the id")
    assert life(path) == 0
    spending = LedgerFile.open(path)
    assert spend(spending, 1) == b"report 1"
    spending.close()


class TestAcceptLoss:
    @pytest.fixture
    def behind(self, path: Path) -> Path:
        """A ledger of a and b that has lost all of b and some of a."""
        file = LedgerFile.create(path)
        for number in range(5):
            spend(file, number, "a")
            spend(file, number, "b")
        file.close()
        edit(path, "DELETE FROM postings WHERE place > 3 OR member = 'b'")
        return path

    def test_the_life_budget_is_charged_whole(self, behind: Path) -> None:
        members = [("a", b"id of a"), ("b", b"id of b")]
        assert accept_loss(behind, members, LIFE, NOW, everyone=True) == 2
        file = LedgerFile.open(behind)
        for member in ("a", "b"):
            ledger = file.ledger(member, b"id of " + member.encode())
            assert ledger.totals(STUDY, 0).life == LIFE
            assert ledger.sequence >= LOSS_STEP
            assert spend(file, 99, member) is Overrun.LIFE
        assert spend(file, 0, "a") == b"report 1"  # a stored report is sent again
        file.close()

    def test_members_that_only_the_file_knows_are_charged_as_well(self, behind: Path) -> None:
        assert accept_loss(behind, [("b", b"id of b")], LIFE, NOW, everyone=True) == 2
        assert life(behind, "a") == life(behind, "b") == LIFE

    def test_it_is_refused_for_one_member_when_all_are_concerned(self, behind: Path) -> None:
        with pytest.raises(StoreError, match="expected all members to be charged"):
            accept_loss(behind, [("a", b"id of a")], LIFE, NOW, everyone=False)
        refused(behind, "as its mark says")

    def test_a_missing_mark_is_made_anew(self, path: Path) -> None:
        filled(path)
        mark_path(path).unlink()
        assert accept_loss(path, [], LIFE, NOW, everyone=True) == 1
        assert life(path) == LIFE
        edit(path, "DELETE FROM postings WHERE place = 21")
        refused(path, "expected row 21")

    def test_one_member_of_a_sound_file_is_charged_alone(self, path: Path) -> None:
        file = LedgerFile.create(path)
        spend(file, 1, "a")
        spend(file, 1, "b")
        file.close()
        assert accept_loss(path, [("a", b"id of a")], LIFE, NOW, everyone=False) == 1
        assert (life(path, "a"), life(path, "b")) == (LIFE, 5)

    def test_a_crash_before_the_new_mark_is_refused_until_it_is_done_again(
        self, behind: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def ends(*_: object) -> None:
            raise Stopped

        with monkeypatch.context() as crashing:
            crashing.setattr(repairing, "replace_mark", ends)
            with pytest.raises(Stopped):
                accept_loss(behind, [("a", b"id of a")], LIFE, NOW, everyone=True)
        refused(behind, "expected its own mark, found another ledger's")
        accept_loss(behind, [("a", b"id of a")], LIFE, NOW, everyone=True)
        assert life(behind, "a") == LIFE

    def test_a_ledger_that_was_lost_whole_is_made_anew_and_charged(self, path: Path) -> None:
        filled(path)
        path.unlink()
        assert accept_loss(path, [("", b"id of ")], LIFE, NOW, everyone=True) == 1
        assert life(path) == LIFE

    def test_a_log_that_was_lost_is_accepted(self, path: Path) -> None:
        file = LedgerFile.create(path)
        spend(file, 1)
        lost = path.parent / "lost"
        copied(path, lost)
        file.close()
        (lost / f"{path.name}-wal").unlink()
        accept_loss(lost / path.name, [("", b"id of ")], LIFE, NOW, everyone=True)
        assert life(lost / path.name) == LIFE


class TestRepairClock:
    FAR = NOW + 5_000 * SECONDS_PER_DAY

    def test_a_clock_that_was_once_far_ahead_is_mended(self, path: Path) -> None:
        file = LedgerFile.create(path)
        spend(file, 1, "a", NOW - 10)
        spend(file, 2, "a", self.FAR)
        spend(file, 1, "b", NOW - 10)
        file.close()
        assert repair_clock(path, NOW) == 1
        file = LedgerFile.open(path)
        assert file.ledger("a").totals(STUDY, 0).last_s == NOW
        assert file.ledger("b").totals(STUDY, 0).last_s == NOW - 10
        assert file.ledger("a").totals(STUDY, self.FAR // SECONDS_PER_DAY).day == 5
        spend(file, 3, "a", NOW + 7)
        assert file.ledger("a").totals(STUDY, 0).last_s == NOW + 7
        kinds = [row.kind for row in file.postings()]
        assert kinds == [
            PostingKind.ANSWER,
            PostingKind.ANSWER,
            PostingKind.ANSWER,
            PostingKind.CLOCK,
            PostingKind.ANSWER,
        ]
        file.close()
        assert repair_clock(path, NOW + 7) == 0
        assert repair_clock(path, NOW) == 1
