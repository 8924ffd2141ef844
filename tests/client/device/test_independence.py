"""Charges, refusals and coins are functions of the history of requests, never of the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import k_ary_response, randomized_response, subset_selection
from askance_aggregator.queries import (
    category,
    clip,
    predicate,
    real,
    sigmoid,
    where,
)
from askance_client.accounting import parse_epsilon
from askance_client.messages import Refusal, SignedStudy
from askance_client.queries import Query
from askance_client.randomizers import Randomizer

if TYPE_CHECKING:
    from tests.client.device.conftest import ChosenCoins, DeviceSetup

Ask = Callable[[SignedStudy, int], bytes]
HALF = parse_epsilon("0.5")
RECORDS: list[Mapping[str, Any]] = [
    {"smoker": 0, "colour": "red", "height": 0},
    {"smoker": 1, "colour": "blue", "height": 4},
    {"smoker": 1, "colour": "green", "height": Fraction(1, 3)},
    {},
    {"smoker": None, "colour": "?", "height": ""},
    {"smoker": "maybe", "colour": "ultraviolet", "height": float("nan")},
    {"smoker": 7, "colour": 3, "height": float("inf")},
    {"smoker": 1, "colour": "red", "height": 10**30},
    {"smoker": 1, "height": -(10**30)},
]


def asks(setup: DeviceSetup) -> list[Ask]:
    """The requests that may be made, good and bad."""
    smoker, colour, height = setup.schema.smoker, setup.schema.colour, setup.schema.height
    rr, three = randomized_response(HALF), k_ary_response(3, HALF)
    questions: list[tuple[Query, Randomizer]] = [
        (predicate(smoker == 1), rr),
        (predicate((colour == "red") & (height > 1)), rr),
        (category(colour), three),
        (category(colour), subset_selection(3, 2 * HALF)),
        (real(height), rr),
        (real(clip(height, 1, 2)), k_ary_response(5, HALF)),
        (real(sigmoid(height - 2)), rr),
        (real(where(smoker == 1, height, 0)), rr),
        (category(colour), rr),  # levels do not match
    ]
    made = [_asking(setup, query, randomizer) for query, randomizer in questions]
    return [*made, lambda study, number: b"malformed %d" % number]


def _asking(setup: DeviceSetup, query: Query, randomizer: Randomizer) -> Ask:
    return lambda study, number: setup.payload(study, query, randomizer, number)


STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 1), st.integers(0, 2), st.integers(-30, 40)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, first=st.sampled_from(RECORDS), second=st.sampled_from(RECORDS))
def test_two_users_with_one_history_of_requests_are_charged_alike(
    benches: type[DeviceSetup],
    chosen_coins: type[ChosenCoins],
    steps: list[tuple[int, int, int, int]],
    first: Mapping[str, Any],
    second: Mapping[str, Any],
) -> None:
    lives = []
    for record in (first, second):
        setup = benches()
        studies = [setup.study(number, expires=setup.now_s + 86_400) for number in range(2)]
        coins = chosen_coins()
        device = setup.device(
            record,
            studies=studies,
            coins=coins,
            life_nano_nats=6 * HALF,
            day_nano_nats=4 * HALF,
            study_nano_nats=4 * HALF,
        )
        requests = asks(setup)
        told = []
        for request, study, number, hours in steps:
            setup.now_s += 3_600 * hours
            report = setup.answer(device, requests[request](studies[study], number))
            refusal = report.outcome if isinstance(report.outcome, Refusal) else None
            told.append((refusal, report.charged_nano_nats, report.spent_nano_nats))
        lives.append((told, coins.draws, list(device.ledger.history())))
    assert lives[0] == lives[1]


@pytest.mark.parametrize("record", RECORDS)
def test_nothing_but_the_symbol_tells_two_records_apart(
    setup: DeviceSetup, record: Mapping[str, Any]
) -> None:
    """With coins that give two users the same symbol, the reports are the same bytes."""
    study = setup.study()
    payload = setup.payload(study)
    theirs, others = (
        setup.device(of, studies=[study]).answer(payload) for of in (record, RECORDS[0])
    )
    assert theirs == others  # coin 0 is the symbol 0 for either level


def test_what_cannot_be_evaluated_is_the_public_default(setup: DeviceSetup) -> None:
    study = setup.study()
    for default, symbol in ((0, b"\x00"), (2, b"\x02")):
        payload = setup.payload(
            study, category(setup.schema.colour, default), k_ary_response(3, HALF)
        )
        for record in RECORDS[3:7]:
            device = setup.device(record, studies=[study])  # coin 0 keeps the level
            assert setup.answer(device, payload).outcome == symbol
