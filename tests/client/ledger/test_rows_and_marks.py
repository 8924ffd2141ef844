"""Rows, chains, marks, bindings and kept payloads of a ledger file, to the last byte."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from askance_client.cli.counters import replace_mark
from askance_client.cli.repairing import accept_loss, repair_clock
from askance_client.errors import InvalidParameter, StoreError
from askance_client.ledger import (
    LOSS_STEP,
    MAX_ANSWERS,
    NO_HASH,
    SECONDS_PER_DAY,
    Charge,
    LedgerBehind,
    LedgerFile,
    Limits,
    Overrun,
    Posting,
    PostingKind,
    mark_path,
    postings,
    sqlite,
)
from askance_client.ledger.mark import High, Mark
from askance_client.ledger.postings import KIND
from askance_client.sqlite_file import FileKind, SqliteFile

STUDY, OTHER = b"s" * 32, b"t" * 32
LIFE = 10_000
LIMITS = Limits(LIFE, LIFE, LIFE)
NOW = 20_000 * SECONDS_PER_DAY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[LedgerFile]:
    made = LedgerFile.create(path)
    yield made
    made.close()


def charge(number: int, payload: bytes = b"", study: bytes = STUDY, at_s: int = NOW) -> Charge:
    name = number.to_bytes(32, "big")
    return Charge(name, study, name, at_s, 5, b"y", payload, b"study")


def spend(file: LedgerFile, asked: Charge, member: str = "") -> bytes | Overrun:
    ledger = file.ledger(member, b"id of " + member.encode())
    return ledger.commit(asked, LIMITS, lambda *told: b"report %d" % told[3])


def make_unmarked(path: Path) -> None:
    """A file of two members from before marks and hashes."""
    before = FileKind(KIND.name, KIND.application, KIND.steps[:2], KIND.undone, KIND.make)
    old = SqliteFile.create(path, before)
    with old.transaction() as connection:
        for number, member in enumerate("abaab"):
            connection.execute(
                "INSERT INTO charges (member, request_digest, study_digest, question, day,"
                " nano_nats, symbol, report) VALUES (?, ?, ?, ?, 10, 5, x'01', x'02')",
                (member, number.to_bytes(32, "big"), STUDY, number.to_bytes(32, "big")),
            )
    old.close()


def rehashed(file: LedgerFile) -> list[bytes]:
    """The hashes that the rows should have."""
    chains: dict[tuple[str, bytes], bytes] = {}
    hashes = []
    for row in file.postings():
        chain = (row.member, row.enrolment)
        chains[chain] = row.hash(chains.get(chain, NO_HASH))
        hashes.append(chains[chain])
    return hashes


class TestRows:
    ROW = Posting(3, "é", b"id", 2, PostingKind.ANSWER, charge(1, b"payload"), b"report", b"")

    def test_a_rows_hash_is_over_each_field_after_its_length_in_eight_bytes(self) -> None:
        name = (1).to_bytes(32, "big")
        fields = [b"3", "é".encode(), b"id", b"2", b"answer", b"%d" % NOW, b"5"]
        fields += [name, STUDY, name, b"y", b"report"]
        data = b"askance posting v1\0" + NO_HASH
        data += b"".join(len(field).to_bytes(8, "big") + field for field in fields)
        assert self.ROW.hash(NO_HASH) == hashlib.sha256(data).digest()
        heavy = replace(self.ROW, charge=self.ROW.charge._replace(weight=40))
        data += (2).to_bytes(8, "big") + b"40"  # of a row from before there were weights: none
        assert heavy.hash(NO_HASH) == hashlib.sha256(data).digest()

    def test_a_change_of_any_field_changes_the_hash(self) -> None:
        changes: list[dict[str, Any]] = [{"place": 4}, {"member": "e"}, {"enrolment": b"i"}]
        changes += [{"sequence": 1}, {"kind": PostingKind.LOSS}, {"report": b""}]
        charges: list[dict[str, Any]] = [{"at_s": NOW + 1}, {"nano_nats": 4}, {"symbol": b"n"}]
        charges += [{"weight": 1}, {"weight": 11}]
        charges += [{name: b"x" * 32} for name in ("request_digest", "study_digest", "question")]
        changes += [{"charge": self.ROW.charge._replace(**change)} for change in charges]
        hashes = {replace(self.ROW, **change).hash(NO_HASH) for change in changes}
        assert len(hashes | {self.ROW.hash(NO_HASH), self.ROW.hash(b"x" * 32)}) == 16

    def test_each_member_and_enrolment_has_a_chain_and_the_file_has_places(
        self, file: LedgerFile
    ) -> None:
        for number, member in enumerate("abab"):
            spend(file, charge(number), member)
        rows = list(file.postings())
        assert [(row.place, row.sequence) for row in rows] == [(1, 1), (2, 1), (3, 2), (4, 2)]
        assert [row.enrolment for row in rows] == [b"id of a", b"id of b"] * 2
        for first, second in ((rows[0], rows[2]), (rows[1], rows[3])):
            assert first.chained == first.hash(NO_HASH)
            assert second.chained == second.hash(first.chained)

    @pytest.mark.parametrize("page", [1, 2, 3, 4, 5])
    def test_rows_are_read_once_each_whatever_the_page(
        self, page: int, file: LedgerFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(4):
            spend(file, charge(number))
        monkeypatch.setattr(sqlite, "PAGE", page)
        assert [row.place for row in file.postings()] == [1, 2, 3, 4]

    @pytest.mark.parametrize("page", [1, 2, 256])
    def test_an_older_file_gets_all_its_hashes(
        self, page: int, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_unmarked(path)
        monkeypatch.setattr(postings, "PAGE", page)
        file = LedgerFile.open(path)
        assert [row.chained for row in file.postings()] == rehashed(file)
        assert file.members() == ("a", "b")
        file.close()

    def test_a_day_is_from_its_first_second_to_its_last(self, file: LedgerFile) -> None:
        for number, at_s in enumerate((NOW - 1, NOW, NOW + SECONDS_PER_DAY - 1)):
            spend(file, charge(number, at_s=at_s))
        day = NOW // SECONDS_PER_DAY
        ledger = file.ledger()
        found = [ledger.totals(STUDY, day + step).day for step in (-2, -1, 0, 1)]
        assert found == [0, 5, 10, 0]
        assert [entry.at_s // SECONDS_PER_DAY for entry in ledger.history()] == [day - 1, day, day]


class TestPayloads:
    """Payloads are kept once each, within bounds per study and in all."""

    @pytest.mark.parametrize(
        ("name", "study"), [("MAX_STUDY_PAYLOADS", STUDY), ("MAX_PAYLOADS", OTHER)]
    )
    def test_a_bound_may_be_reached_and_not_passed(
        self, name: str, study: bytes, file: LedgerFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite, name, 15)
        assert spend(file, charge(1, b"x" * 10)) == b"report 1"
        assert spend(file, charge(2, b"x" * 6, study)) is Overrun.SPACE
        assert spend(file, charge(2, b"x" * 5, study)) == b"report 2"
        assert spend(file, charge(3, b"x", study)) is Overrun.SPACE
        assert spend(file, charge(3, b"", study)) == b"report 3"  # nothing to keep
        assert spend(file, charge(2, b"x" * 5, study), "b") == b"report 1"  # kept already
        kept = [row.charge.payload for row in file.postings()]
        assert kept == [b"x" * 10, b"x" * 5, b"", b"x" * 5]

    def test_a_studys_bound_is_its_own(
        self, file: LedgerFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite, "MAX_STUDY_PAYLOADS", 10)
        assert spend(file, charge(1, b"x" * 10)) == b"report 1"
        assert spend(file, charge(2, b"x" * 10, OTHER)) == b"report 2"

    def test_the_most_answers_are_65_536_and_a_loss_skips_more_than_that(self) -> None:
        assert (MAX_ANSWERS, LOSS_STEP) == (2**16, 2**32)

    def test_the_bounds_are_64_mib_per_study_and_1_gib(self) -> None:
        assert (sqlite.MAX_STUDY_PAYLOADS, sqlite.MAX_PAYLOADS) == (2**26, 2**30)

    def test_a_study_is_kept_once_and_told_with_each_answer(self, file: LedgerFile) -> None:
        for number in (1, 2):
            spend(file, charge(number, b"payload"))
        assert [row.charge.study for row in file.postings()] == [b"study"] * 2

    def test_what_is_empty_is_not_kept(self, file: LedgerFile) -> None:
        spend(file, charge(1)._replace(study=b""))
        (row,) = file.postings()
        assert (row.charge.payload, row.charge.study) == (b"", b"")


TEXTS = {"mode": "key", "column": "é"}


class TestBinding:
    def test_a_file_is_bound_once_and_says_to_what(self, file: LedgerFile, path: Path) -> None:
        assert file.binding() == {}
        assert file.bind(TEXTS) == TEXTS
        spend(file, charge(1))
        assert file.bind({"mode": "row"}) == TEXTS
        file.close()
        again = LedgerFile.open(path)
        assert again.binding() == TEXTS
        again.close()

    def test_charges_without_a_binding_are_refused(self, file: LedgerFile) -> None:
        spend(file, charge(1))
        with pytest.raises(StoreError, match="got charges without it"):
            file.bind(TEXTS)
        assert file.binding() == {}

    def test_an_enrolment_has_at_most_64_bytes(self, file: LedgerFile) -> None:
        assert file.ledger("m" * 256, bytes(64)).sequence == 0
        with pytest.raises(InvalidParameter, match="at most 64 bytes, got 65"):
            file.ledger("m", bytes(65))


class TestMarks:
    HIGH = High(b"i" * 16, 258, b"h" * 32)

    def test_a_new_mark_is_two_equal_records_in_sectors_of_their_own(self, path: Path) -> None:
        Mark.create(path, self.HIGH).close()
        record = b"askmark1" + b"i" * 16 + (258).to_bytes(8, "big") + b"h" * 32
        record += hashlib.sha256(record).digest()
        assert path.read_bytes() == 2 * (record + bytes(4096 - len(record)))
        assert path.stat().st_mode & 0o777 == 0o600

    def test_slots_are_written_in_turn_and_the_later_place_counts(self, path: Path) -> None:
        mark = Mark.create(path, self.HIGH)
        for place in (259, 260, 261):
            before = path.read_bytes()
            mark.advance(place, bytes(32))
            after = path.read_bytes()
            halves = [before[part] == after[part] for part in (slice(4096), slice(4096, None))]
            assert sorted(halves) == [False, True]  # the last one stays as it was
            again = Mark.open(path)
            assert again.high == mark.high == High(b"i" * 16, place, bytes(32))
            again.close()
        mark.close()
        mark.close()

    @pytest.mark.parametrize("advanced", [1, 2])
    def test_a_record_that_was_cut_short_leaves_the_one_before(
        self, advanced: int, path: Path
    ) -> None:
        mark = Mark.create(path, self.HIGH)
        for step in range(advanced):
            mark.advance(259 + step, bytes(32))
        mark.close()
        data = bytearray(path.read_bytes())
        slot = max((0, 1), key=lambda number: bytes(data[number * 4096 + 24 :][:8]))
        data[slot * 4096 + 95] ^= 1  # the last byte of its check
        path.write_bytes(data)
        again = Mark.open(path)
        assert again.high.place == 257 + advanced
        again.close()

    def test_a_closed_mark_holds_no_descriptor(self, path: Path) -> None:
        mark = Mark.create(path, self.HIGH)
        descriptor = mark._descriptor
        os.fstat(descriptor)
        mark.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
        mark.close()

    def test_a_record_of_another_kind_is_none(self, path: Path) -> None:
        fields = b"askmark2" + bytes(16 + 8 + 32)
        record = fields + hashlib.sha256(fields).digest()
        path.write_bytes(2 * record.ljust(4096, b"\0"))
        with pytest.raises(StoreError, match="found a damaged one"):
            Mark.open(path)

    @pytest.mark.parametrize("written", [0, 95, 97])
    def test_a_mark_that_is_written_in_part_does_not_count(
        self, written: int, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mark = Mark.create(path, self.HIGH)
        with monkeypatch.context() as broken:
            broken.setattr(os, "pwrite", lambda *_: written)
            with pytest.raises(StoreError, match="charged, and nothing was sent"):
                mark.advance(259, bytes(32))
        assert mark.high == self.HIGH
        mark.close()

    def test_a_replaced_mark_is_new_whatever_was_left_beside_it(self, path: Path) -> None:
        beside = path.with_name(f".{path.name}-new")
        beside.write_bytes(b"left by a crash")
        Mark.create(path, self.HIGH).close()
        replace_mark(path, replace(self.HIGH, place=1))
        mark = Mark.open(path)
        assert mark.high.place == 1
        assert not beside.exists()
        assert path.stat().st_mode & 0o777 == 0o600
        mark.close()

    def test_a_mark_is_never_overwritten_by_a_new_one(self, path: Path) -> None:
        Mark.create(path, self.HIGH).close()
        with pytest.raises(StoreError, match="cannot be made"):
            Mark.create(path, self.HIGH)

    @pytest.mark.parametrize("step", [Mark.open, lambda path: replace_mark(path, TestMarks.HIGH)])
    def test_what_is_no_file_is_refused(self, step: Any, path: Path) -> None:
        path.mkdir()
        with pytest.raises(StoreError, match="cannot be"):
            step(path)


class TestRepairs:
    def test_an_accepted_loss_charges_what_is_left_and_skips_its_step(self, path: Path) -> None:
        file = LedgerFile.create(path)
        for number in range(3):
            spend(file, charge(number), "a")
        file.close()
        assert accept_loss(path, [("c", b"id of c")], 10, NOW + 1, everyone=True) == 2
        file = LedgerFile.open(path)
        *_, a, c = file.postings()
        assert (a.member, a.enrolment, a.sequence) == ("a", b"id of a", 3 + LOSS_STEP)
        assert (a.charge.nano_nats, a.charge.at_s, a.kind) == (
            0,
            NOW + 1,
            PostingKind.LOSS,
        )  # 15 > 10
        assert (c.member, c.enrolment, c.sequence) == ("c", b"id of c", LOSS_STEP)
        assert c.charge.nano_nats == 10
        assert file.accepted == 0  # the file was sound
        assert file.ledger("a", b"id of a").sequence == 3 + LOSS_STEP
        assert len(list(file.answers())) == 3
        file.close()

    def test_a_file_that_was_behind_remembers_gap_and_place(self, path: Path) -> None:
        file = LedgerFile.create(path)
        for number in range(4):
            spend(file, charge(number), "a")
        file.close()
        connection = SqliteFile.open(path, KIND)
        with connection.transaction() as step:
            step.execute("DELETE FROM postings WHERE place = 2")
        connection.close()
        assert accept_loss(path, [("b", b"id of b")], LIFE, NOW, everyone=True) == 2
        for _ in range(2):
            file = LedgerFile.open(path)  # the gap is known: it is not refused again
            assert file.accepted == 6
            assert spend(file, charge(9), "d") == b"report 1"
            file.close()
        mark = Mark.open(mark_path(path))
        assert mark.high.place == 7
        mark.close()

    def test_a_changed_row_is_still_found_after_a_loss_was_accepted(self, path: Path) -> None:
        file = LedgerFile.create(path)
        for number in range(3):
            spend(file, charge(number), "a")
        file.close()
        mark_path(path).unlink()
        database = SqliteFile.open(path, KIND)
        with database.transaction() as step:
            step.execute("UPDATE postings SET nano_nats = 1 WHERE place = 2")
        database.close()
        assert accept_loss(path, [], LIFE, NOW, everyone=True) == 1
        file = LedgerFile.open(path)
        rows = list(file.postings())
        before = [NO_HASH, *(row.chained for row in rows)]
        sound = [row.chained == row.hash(hash_) for hash_, row in zip(before, rows, strict=False)]
        assert sound == [True, False, True, True]
        file.close()

    def test_a_copy_from_before_the_marks_gets_its_hashes_with_the_loss(self, path: Path) -> None:
        make_unmarked(path)
        Mark.create(mark_path(path), High(bytes(16), 9, bytes(32))).close()
        with pytest.raises(LedgerBehind, match="expected row 9, as its mark says, found"):
            LedgerFile.open(path)
        assert accept_loss(path, [], LIFE, NOW, everyone=True) == 2
        file = LedgerFile.open(path)
        assert [row.chained for row in file.postings()] == rehashed(file)
        file.close()

    def test_a_whole_file_that_is_gone_is_made_only_for_everyone(self, path: Path) -> None:
        file = LedgerFile.create(path)
        spend(file, charge(1))
        file.close()
        path.unlink()
        with pytest.raises(StoreError):
            accept_loss(path, [("", b"id of ")], LIFE, NOW, everyone=False)
        assert not path.exists()

    def test_a_clock_is_repaired_for_those_that_are_later_than_now(self, path: Path) -> None:
        file = LedgerFile.create(path)
        for number, (member, at_s) in enumerate((("a", NOW), ("b", NOW + 1), ("c", NOW + 2))):
            spend(file, charge(number, at_s=at_s), member)
        file.close()
        assert repair_clock(path, NOW) == 2
        file = LedgerFile.open(path)
        repaired = list(file.postings())[3:]
        assert [(row.member, row.enrolment, row.sequence) for row in repaired] == [
            ("b", b"id of b", 2),
            ("c", b"id of c", 2),
        ]
        assert {(row.kind, row.charge.at_s, row.charge.nano_nats) for row in repaired} == {
            (PostingKind.CLOCK, NOW, 0)
        }
        file.close()
