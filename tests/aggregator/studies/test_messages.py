"""Reports of one message checked together, and equal stored reports: as one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.queries import predicate
from askance_aggregator.studies import Accounts, Intake, Round
from askance_aggregator.studies.intake import CheckedReports, without_sequence
from askance_client.codec import decode_report, encode_report
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, Reason, Refusal, Report
from askance_protos.v1 import exchange_pb2 as pb
from tests.conftest import add_report

if TYPE_CHECKING:
    from tests.aggregator.studies.conftest import World

USERS = 30  # of the first cohort; two more are the second one
POPULATION = USERS + 2
NO = Refusal(Reason.OVER_LIFE_BUDGET, "")
NUMBERS = st.integers(0, (1 << 63) - 1)
REPORTS = st.builds(
    Report,
    st.binary(min_size=32, max_size=32),
    st.binary(max_size=90) | st.just(NO),
    NUMBERS,
    NUMBERS,
    st.integers(0, 300) | NUMBERS,
)
ENDS = st.lists(st.binary(max_size=3) | st.just(b"\x30") | st.just(b"\x30\x05")).map(b"".join)


@pytest.fixture
def round_(world: World) -> Round:
    """All users but two are asked one thing and another, these two a third."""
    other = predicate(world.schema["b"] == 0)
    return world.round(
        world.group(range(USERS), POPULATION),
        world.group(range(USERS), POPULATION, place=1, query=other),
        world.group([USERS, USERS + 1], POPULATION, place=2, query=other),
    )


def intake(world: World, round_: Round) -> tuple[Intake, Accounts]:
    accounts = Accounts(POPULATION, world.budget)
    return Intake(replace(round_, groups=round_.groups[:2]), accounts), accounts


def report(
    round_: Round, group: int, outcome: bytes | Refusal = b"\x01", sequence: int = 0
) -> bytes:
    cost = round_.groups[group].nano_nats if isinstance(outcome, bytes) else 0
    return encode_report(Report(round_.groups[group].digest, outcome, cost, cost, sequence))


def entered(made: tuple[Intake, Accounts]) -> tuple[object, ...]:
    """Return all that a round keeps of its reports."""
    counted, accounts = made
    owed = [len(counted.owes(user)) for user in range(USERS)]
    return counted.tallies(), counted.open, owed, accounts.spending()


def decoded(data: bytes) -> Report | None:
    try:
        return decode_report(data)
    except RemoteProtocolError:
        return None


@given(REPORTS, ENDS)
def test_a_report_without_its_sequence_number_is_the_same_report(made: Report, end: bytes) -> None:
    """Also where the bytes end like a sequence number and are none, or have several."""
    data = encode_report(made) + end
    part, number = without_sequence(data)
    if part == data:
        assert number == 0
    elif (first := decoded(part)) is not None:
        assert decoded(data) == first._replace(sequence=number)


@given(REPORTS.filter(lambda made: made.sequence > 0))
def test_the_sequence_number_of_a_short_report_is_split_off(made: Report) -> None:
    data = encode_report(made)
    part, number = without_sequence(data)
    expected = (made._replace(sequence=0), made.sequence) if len(data) <= 128 else (made, 0)
    assert (decode_report(part), number) == expected


@given(st.binary(max_size=140))
def test_any_bytes_are_split_or_left(data: bytes) -> None:
    part, _ = without_sequence(data)
    assert data.startswith(part)


@pytest.mark.parametrize("before", [(), (0,), (1, 0)])
def test_a_message_counts_as_its_reports_do(
    world: World, round_: Round, before: tuple[int, ...]
) -> None:
    """Also for a user of whom some reports were counted before."""
    together, one_by_one = intake(world, round_), intake(world, round_)
    for made, _ in (together, one_by_one):
        for group in before:
            add_report(made, 7, report(round_, group, b"\x00"))
    messages: list[tuple[int, tuple[bytes | Refusal, ...]]] = [
        (7, (b"\x01", b"\x01")),
        (8, (b"\x00", NO)),
        (7, (b"\x00", b"\x00")),
    ]
    for user, outcomes in messages:
        data = tuple(report(round_, group, outcome) for group, outcome in enumerate(outcomes))
        message = together[0].check(data)
        assert isinstance(message, CheckedReports)
        place = together[0].place(message, user)
        assert place is not None
        counted = sum(add_report(one_by_one[0], user, one) for one in data)
        assert together[0].add(message, place) == counted
    assert entered(together) == entered(one_by_one)


def test_a_user_who_is_not_asked_has_no_place(world: World, round_: Round) -> None:
    made, _ = intake(world, round_)
    message = made.check((report(round_, 0),))
    assert isinstance(message, CheckedReports)
    assert [made.place(message, user) for user in (-1, 0, USERS - 1, USERS)] == [
        None,
        0,
        USERS - 1,
        None,
    ]


def test_what_is_wrong_is_left_to_be_checked_one_by_one(world: World, round_: Round) -> None:
    made = Intake(round_, Accounts(POPULATION, world.budget))
    good = report(round_, 0)
    cost = round_.groups[1].nano_nats
    bad = {
        "the same request twice": report(round_, 0, b"\x00"),
        "no report": b"\xff",
        "another round's request": encode_report(Report(bytes(32), b"\x01", 0, 0)),
        "a symbol outside the alphabet": report(round_, 1, b"\x07"),
        "a charge above the loss": encode_report(
            Report(round_.groups[1].digest, b"\x01", cost + 1, cost + 1)
        ),
        "another cohort": report(round_, 2),
    }
    for data in bad.values():
        assert isinstance(made.check((good, data)), AckStatus)
    assert isinstance(made.check((good, report(round_, 1))), CheckedReports)


@pytest.mark.parametrize("outcome", [b"\x01", NO])
def test_equal_reports_count_as_one_by_one(
    world: World, round_: Round, outcome: bytes | Refusal
) -> None:
    """Those of users who answered before, or who are not asked, change nothing."""
    together, one_by_one = intake(world, round_), intake(world, round_)
    data = report(round_, 1, outcome)
    for made, _ in (together, one_by_one):
        add_report(made, 3, report(round_, 1, b"\x00"))
    users = [12, 3, 0, USERS - 1, USERS, 10**9]
    equal = together[0].check((data,))
    assert isinstance(equal, CheckedReports)
    inside, places = together[0].places(equal, np.array(users))
    assert inside.tolist() == [True, True, True, True, False, False]
    assert list(together[0].add(equal, places)) == [1, 0, 1, 1]
    assert list(together[0].add(equal, places)) == [0, 0, 0, 0]
    for user in users[:4]:
        add_report(one_by_one[0], user, data)
    assert entered(together) == entered(one_by_one)


def test_equal_bytes_that_are_wrong_are_not_counted(world: World, round_: Round) -> None:
    made = intake(world, round_)
    nothing = entered(intake(world, round_))
    lie = encode_report(Report(round_.groups[0].digest, b"\x01", 1 << 40, 1 << 40))
    for data in (b"\xff", lie, report(round_, 2), report(round_, 0, b"\x07")):
        assert isinstance(made[0].check((data,)), AckStatus)
    assert entered(made) == nothing


def test_the_sequence_number_is_the_last_field() -> None:
    """Else `without_sequence` would split nothing, and equal reports would be checked each."""
    assert max(field.number for field in pb.Report.DESCRIPTOR.fields) == 6
    assert pb.Report(sequence=5).SerializeToString() == b"\x30\x05"
