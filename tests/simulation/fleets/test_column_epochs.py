"""Columns are device objects for repeated studies too, while days go by."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.encoding import encode_request
from askance_aggregator.learners import mean
from askance_aggregator.studies import Group, Round, Tally
from askance_aggregator.studies.study import Study
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.messages import Reason, Repeat, Request, SignedStudy
from askance_simulation.fleets import ColumnFleet, Devices, ObjectFleet
from askance_simulation.randomness import Seed, SeededCoins
from tests.conftest import cohort_of
from tests.simulation.fleets.test_column_fleet import (
    FIELDS,
    KEY,
    OWNER,
    PEOPLE,
    QUESTIONS,
    SCHEMA,
    USERS,
    Pair,
)

DAY, START = 86_400, 20_454
REPEATS = (None, Repeat(1, 8, START), Repeat(2, 3, START // 2))


def signed(nonce: int, repeat: Repeat | None) -> SignedStudy:
    study = Study(mean(SCHEMA.age), SCHEMA, epsilon=2, fields=FIELDS)
    name = bytes([nonce]) * 16
    return study.sign(KEY, nonce=name, expires_unix_s=2**40, repeat=repeat)


STUDIES = tuple(signed(nonce, repeat) for nonce, repeat in enumerate((*REPEATS, REPEATS[1])))


class PairInTime(Pair):
    """Both fleets on one clock."""

    def __init__(self, policy: Policy) -> None:
        self.day = START
        self.fleets = tuple(
            make(Devices(PEOPLE, policy, SeededCoins(Seed.of(1)), lambda: self.day * DAY + 7))
            for make in (ObjectFleet, ColumnFleet)
        )


def round_of(number: int, study: SignedStudy, question: int, epoch: int, members: int) -> Round:
    query, randomizer = QUESTIONS[question]
    digest = digest_of(study.study)
    payload = encode_request(Request(digest, number, 0, query, randomizer, epoch))
    cohort = cohort_of(tuple(range(members)), USERS)
    loss = randomizer.loss.nano_nats
    group = Group(payload, digest_of(payload), query, randomizer, loss, cohort, bytes(32))
    return Round(number, study, digest, (group,))


ASKS = st.tuples(
    st.integers(0, 2),  # days that pass before
    st.integers(0, len(STUDIES) - 1),
    st.sampled_from((0, 1, 3)),  # questions of one nat and of two
    st.sampled_from((0, 0, 0, -1, 1)),  # a forged epoch
    st.sampled_from((USERS, 3)),
)


@settings(max_examples=30, deadline=None)
@given(
    asks=st.lists(ASKS, min_size=1, max_size=8),
    refresh=st.sampled_from((None, 1, 1, 2)),
    window=st.sampled_from((None, 2, 3)),
    days=st.integers(1, 3),
)
def test_any_course_of_epochs(
    asks: list[tuple[int, int, int, int, int]],
    refresh: int | None,
    window: int | None,
    days: int,
) -> None:
    policy = replace(
        OWNER,
        life_nano_nats=7 * 10**9,
        day_nano_nats=3 * 10**9,
        refresh_days=refresh,
        window_nano_nats=None if window is None else window * 10**9,
        window_days=days,
    )
    pair = PairInTime(policy)
    for number, (later, place, question, forged, members) in enumerate(asks):
        pair.day += later
        repeat = (*REPEATS, REPEATS[1])[place]
        epoch = 0 if repeat is None else repeat.index(pair.day) + forged
        one, other = pair.asked(round_of(number, STUDIES[place], question, epoch, members))
        assert one == other


def test_the_courses_meet_what_they_are_for() -> None:
    """A nat a day of two in three days; the same within a day is reused; epochs are checked."""
    policy = replace(OWNER, refresh_days=1, window_nano_nats=2 * 10**9, window_days=3)
    pair, daily = PairInTime(policy), STUDIES[1]
    found = []
    for number, (day, forged) in enumerate([(0, 0), (0, 0), (0, 1), (1, 0), (2, 0), (3, 0)]):
        pair.day = START + day
        round_ = round_of(number, daily, 0, START + day + forged, USERS)
        one, other = pair.asked(round_)
        assert one == other
        (tally,) = cast("tuple[tuple[Tally, ...], object, object]", one)[0]
        found.append((tally.answered, tally.reused, dict(tally.refusals)))
    assert found == [
        (USERS, 0, {}),
        (USERS, USERS, {}),
        (0, 0, {Reason.WRONG_EPOCH: USERS}),
        (USERS, 0, {}),
        (0, 0, {Reason.OVER_WINDOW_BUDGET: USERS}),
        (USERS, 0, {}),
    ]
