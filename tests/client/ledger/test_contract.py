"""Contract of every ledger: one suite, on all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from askance_client.errors import InvalidParameter
from askance_client.ledger import (
    SECONDS_PER_DAY,
    Charge,
    Entry,
    Ledger,
    LedgerFile,
    Limits,
    Overrun,
    Span,
    Standing,
    Totals,
    contract,
)
from askance_simulation.fleets.memory_ledger import MemoryLedger

STUDY, OTHER = b"s" * 32, b"t" * 32
AMPLE = Limits(study=1_000, day=1_000, life=1_000)
DAY = SECONDS_PER_DAY


def one_of_many(path: Path) -> Ledger:
    """A member's ledger in a file where another has answered much the same."""
    file = LedgerFile.create(path)
    for number in range(1, 10):
        commit(file.ledger("another"), charge(number, 100, symbol=b"a", day=90))
    return file.ledger("one")


MAKERS: dict[str, Callable[[Path], Ledger]] = {
    "memory": lambda _: MemoryLedger(),
    "sqlite": lambda path: LedgerFile.create(path).ledger(),
    "one of many": one_of_many,
}


@pytest.fixture(params=sorted(MAKERS))
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made = MAKERS[request.param](tmp_path / "ledger")
    yield made
    made.close()


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


def charge(
    request: int,
    nano_nats: int,
    *,
    question: int | None = None,
    study: bytes = STUDY,
    day: int = 10,
    symbol: bytes = b"y",
    weight: int = 0,
) -> Charge:
    asked = request if question is None else question
    at_s = day * DAY
    return Charge(name(request), study, name(asked), at_s, nano_nats, symbol, weight=weight)


def compose(symbol: bytes, charged: int, spent: int, sequence: int) -> bytes:
    return symbol + b" charged %d spent %d" % (charged, spent)


def commit(ledger: Ledger, charge: Charge, limits: Limits = AMPLE) -> bytes | Overrun:
    return ledger.commit(charge, limits, compose)


def test_an_empty_ledger(ledger: Ledger) -> None:
    assert ledger.totals(STUDY, 10) == Totals(study=0, day=0, life=0, last_s=0)
    assert ledger.stored(name(1)) is None
    assert list(ledger.history()) == []


def test_a_charge_and_its_report_are_one(ledger: Ledger) -> None:
    assert commit(ledger, charge(1, 70)) == b"y charged 70 spent 70"
    assert ledger.stored(name(1)) == b"y charged 70 spent 70"
    assert ledger.totals(STUDY, 10) == Totals(
        study=70, day=70, life=70, last_s=10 * DAY, answers=1, study_answers=1
    )
    assert list(ledger.history()) == [Entry(name(1), STUDY, 10 * DAY, 70, 1)]


def test_totals_are_by_study_by_day_and_for_life(ledger: Ledger) -> None:
    commit(ledger, charge(1, 1, day=10))
    commit(ledger, charge(2, 20, day=11))
    commit(ledger, charge(3, 300, day=11, study=OTHER))
    last_s = 11 * DAY
    assert ledger.totals(STUDY, 10) == Totals(21, 1, 321, last_s, answers=3, study_answers=2)
    assert ledger.totals(STUDY, 11) == Totals(21, 320, 321, last_s, answers=3, study_answers=2)
    assert ledger.totals(OTHER, 12) == Totals(300, 0, 321, last_s, answers=3, study_answers=1)


def test_work_is_of_a_study_on_a_day(ledger: Ledger) -> None:
    commit(ledger, charge(1, 1, day=10, weight=5))
    commit(ledger, charge(2, 1, day=11, weight=60))
    commit(ledger, charge(3, 1, day=11, weight=700, study=OTHER))
    commit(ledger, charge(4, 1, day=11, weight=8_000))
    found = {
        (study, day): ledger.totals(study, day).work
        for study in (STUDY, OTHER)
        for day in (10, 11, 12)
    }
    assert found == {
        (STUDY, 10): 5,
        (STUDY, 11): 8_060,
        (STUDY, 12): 0,
        (OTHER, 10): 0,
        (OTHER, 11): 700,
        (OTHER, 12): 0,
    }


def test_the_answers_to_a_study_are_limited_in_number(ledger: Ledger) -> None:
    two = AMPLE._replace(answers=2)
    for request in (1, 2):
        assert isinstance(commit(ledger, charge(request, 1, day=9 + request), two), bytes)
    assert commit(ledger, charge(3, 1, day=20), two) is Overrun.STUDY_ANSWERS
    assert commit(ledger, charge(4, 1, question=1, day=20), two) == b"y charged 0 spent 0"
    assert commit(ledger, charge(5, 1, study=OTHER, day=20), two) == b"y charged 1 spent 1"
    assert [entry.study_digest for entry in ledger.history()] == [STUDY, STUDY, OTHER]


