"""Answers of a device; no byte leaves that was not paid for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.families import k_ary_response, randomized_response, subset_selection
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of
from askance_client.errors import StoreError
from askance_client.ledger import Charge, Limits, MemoryLedger, SqliteLedger
from askance_client.ledger.contract import Compose
from askance_client.messages import Reason, Refusal
from askance_client.queries import category, predicate, real
from askance_client.randomizers import COIN_SPACE, SystemCoins

if TYPE_CHECKING:
    from tests.client.device.conftest import Bench, ChosenCoins

Coins = type["ChosenCoins"]
HALF, TWO = parse_epsilon("0.5"), parse_epsilon("2")


class TestCharges:
    @pytest.mark.parametrize("epsilon", ["0.5", "1", "0.1", "3.25"])
    def test_a_charge_is_the_loss_to_the_nano_nat(self, bench: Bench, epsilon: str) -> None:
        study, nano = bench.study(), parse_epsilon(epsilon)
        device = bench.device(studies=[study])
        report = bench.answer(device, bench.payload(study, None, randomized_response(nano)))
        assert report.charged_nano_nats == report.spent_nano_nats == nano

    def test_a_budget_is_spent_to_the_last_nano_nat(self, bench: Bench) -> None:
        study = bench.study(budget=2 * HALF)
        device = bench.device(studies=[study], life_nano_nats=2 * HALF)
        queries = [predicate(bench.schema.colour == label) for label in ("red", "green", "blue")]
        reports = [bench.answer(device, bench.payload(study, query)) for query in queries]
        assert [report.spent_nano_nats for report in reports] == [HALF, 2 * HALF, 0]
        assert isinstance(reports[2].outcome, Refusal)

    def test_a_familys_loss_is_charged_as_certified(self, bench: Bench) -> None:
        study, randomizer = bench.study(), subset_selection(3, HALF)
        device = bench.device(studies=[study])
        report = bench.answer(
            device, bench.payload(study, category(bench.schema.colour), randomizer)
        )
        assert report.charged_nano_nats == randomizer.loss.nano_nats <= HALF


class TestRandomness:
    def test_the_symbol_is_the_randomizers_of_the_records_level(
        self, bench: Bench, chosen_coins: Coins
    ) -> None:
        study = bench.study()
        channel = randomized_response(HALF)
        truth = channel.table[1][1]
        for coin, symbol in ((0, 0), (COIN_SPACE - truth - 1, 0), (COIN_SPACE - truth, 1)):
            device = bench.device(studies=[study], coins=chosen_coins([coin]))
            assert bench.answer(device, bench.payload(study)).outcome == bytes([symbol])
            assert channel.randomize(1, (coin,)) == bytes([symbol])

    def test_the_number_of_coins_is_the_requests_and_not_the_records(
        self, bench: Bench, chosen_coins: Coins
    ) -> None:
        study = bench.study()
        subset = subset_selection(3, HALF)
        for record in ({}, {"colour": "red", "height": 0}, {"colour": "blue", "height": 4}):
            coins = chosen_coins()
            device = bench.device(record, studies=[study], coins=coins)
            bench.answer(device, bench.payload(study, category(bench.schema.colour), subset))
            bench.answer(device, bench.payload(study, real(bench.schema.height)))
            assert coins.draws == [subset.coins, 2]

    def test_the_operating_systems_coins_will_do(self, bench: Bench) -> None:
        study = bench.study()
        symbols = set()
        for _ in range(200):  # all equal with probability below 2 * 0.63^200
            device = bench.device(studies=[study], coins=SystemCoins())  # type: ignore[arg-type]  # not the test's
            symbols.add(bench.answer(device, bench.payload(study)).outcome)
        assert symbols == {b"\x00", b"\x01"}


class TestRealValues:
    """A value is rounded at random onto the levels by a coin of its own, and then randomized."""

    @pytest.mark.parametrize("levels", [2, 3, 5])
    @pytest.mark.parametrize("height", [Fraction(0), Fraction(1, 3), Fraction(5, 2), Fraction(4)])
    def test_it_goes_up_with_the_probability_that_is_the_fraction(
        self, bench: Bench, chosen_coins: Coins, levels: int, height: Fraction
    ) -> None:
        study = bench.study()
        randomizer = k_ary_response(levels, TWO)
        payload = bench.payload(study, real(bench.schema.height), randomizer)
        mantissa = round(height * 2**16)
        position = Fraction(mantissa * (levels - 1), 4 * 2**16)
        below, rest = divmod(position, 1)
        threshold = int(rest * COIN_SPACE)
        honest = 0  # the coin for which a response is the level itself
        for rounding, level in (
            (0, int(below) + (threshold > 0)),
            (max(threshold - 1, 0), int(below) + (threshold > 0)),
            (threshold, int(below)),
            (COIN_SPACE - 1, int(below)),
        ):
            coins = chosen_coins([honest, rounding])
            device = bench.device({"height": height}, studies=[study], coins=coins)
            assert bench.answer(device, payload).outcome == bytes([level])

    def test_the_coins_of_rounding_and_of_the_response_are_two(
        self, bench: Bench, chosen_coins: Coins
    ) -> None:
        study = bench.study()
        channel = randomized_response(HALF)
        payload = bench.payload(study, real(bench.schema.height), channel)
        lie = COIN_SPACE - 1  # beyond the probability of the symbol 0, for either level
        for rounding in (0, COIN_SPACE - 1):
            coins = chosen_coins([lie, rounding])
            device = bench.device({"height": 2}, studies=[study], coins=coins)
            assert bench.answer(device, payload).outcome == b"\x01"

    def test_a_real_query_has_no_levels_of_its_own_to_mismatch(self, bench: Bench) -> None:
        study = bench.study()
        device = bench.device(studies=[study])
        for levels in (2, 3, 64):
            payload = bench.payload(study, real(bench.schema.height), k_ary_response(levels, TWO))
            assert isinstance(bench.answer(device, payload).outcome, bytes)

    def test_a_missing_value_is_the_public_default(self, bench: Bench, chosen_coins: Coins) -> None:
        study = bench.study()
        query = real(bench.schema.height, default=4)
        payload = bench.payload(study, query, k_ary_response(5, TWO))
        for record in ({}, {"height": None}, {"height": float("nan")}, {"height": 4}):
            device = bench.device(record, studies=[study], coins=chosen_coins([0, 0]))
            assert bench.answer(device, payload).outcome == bytes([4])


class TestRetries:
    def test_the_same_request_is_answered_with_the_stored_bytes(
        self, bench: Bench, chosen_coins: Coins
    ) -> None:
        study, coins = bench.study(), chosen_coins([0, COIN_SPACE - 1, 0, COIN_SPACE - 1])
        device = bench.device(studies=[study], coins=coins)
        payload = bench.payload(study)
        first = device.answer(payload)
        assert [device.answer(payload) for _ in range(3)] == [first] * 3
        assert coins.draws == [1]
        assert len(list(device.ledger.history())) == 1

    def test_even_after_the_study_expired_or_the_clock_went_mad(self, bench: Bench) -> None:
        study = bench.study()
        device = bench.device(studies=[study])
        payload = bench.payload(study)
        first = device.answer(payload)
        for now in (0, bench.now_s - 10**8, bench.now_s + 10**9):
            bench.now_s = now
            assert device.answer(payload) == first

    def test_even_by_a_device_that_has_not_met_the_study_again(self, bench: Bench) -> None:
        study, ledger = bench.study(), MemoryLedger()
        payload = bench.payload(study)
        first = bench.device(studies=[study], ledger=ledger).answer(payload)
        assert bench.device(ledger=ledger).answer(payload) == first

    def test_a_refusal_is_not_kept(self, bench: Bench) -> None:
        """A request refused for a passing reason is answered when the reason has passed."""
        study = bench.study()
        device = bench.device()
        payload = bench.payload(study)
        assert bench.refusal(device, payload).reason is Reason.UNKNOWN_STUDY
        device.introduce(study)
        assert isinstance(bench.answer(device, payload).outcome, bytes)


class TestFrozenQuestions:
    def test_the_same_question_in_another_round_costs_nothing_and_tells_nothing(
        self, bench: Bench, chosen_coins: Coins
    ) -> None:
        study = bench.study()
        device = bench.device(studies=[study], coins=chosen_coins([0, COIN_SPACE - 1]))
        first = bench.answer(device, bench.payload(study))
        again = bench.answer(device, bench.payload(study, round_=1))
        assert again.outcome == first.outcome == b"\x00"
        assert (again.charged_nano_nats, again.spent_nano_nats, again.sequence) == (0, 0, 0)

    def test_nor_in_another_study(self, bench: Bench, chosen_coins: Coins) -> None:
        one, two = bench.study(1), bench.study(2)
        device = bench.device(studies=[one, two], coins=chosen_coins([0, COIN_SPACE - 1]))
        first = bench.answer(device, bench.payload(one))
        again = bench.answer(device, bench.payload(two))
        assert again.outcome == first.outcome
        assert (again.charged_nano_nats, again.spent_nano_nats) == (0, 0)

    def test_a_fresh_expression_of_the_same_question_is_the_same_question(
        self, bench: Bench
    ) -> None:
        study, smoker = bench.study(), bench.schema.smoker
        device = bench.device(studies=[study])
        charges = [
            bench.answer(device, bench.payload(study, query, round_=number)).charged_nano_nats
            for number, query in enumerate([predicate(smoker == 1), predicate(smoker == 1)])
        ]
        assert charges == [HALF, 0]

    def test_another_randomizer_is_another_question(self, bench: Bench) -> None:
        study = bench.study()
        device = bench.device(studies=[study])
        bench.answer(device, bench.payload(study))
        other = bench.answer(device, bench.payload(study, None, randomized_response(TWO)))
        assert (other.charged_nano_nats, other.spent_nano_nats) == (TWO, HALF + TWO)

    def test_another_default_is_another_question(self, bench: Bench) -> None:
        study, smoker = bench.study(), bench.schema.smoker
        device = bench.device(studies=[study])
        bench.answer(device, bench.payload(study, predicate(smoker == 1, default=0)))
        other = bench.answer(device, bench.payload(study, predicate(smoker == 1, default=1)))
        assert other.charged_nano_nats == HALF


class Disk(MemoryLedger):
    """A ledger whose disk fails, or that notes the order of things."""

    def __init__(self, log: list[str], fails: bool = False) -> None:
        super().__init__()
        self._log, self._fails = log, fails

    def commit(self, charge: Charge, limits: Limits, compose: Compose) -> Any:
        if self._fails:
            raise StoreError("ledger: nothing was spent: disk full")
        outcome = super().commit(charge, limits, compose)
        self._log.append("durable")
        return outcome


class TestSpendBeforeSend:
    def test_bytes_come_out_after_the_commit(self, bench: Bench) -> None:
        study = bench.study()
        log: list[str] = []
        device = bench.device(studies=[study], ledger=Disk(log))
        device.answer(bench.payload(study))
        log.append("sent")
        assert log == ["durable", "sent"]

    def test_a_failing_ledger_lets_nothing_out(self, bench: Bench) -> None:
        study, disk = bench.study(), Disk([], fails=True)
        device = bench.device(studies=[study], ledger=disk)
        payload = bench.payload(study)
        with pytest.raises(StoreError, match="disk full"):
            device.answer(payload)
        assert disk.stored(digest_of(payload)) is None
        assert disk.totals(bytes(32), 0).life == 0
        disk._fails = False
        assert isinstance(bench.answer(device, payload).outcome, bytes)

    def test_what_came_out_is_on_the_disk(self, bench: Bench, tmp_path: Path) -> None:
        study = bench.study()
        payload = bench.payload(study)
        ledger = SqliteLedger.create(tmp_path / "ledger")
        sent = bench.device(studies=[study], ledger=ledger).answer(payload)
        ledger.close()
        reopened = SqliteLedger.open(tmp_path / "ledger")
        assert reopened.stored(digest_of(payload)) == sent
        assert reopened.totals(digest_of(study.study), 0).life == HALF
        reopened.close()
