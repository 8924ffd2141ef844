"""An audit recomputes each charge from the request and the study that the ledger kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.families import randomized_response
from askance_aggregator.queries import predicate
from askance_client.accounting import parse_epsilon
from askance_client.cli import report
from askance_client.cli.report import LedgerAudit
from askance_client.codec import digest_of, encode_report
from askance_client.device import Policy
from askance_client.ledger import LOSS_STEP, NO_HASH, Charge, LedgerFile, Posting, PostingKind
from askance_client.messages import Report

if TYPE_CHECKING:
    from tests.client.device.conftest import DeviceSetup

HALF = parse_epsilon("0.5")
POLICY = Policy(frozenset(), 3 * HALF)


def chained(rows: Sequence[Posting]) -> list[Posting]:
    """The rows with the hashes that they should have, whatever they are otherwise."""
    before: dict[tuple[str, bytes], bytes] = {}
    result = []
    for row in rows:
        chain = (row.member, row.enrolment)
        before[chain] = row.hash(before.get(chain, NO_HASH))
        result.append(replace(row, chained=before[chain]))
    return result


def recharged(row: Posting, *, number: int | None = None, **changed: Any) -> Posting:
    """The row with a changed charge, and the report that belongs to it."""
    charge = row.charge._replace(**changed)
    spent = row.sequence * HALF + charge.nano_nats - row.charge.nano_nats
    sequence = row.sequence if number is None else number
    report = Report(charge.request_digest, charge.symbol, charge.nano_nats, spent, sequence)
    return replace(row, charge=charge, report=encode_report(report))


def event(row: Posting, kind: PostingKind, step: int, nano_nats: int = 0) -> Posting:
    """An owner's repair after a row."""
    charge = Charge(b"", b"", b"", row.charge.at_s, nano_nats, b"")
    place, sequence = row.place + 1, row.sequence + step
    return Posting(place, row.member, row.enrolment, sequence, kind, charge, b"", b"")


def violations(rows: Sequence[Posting], policy: Policy = POLICY) -> list[str]:
    kept = LedgerAudit(policy)
    return [line for row in rows for line in kept.take(row)]


@pytest.fixture
def rows(setup: DeviceSetup, tmp_path: Path) -> Iterator[list[Posting]]:
    """Three answers of half a nat each, as a device's ledger keeps them."""
    study = setup.study()
    file = LedgerFile.create(tmp_path / "ledger.sqlite")
    device = setup.device(studies=[study], ledger=file.ledger("", b"enrolled"))
    for label in ("red", "green", "blue"):
        device.answer(setup.payload(study, predicate(setup.schema.colour == label)))
    yield list(file.postings())
    file.close()


def test_all_rows_of_a_devices_ledger_are_recomputed_and_sound(rows: list[Posting]) -> None:
    kept = LedgerAudit(POLICY)
    assert [line for row in rows for line in kept.take(row)] == []
    assert (kept.unverifiable, kept.accepted_breaks) == (0, 0)
    assert [row.charge.nano_nats for row in rows] == [HALF] * 3
    assert chained(rows) == rows