def test_the_work_of_a_study_is_limited_per_day(ledger: Ledger) -> None:
    most = AMPLE._replace(work=100)
    assert isinstance(commit(ledger, charge(1, 1, weight=60), most), bytes)
    assert commit(ledger, charge(2, 1, weight=41), most) is Overrun.WORK
    assert isinstance(commit(ledger, charge(3, 1, weight=40), most), bytes)
    assert commit(ledger, charge(4, 1, weight=1), most) is Overrun.WORK
    assert isinstance(commit(ledger, charge(5, 1, weight=100, study=OTHER), most), bytes)
    assert isinstance(commit(ledger, charge(6, 1, weight=100, day=11), most), bytes)
    assert commit(ledger, charge(7, 1, weight=101, day=12), most) is Overrun.WORK
    assert len(list(ledger.history())) == 4


def test_a_day_is_its_86_400_seconds_and_a_span_begins_at_its_own(ledger: Ledger) -> None:
    """Charges at the last second of a day and at the first two of the next, in one span."""
    start_s, ample = 11 * DAY, 10**9
    limits = Limits(ample, ample, ample, Span(start_s, ample), Span(start_s, ample))
    for number, at_s in enumerate((start_s - 1, start_s, start_s + 1), start=1):
        commit(ledger, charge(number, 10**number)._replace(at_s=at_s), limits)
    commit(ledger, charge(4, 10_000, study=OTHER)._replace(at_s=start_s), limits)
    assert ledger.totals(STUDY, 10).day == 10
    assert ledger.totals(STUDY, 11).day == 11_100
    totals = ledger.standing(name(5), name(5), STUDY, 11, limits).totals
    assert (totals.window, totals.epoch) == (11_100, 1_100)


def test_the_last_second_is_the_latest_whatever_the_order(ledger: Ledger) -> None:
    commit(ledger, charge(1, 1, day=12))
    commit(ledger, charge(2, 1, day=11))
    assert ledger.totals(STUDY, 0).last_s == 12 * DAY


def test_a_request_is_answered_once(ledger: Ledger) -> None:
    first = commit(ledger, charge(1, 70, symbol=b"y"))
    again = charge(1, 70, symbol=b"n", day=11, question=9)
    assert commit(ledger, again) == first
    assert commit(ledger, again, Limits(0, 0, 0)) == first
    assert ledger.totals(STUDY, 10).life == 70
    assert len(list(ledger.history())) == 1


def test_a_question_is_frozen_on_first_use(ledger: Ledger) -> None:
    commit(ledger, charge(1, 70, question=5, symbol=b"y"))
    assert commit(ledger, charge(2, 70, question=5, symbol=b"n")) == b"y charged 0 spent 0"
    assert ledger.totals(STUDY, 10).life == 70
    assert [entry.nano_nats for entry in ledger.history()] == [70]


def test_a_frozen_answer_serves_other_studies_too(ledger: Ledger) -> None:
    commit(ledger, charge(1, 70, question=5))
    other = charge(2, 70, question=5, study=OTHER)
    assert commit(ledger, other) == b"y charged 0 spent 0"
    assert ledger.totals(OTHER, 10).study == 0


def test_a_frozen_answer_needs_no_budget(ledger: Ledger) -> None:
    """A frozen answer costs nothing and reveals nothing new, so no limit stands in its way."""
    commit(ledger, charge(1, 70, question=5))
    lowered = Limits(study=10, day=10, life=10)
    assert commit(ledger, charge(2, 70, question=5), lowered) == b"y charged 0 spent 0"
    assert commit(ledger, charge(3, 1), lowered) is Overrun.LIFE


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        (Limits(study=99, day=1_000, life=1_000), Overrun.STUDY),
        (Limits(study=1_000, day=99, life=1_000), Overrun.DAY),
        (Limits(study=1_000, day=1_000, life=99), Overrun.LIFE),
        (Limits(study=99, day=99, life=99), Overrun.LIFE),
        (Limits(study=99, day=99, life=1_000), Overrun.DAY),
    ],
)
def test_past_a_limit_nothing_is_spent_and_nothing_kept(
    ledger: Ledger, limits: Limits, passed: Overrun
) -> None:
    commit(ledger, charge(1, 60), limits)
    before = ledger.totals(STUDY, 10)
    assert commit(ledger, charge(2, 40), limits) is passed
    assert ledger.totals(STUDY, 10) == before
    assert ledger.stored(name(2)) is None
    assert commit(ledger, charge(2, 40, symbol=b"n")) == b"n charged 40 spent 100"  # not frozen


