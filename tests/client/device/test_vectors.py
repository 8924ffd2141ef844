"""Answers to vectors: each sign rounded by itself, then one pattern of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from askance_aggregator.families import (
    hypercube_response,
    k_ary_response,
    random_codebook,
    randomized_response,
)
from askance_aggregator.queries import category, real, vector
from askance_client.accounting import parse_epsilon
from askance_client.exact_laws import valid
from askance_client.messages import Reason
from askance_client.queries import Query
from askance_client.randomizers import COIN_SPACE, HypercubeResponse, Randomizer

if TYPE_CHECKING:
    from tests.client.device.conftest import ChosenCoins, DeviceSetup

Coins = type["ChosenCoins"]
HALF = parse_epsilon("0.5")


def query_of(setup: DeviceSetup) -> Query:
    s = setup.schema
    return vector([s.height, s.smoker * 4, 4 - s.height], 0, 4)


def test_the_report_is_the_rounded_pattern_randomized(
    setup: DeviceSetup, chosen_coins: Coins
) -> None:
    """The height of 2.5 in 0..4 is + below 5/8 of the coins, its complement below 3/8."""
    study, randomizer = setup.study(), hypercube_response(3, HALF)
    below, above = COIN_SPACE * 5 // 8 - 1, COIN_SPACE * 3 // 8
    near = [0] * randomizer.coins  # near, rank 0: the own pattern itself
    coins = chosen_coins([*near, below, COIN_SPACE - 1, above])
    device = setup.device(studies=[study], coins=coins)
    report = setup.answer(device, setup.payload(study, query_of(setup), randomizer))
    assert report.outcome == bytes([0b110])
    assert coins.draws == [randomizer.coins + 3]
    assert report.charged_nano_nats == randomizer.loss.nano_nats <= HALF


def test_words_that_randomize_come_first(setup: DeviceSetup, chosen_coins: Coins) -> None:
    study, randomizer = setup.study(), hypercube_response(3, HALF)
    far = [COIN_SPACE - 1] * randomizer.coins  # the last rank of all: every sign differs
    device = setup.device(studies=[study], coins=chosen_coins([*far, 0, 0, 0]))
    report = setup.answer(device, setup.payload(study, query_of(setup), randomizer))
    assert report.outcome == bytes([0b000])


def test_as_many_coins_are_drawn_whatever_the_record(
    setup: DeviceSetup, chosen_coins: Coins
) -> None:
    study, randomizer = setup.study(), hypercube_response(3, HALF)
    payload = setup.payload(study, query_of(setup), randomizer)
    draws = []
    records: list[dict[str, Any]] = [{}, {"height": 4, "smoker": 0}, {"smoker": 1}]
    for record in records:
        coins = chosen_coins()
        setup.answer(setup.device(record, studies=[study], coins=coins), payload)
        draws.append(coins.draws)
    assert draws == [[randomizer.coins + 3]] * 3


def test_patterns_and_levels_are_not_mixed_up(setup: DeviceSetup) -> None:
    study = setup.study()
    s, device = setup.schema, setup.device(studies=[study])
    cases: list[tuple[Query, Randomizer, str]] = [
        (query_of(setup), hypercube_response(2, HALF), "expected 3 components, found 2"),
        (query_of(setup), random_codebook(2, 9, HALF), "expected 3 components, found 2"),
        (real(s.height), random_codebook(1, 9, HALF), "of levels, found codebook"),
        (query_of(setup), k_ary_response(8, HALF), "of vectors, found k-ary"),
        (query_of(setup), randomized_response(HALF), "of vectors, found channel"),
        (vector([s.smoker]), randomized_response(HALF), "of vectors, found channel"),
        (real(s.height), hypercube_response(1, HALF), "of levels, found hypercube"),
        (category(s.colour), HypercubeResponse(2, 0, 1 << 63), "of levels, found hypercube"),
    ]
    for query, randomizer, says in cases:
        refusal = setup.refusal(device, setup.payload(study, query, randomizer))
        assert refusal.reason is Reason.LEVELS_MISMATCH
        assert says in refusal.message


def test_a_wide_pattern_is_answered(setup: DeviceSetup) -> None:
    study, randomizer = setup.study(), hypercube_response(1024, 4 * HALF)
    device = setup.device(studies=[study])
    query = vector([setup.schema.height] * 1024, 0, 4)
    report = setup.answer(device, setup.payload(study, query, randomizer))
    assert isinstance(report.outcome, bytes)
    assert valid(randomizer, report.outcome)


def test_without_the_budget_for_it_nothing_is_said(setup: DeviceSetup) -> None:
    study, randomizer = setup.study(), hypercube_response(3, HALF)
    device = setup.device(studies=[study], life_nano_nats=HALF - 1)
    refusal = setup.refusal(device, setup.payload(study, query_of(setup), randomizer))
    assert refusal.reason is Reason.OVER_LIFE_BUDGET