Change = Callable[[Posting, Posting], Posting]
CHANGES: dict[str, tuple[Change, str]] = {
    "another request": (
        lambda row, other: recharged(row, payload=other.charge.payload),
        "expected the request that was charged, found another",
    ),
    "a request that does not parse": (
        lambda row, _: recharged(row, payload=b"\xff", request_digest=digest_of(b"\xff")),
        "expected a request that may be answered: MALFORMED",
    ),
    "one nano-nat less": (
        lambda row, _: recharged(row, nano_nats=HALF - 1),
        f"expected a charge of {HALF} nano-nats for this request, found {HALF - 1}",
    ),
    "another question": (
        lambda row, _: recharged(row, question=b"q" * 32),
        "expected the digest of the question in this request, found another",
    ),
    "a symbol of no answer": (
        lambda row, _: recharged(row, symbol=b"\x02"),
        "expected a symbol of the request's randomizer, found none",
    ),
    "a later report": (
        lambda row, _: recharged(row, number=4),
        "expected a report numbered 3, found 4",
    ),
    "a later number": (
        lambda row, _: replace(recharged(row, number=4), sequence=4),
        "expected sequence number 3, found 4",
    ),
    "an earlier number": (
        lambda row, _: replace(recharged(row, number=2), sequence=2),
        "expected sequence number 3, found 2",
    ),
    "a later place": (
        lambda row, _: replace(row, place=4),
        "expected row 3, found row 4",
    ),
    "an earlier place": (
        lambda row, _: replace(row, place=2),
        "expected row 3, found row 2",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_row_that_its_request_does_not_explain_is_found(name: str, rows: list[Posting]) -> None:
    """The row's hashes and its report agree with the row, so only one line reports it."""
    change, line = CHANGES[name]
    changed = chained([*rows[:2], change(rows[2], rows[1])])
    assert violations(changed) == [line]


@pytest.mark.parametrize("damaged", [b"", b"\0"])
def test_a_study_that_was_changed_is_found_at_each_of_its_charges(
    damaged: bytes, rows: list[Posting]
) -> None:
    """Under its own digest, and under the one of the changed bytes where these do not parse."""
    study = damaged or b"\xff"
    digest = rows[0].charge.study_digest if damaged else digest_of(study)
    changed = [recharged(row, study=study, study_digest=digest) for row in rows]
    line = "expected the study that was charged, found another"
    assert violations(chained(changed)) == [line] * 3


def test_a_row_before_the_numbering_has_a_report_without_a_number(rows: list[Posting]) -> None:
    changed = chained([*rows[:2], recharged(rows[2], number=0)])
    assert violations(changed) == []


@pytest.mark.parametrize(
    "absent", [{"payload": b""}, {"study": b""}, {"payload": b"", "study": b""}]
)
def test_what_was_not_kept_is_counted_and_no_violation(
    absent: dict[str, Any], rows: list[Posting]
) -> None:
    kept = LedgerAudit(POLICY)
    changed = [replace(row, charge=row.charge._replace(**absent)) for row in rows[:2]]
    assert [line for row in [*changed, rows[2]] for line in kept.take(row)] == []
    assert kept.unverifiable == 2


def test_a_budget_may_be_spent_to_the_last_nano_nat(rows: list[Posting]) -> None:
    exact = Policy(frozenset(), 3 * HALF, day_nano_nats=3 * HALF, study_nano_nats=3 * HALF)
    assert violations(rows, exact) == []
    for limit in ("life", "day", "study"):
        changed: dict[str, Any] = {f"{limit}_nano_nats": 3 * HALF - 1}
        less = replace(exact, **changed)
        line = f"expected at most {3 * HALF - 1} nano-nats per {limit}, found {3 * HALF}"
        assert violations(rows, less) == [line]


def test_most_answers_of_a_member_are_counted(
    rows: list[Posting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "MAX_ANSWERS", 3)
    assert violations(rows) == []
    monkeypatch.setattr(report, "MAX_ANSWERS", 2)
    assert violations(rows) == ["expected at most 2 answers in all"]


def test_answers_to_a_study_are_counted(rows: list[Posting]) -> None:
    owner = Policy(frozenset(), 3 * HALF, study_answers=3)
    assert violations(rows, owner) == []
    less = replace(owner, study_answers=2)
    assert violations(rows, less) == ["expected at most 2 answers to one study"]


@pytest.mark.parametrize("same", ["member", "enrolment"])
def test_members_and_enrolments_have_chains_of_their_own(same: str, rows: list[Posting]) -> None:
    """A member's budgets are one, whatever the enrolment; another member's are others."""
    changes: dict[str, Any] = {"enrolment": b"again"} if same == "member" else {"member": "b"}
    last = recharged(replace(rows[2], sequence=1, **changes))
    spent = 3 * HALF if same == "member" else HALF
    report = Report(last.charge.request_digest, last.charge.symbol, HALF, spent, 1)
    moved = chained([*rows[:2], replace(last, report=encode_report(report))])
    assert violations(moved) == []
    least = Policy(frozenset(), 2 * HALF)
    over = [f"expected at most {2 * HALF} nano-nats per life, found {3 * HALF}"]
    assert violations(moved, least) == (over if same == "member" else [])


class TestEvents:
    """Rows of repairs are parts of the chain, and no answers."""

    def test_an_accepted_loss_skips_its_step_and_is_part_of_the_budgets(
        self, rows: list[Posting]
    ) -> None:
        loss = event(rows[2], PostingKind.LOSS, LOSS_STEP, HALF)
        assert violations(chained([*rows, loss]), Policy(frozenset(), 4 * HALF)) == []
        kept = LedgerAudit(Policy(frozenset(), 4 * HALF - 1, day_nano_nats=4 * HALF))
        answer = recharged(replace(rows[2], place=2, sequence=1 + LOSS_STEP))
        report = Report(answer.charge.request_digest, answer.charge.symbol, HALF, 2 * HALF)
        loss = event(rows[0], PostingKind.LOSS, LOSS_STEP, 3 * HALF)
        answer = replace(answer, place=3, sequence=loss.sequence + 1, report=encode_report(report))
        found = [line for row in chained([rows[0], loss, answer]) for line in kept.take(row)]
        assert found == [
            f"expected at most {4 * HALF - 1} nano-nats per life, found {5 * HALF}",
            f"expected at most {4 * HALF} nano-nats per day, found {5 * HALF}",
        ]

    @pytest.mark.parametrize(
        ("kind", "step"),
        [(PostingKind.LOSS, 1), (PostingKind.LOSS, LOSS_STEP + 1), (PostingKind.CLOCK, LOSS_STEP)],
    )
    def test_another_step_is_found(self, kind: PostingKind, step: int, rows: list[Posting]) -> None:
        repair = event(rows[2], kind, step)
        expected = 3 + (LOSS_STEP if kind is PostingKind.LOSS else 1)
        assert violations(chained([*rows, repair])) == [
            f"expected sequence number {expected}, found {3 + step}"
        ]

    def test_a_repaired_clock_is_one_row_and_costs_nothing(self, rows: list[Posting]) -> None:
        assert violations(chained([*rows, event(rows[2], PostingKind.CLOCK, 1)])) == []


class TestAcceptedLosses:
    """A break up to an accepted loss is counted; a later one is a violation."""

    @pytest.mark.parametrize(("accepted", "breaks"), [(1, 0), (2, 0), (3, 2)])
    def test_a_gap_is_accepted_up_to_its_place(
        self, accepted: int, breaks: int, rows: list[Posting]
    ) -> None:
        """The row 2 is gone: the row 3 has a place, a number, a hash and a sum of its own."""
        kept = LedgerAudit(POLICY, accepted)
        gap = [rows[0], chained([rows[0], rows[2]])[1]]
        found = [line for row in gap for line in kept.take(row)]
        expected = [
            "expected row 2, found row 3",
            "expected sequence number 2, found 3",
            f"expected a report of {2 * HALF} nano-nats spent by the study, found {3 * HALF}",
        ]
        assert found == ([] if breaks else expected)
        assert kept.accepted_breaks == breaks

    def test_the_charge_itself_is_recomputed_all_the_same(self, rows: list[Posting]) -> None:
        kept = LedgerAudit(POLICY, accepted=3)
        changed = chained([*rows[:2], recharged(rows[2], nano_nats=HALF - 1)])
        found = [line for row in changed for line in kept.take(row)]
        assert found == [
            f"expected a charge of {HALF} nano-nats for this request, found {HALF - 1}"
        ]


def test_another_randomizer_of_the_same_loss_is_another_question(
    setup: DeviceSetup, rows: list[Posting]
) -> None:
    study = setup.study()
    payload = setup.payload(
        study, predicate(setup.schema.colour == "blue"), randomized_response(HALF - 1)
    )
    changed = recharged(rows[2], payload=payload, request_digest=digest_of(payload))
    assert violations(chained([*rows[:2], changed])) == [
        f"expected a charge of {HALF - 1} nano-nats for this request, found {HALF}",
        "expected the digest of the question in this request, found another",
    ]