def test_a_limit_may_be_reached_exactly(ledger: Ledger) -> None:
    limits = Limits(study=100, day=100, life=100)
    commit(ledger, charge(1, 60), limits)
    assert commit(ledger, charge(2, 40), limits) == b"y charged 40 spent 100"
    assert commit(ledger, charge(3, 1), limits) is Overrun.LIFE


def test_limits_that_are_not_shared_leave_room(ledger: Ledger) -> None:
    limits = Limits(study=100, day=150, life=200)
    assert commit(ledger, charge(1, 100), limits) == b"y charged 100 spent 100"
    assert commit(ledger, charge(2, 1), limits) is Overrun.STUDY
    assert commit(ledger, charge(2, 51, study=OTHER), limits) is Overrun.DAY
    assert commit(ledger, charge(2, 100, study=OTHER, day=11), limits) == b"y charged 100 spent 100"
    assert commit(ledger, charge(3, 1, study=b"u" * 32, day=12), limits) is Overrun.LIFE


def test_a_report_that_cannot_be_composed_costs_nothing(ledger: Ledger) -> None:
    def broken(symbol: bytes, charged: int, spent: int, sequence: int) -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.commit(charge(1, 70), AMPLE, broken)
    assert ledger.totals(STUDY, 10).life == 0
    assert ledger.stored(name(1)) is None
    assert commit(ledger, charge(1, 70, symbol=b"n")) == b"n charged 70 spent 70"


def test_history_is_as_it_was_when_asked_for(ledger: Ledger) -> None:
    commit(ledger, charge(1, 1))
    history = ledger.history()
    commit(ledger, charge(2, 2))
    assert [entry.nano_nats for entry in history] == [1]


def test_threads_cannot_both_spend_the_last_nano_nat(tmp_path: Path) -> None:
    """The ledger that may be shared is the one on disk."""
    ledger = LedgerFile.create(tmp_path / "shared").ledger()
    limits = Limits(study=100, day=100, life=100)
    barrier = threading.Barrier(4)

    def spend(start: int) -> None:
        barrier.wait()
        for number in range(50):
            commit(ledger, charge(1_000 * start + number, 1), limits)

    threads = [threading.Thread(target=spend, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.totals(STUDY, 10).life == 100
    assert len(list(ledger.history())) == 100
    ledger.close()


def test_standing_is_all_that_bears_on_a_request(ledger: Ledger) -> None:
    commit(ledger, charge(1, 70, question=5))
    seen = Totals(70, 70, 70, last_s=10 * DAY, answers=1, study_answers=1)
    report = b"y charged 70 spent 70"
    assert ledger.standing(name(1), name(5), STUDY, 10) == Standing(report, b"y", seen)
    assert ledger.standing(name(2), name(5), STUDY, 10) == Standing(None, b"y", seen)
    other = Totals(study=0, day=0, life=70, last_s=10 * DAY, answers=1)
    assert ledger.standing(name(2), name(6), OTHER, 11) == Standing(None, None, other)


def test_charged_answers_are_numbered_from_one(ledger: Ledger) -> None:
    def numbered(symbol: bytes, charged: int, spent: int, sequence: int) -> bytes:
        return b"%d" % sequence

    assert ledger.sequence == 0
    told = [ledger.commit(charge(n, 1, question=min(n, 3)), AMPLE, numbered) for n in range(1, 6)]
    assert told == [b"1", b"2", b"3", b"0", b"0"]
    assert ledger.commit(charge(2, 1), Limits(0, 0, 0), numbered) == b"2"
    assert ledger.sequence == 3
    assert [entry.sequence for entry in ledger.history()] == [1, 2, 3]


def test_reused_answers_create_no_row_and_do_not_count(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "MAX_ANSWERS", 2)
    commit(ledger, charge(1, 70, question=5))
    for request in range(2, 9):
        assert commit(ledger, charge(request, 70, question=5)) == b"y charged 0 spent 0"
        assert ledger.stored(name(request)) is None
    assert ledger.totals(STUDY, 10).answers == 1
    assert commit(ledger, charge(9, 1)) == b"y charged 1 spent 71"
    assert commit(ledger, charge(10, 1)) is Overrun.ANSWERS
    assert commit(ledger, charge(11, 70, question=5)) == b"y charged 0 spent 0"
    assert [entry.nano_nats for entry in ledger.history()] == [70, 1]


def test_a_charge_of_nothing_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidParameter, match="charge: expected 1 nano-nat or more, got 0"):
        commit(ledger, charge(1, 0))
    assert list(ledger.history()) == []
