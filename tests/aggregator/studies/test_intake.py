"""Intake of reports: unasked, impossible and false ones are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askance_aggregator.queries import predicate
from askance_aggregator.studies import Accounts, Intake, Round
from askance_aggregator.studies.intake import CheckedReports
from askance_client.codec import encode_report
from askance_client.messages import AckStatus, Reason, Refusal, Report
from tests.conftest import add_report

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World

USERS = 4
NO = Refusal(Reason.OVER_LIFE_BUDGET, "expected less")


@pytest.fixture
def round_(world: World) -> Round:
    """Users 0 and 1 are asked one thing and another, users 2 and 3 nothing."""
    other = predicate(world.schema["b"] == 0)
    return world.round(world.group([0, 1], USERS), world.group([0, 1], USERS, place=1, query=other))


@pytest.fixture
def accounts(world: World, round_: Round) -> Accounts:
    accounts = Accounts(USERS, world.budget)
    for group in round_.groups:
        accounts.reserve(group.cohort, group.nano_nats)
    return accounts


@pytest.fixture
def intake(round_: Round, accounts: Accounts) -> Intake:
    return Intake(round_, accounts)


def report(
    round_: Round,
    outcome: bytes | Refusal = b"\x01",
    *,
    group: int = 0,
    charged: int | None = None,
    spent: int | None = None,
) -> bytes:
    """An honest device's report, but for what is given."""
    cost = round_.groups[group].nano_nats if isinstance(outcome, bytes) else 0
    charged = cost if charged is None else charged
    return encode_report(
        Report(round_.groups[group].digest, outcome, charged, charged if spent is None else spent)
    )


def examine(intake: Intake, ordinal: int, data: bytes) -> CheckedReports | AckStatus:
    """Check a report, and that its user was asked."""
    reports = intake.check((data,))
    if isinstance(reports, AckStatus):
        return reports
    return AckStatus.UNKNOWN if intake.place(reports, ordinal) is None else reports


def test_a_round_is_complete_when_everybody_answered_or_refused(
    intake: Intake, round_: Round, accounts: Accounts
) -> None:
    assert (intake.open, intake.complete) == (4, False)
    add_report(intake, 0, report(round_))
    add_report(intake, 1, report(round_, b"\x00"))
    add_report(intake, 1, report(round_, NO, group=1, spent=round_.groups[0].nano_nats))
    assert (intake.open, intake.complete) == (1, False)
    add_report(intake, 0, report(round_, group=1, spent=2 * round_.groups[0].nano_nats))
    assert (intake.open, intake.complete) == (0, True)
    one, other = intake.tallies()
    assert (one.counts, one.answered, one.refusals) == ((1, 1), 2, ())
    assert (other.counts, other.answered, other.asked) == ((0, 1), 1, 2)
    assert other.refusals == ((Reason.OVER_LIFE_BUDGET, 1),)
    assert accounts.reconciled()
    assert accounts.spending().total_spent == 3 * round_.groups[0].nano_nats


def test_examining_enters_nothing(intake: Intake, round_: Round, accounts: Accounts) -> None:
    assert isinstance(examine(intake, 0, report(round_)), CheckedReports)
    assert intake.open == 4
    assert accounts.spending().total_spent == 0


def test_what_a_user_owes_shrinks_as_it_answers(intake: Intake, round_: Round) -> None:
    one, other = round_.groups
    assert [intake.owes(user) for user in range(USERS)] == [[one, other], [one, other], [], []]
    add_report(intake, 1, report(round_))
    assert intake.owes(1) == [other]
    add_report(intake, 1, report(round_, NO, group=1, spent=one.nano_nats))
    assert intake.owes(1) == []


def test_a_report_counts_once(intake: Intake, round_: Round, accounts: Accounts) -> None:
    for symbol in (b"\x01", b"\x01", b"\x00"):
        add_report(intake, 0, report(round_, symbol))
    add_report(intake, 0, report(round_, NO, spent=round_.groups[0].nano_nats))
    assert intake.open == 3
    assert intake.tallies()[0].counts == (0, 1)
    assert intake.tallies()[0].refusals == ()
    assert accounts.spending().total_spent == round_.groups[0].nano_nats


@pytest.mark.parametrize("ordinal", [2, 3, USERS, 10**6, -1])
def test_from_one_who_was_not_asked_it_is_unknown(
    intake: Intake, round_: Round, ordinal: int
) -> None:
    assert examine(intake, ordinal, report(round_)) is AckStatus.UNKNOWN


def test_to_a_request_of_another_round_it_is_unknown(intake: Intake) -> None:
    stray = encode_report(Report(b"r" * 32, b"\x01", 1, 1))
    assert examine(intake, 0, stray) is AckStatus.UNKNOWN


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"no report", bytes(20_000)])
def test_bytes_that_are_no_report_are_malformed(intake: Intake, data: bytes) -> None:
    assert examine(intake, 0, data) is AckStatus.MALFORMED


@pytest.mark.parametrize("symbol", [b"\x02", b"\xff", b"", b"\x00\x00", b"\x01\x00"])
def test_a_symbol_outside_the_alphabet_is_malformed(
    intake: Intake, round_: Round, symbol: bytes
) -> None:
    """0xFF above all: it would pass for a user that stayed away."""
    assert examine(intake, 0, report(round_, symbol)) is AckStatus.MALFORMED


def test_a_charge_above_the_randomizer_s_loss_is_a_lie(intake: Intake, round_: Round) -> None:
    loss = round_.groups[0].nano_nats
    assert isinstance(examine(intake, 0, report(round_, charged=loss)), CheckedReports)
    assert examine(intake, 0, report(round_, charged=loss + 1)) is AckStatus.MALFORMED


def test_a_total_below_its_last_charge_is_a_lie(intake: Intake, round_: Round) -> None:
    loss = round_.groups[0].nano_nats
    assert examine(intake, 0, report(round_, spent=loss - 1)) is AckStatus.MALFORMED
    assert isinstance(
        examine(intake, 0, report(round_, charged=0, spent=0)), CheckedReports
    )  # frozen


def test_a_total_that_no_ledger_can_hold_is_a_lie(intake: Intake, round_: Round) -> None:
    for spent in ((1 << 62) + 1, (1 << 64) - 1):
        assert examine(intake, 0, report(round_, spent=spent)) is AckStatus.MALFORMED
    add_report(intake, 0, report(round_, spent=1 << 62))


def test_a_refusal_that_was_charged_for_is_a_lie(intake: Intake, round_: Round) -> None:
    assert examine(intake, 0, report(round_, NO, charged=1)) is AckStatus.MALFORMED
    assert isinstance(examine(intake, 0, report(round_, NO)), CheckedReports)
