"""Answers of a device; no byte leaves that was not paid for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.families import k_ary_response, randomized_response, subset_selection
from askance_aggregator.queries import category, predicate, real
from askance_client.accounting import parse_epsilon
from askance_client.codec import digest_of
from askance_client.device import RecordWork
from askance_client.errors import StoreError
from askance_client.ledger import Charge, LedgerFile, Limits
from askance_client.ledger.contract import Compose
from askance_client.messages import Reason, Refusal
from askance_client.randomizers import COIN_SPACE, SystemCoins
from askance_simulation.fleets.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from tests.client.device.conftest import ChosenCoins, DeviceSetup

Coins = type["ChosenCoins"]
HALF, TWO = parse_epsilon("0.5"), parse_epsilon("2")


class TestCharges:
    @pytest.mark.parametrize("epsilon", ["0.5", "1", "0.1", "3.25"])
    def test_a_charge_is_the_loss_to_the_nano_nat(self, setup: DeviceSetup, epsilon: str) -> None:
        study, nano = setup.study(), parse_epsilon(epsilon)
        device = setup.device(studies=[study])
        report = setup.answer(device, setup.payload(study, None, randomized_response(nano)))
        assert report.charged_nano_nats == report.spent_nano_nats == nano

    def test_a_budget_is_spent_to_the_last_nano_nat(self, setup: DeviceSetup) -> None:
        study = setup.study(budget=2 * HALF)
        device = setup.device(studies=[study], life_nano_nats=2 * HALF)
        queries = [predicate(setup.schema.colour == label) for label in ("red", "green", "blue")]
        reports = [setup.answer(device, setup.payload(study, query)) for query in queries]
        assert [report.spent_nano_nats for report in reports] == [HALF, 2 * HALF, 0]
        assert isinstance(reports[2].outcome, Refusal)

    def test_a_familys_loss_is_charged_as_certified(self, setup: DeviceSetup) -> None:
        study, randomizer = setup.study(), subset_selection(3, HALF)
        device = setup.device(studies=[study])
        report = setup.answer(
            device, setup.payload(study, category(setup.schema.colour), randomizer)
        )
        assert report.charged_nano_nats == randomizer.loss.nano_nats <= HALF


class TestRandomness:
    def test_the_symbol_is_the_randomizers_of_the_records_level(
        self, setup: DeviceSetup, chosen_coins: Coins
    ) -> None:
        study = setup.study()
        channel = randomized_response(HALF)
        truth = channel.table[1][1]
        for coin, symbol in ((0, 0), (COIN_SPACE - truth - 1, 0), (COIN_SPACE - truth, 1)):
            device = setup.device(studies=[study], coins=chosen_coins([coin]))
            assert setup.answer(device, setup.payload(study)).outcome == bytes([symbol])
            assert channel.randomize(1, (coin,)) == bytes([symbol])

    def test_the_number_of_coins_is_the_requests_and_not_the_records(
        self, setup: DeviceSetup, chosen_coins: Coins
    ) -> None:
        study = setup.study()
        subset = subset_selection(3, HALF)
        for record in ({}, {"colour": "red", "height": 0}, {"colour": "blue", "height": 4}):
            coins = chosen_coins()
            device = setup.device(record, studies=[study], coins=coins)
            setup.answer(device, setup.payload(study, category(setup.schema.colour), subset))
            setup.answer(device, setup.payload(study, real(setup.schema.height)))
            assert coins.draws == [subset.coins, 2]

    def test_the_operating_systems_coins_will_do(self, setup: DeviceSetup) -> None:
        study = setup.study()
        symbols = set()
        for _ in range(200):  # all equal with probability below 2 * 0.63^200
            device = setup.device(studies=[study], coins=SystemCoins())
            symbols.add(setup.answer(device, setup.payload(study)).outcome)
        assert symbols == {b"\x00", b"\x01"}


class TestRealValues:
    """A value is rounded at random onto the levels by a coin of its own, and then randomized."""

    @pytest.mark.parametrize("levels", [2, 3, 5])
    @pytest.mark.parametrize("height", [Fraction(0), Fraction(1, 3), Fraction(5, 2), Fraction(4)])
    def test_it_goes_up_with_the_probability_that_is_the_fraction(
        self, setup: DeviceSetup, chosen_coins: Coins, levels: int, height: Fraction
    ) -> None:
        study = setup.study()
        randomizer = k_ary_response(levels, TWO)
        payload = setup.payload(study, real(setup.schema.height), randomizer)
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
            device = setup.device({"height": height}, studies=[study], coins=coins)
            assert setup.answer(device, payload).outcome == bytes([level])

    def test_the_coins_of_rounding_and_of_the_response_are_two(
        self, setup: DeviceSetup, chosen_coins: Coins
    ) -> None:
        study = setup.study()
        channel = randomized_response(HALF)
        payload = setup.payload(study, real(setup.schema.height), channel)
        lie = COIN_SPACE - 1  # beyond the probability of the symbol 0, for either level
        for rounding in (0, COIN_SPACE - 1):
            coins = chosen_coins([lie, rounding])
            device = setup.device({"height": 2}, studies=[study], coins=coins)
            assert setup.answer(device, payload).charged_nano_nats == setup.epsilon

    def test_a_real_query_has_no_levels_of_its_own_to_mismatch(self, setup: DeviceSetup) -> None:
        study = setup.study()
        device = setup.device(studies=[study])
        for levels in (2, 3, 64):
            payload = setup.payload(study, real(setup.schema.height), k_ary_response(levels, TWO))
            assert isinstance(setup.answer(device, payload).outcome, bytes)

    def test_a_missing_value_is_the_public_default(
        self, setup: DeviceSetup, chosen_coins: Coins
    ) -> None:
        study = setup.study()
        query = real(setup.schema.height, default=4)
        payload = setup.payload(study, query, k_ary_response(5, TWO))
        for record in ({}, {"height": None}, {"height": float("nan")}, {"height": 4}):
            device = setup.device(record, studies=[study], coins=chosen_coins([0, 0]))
            assert setup.answer(device, payload).outcome == bytes([4])


class TestRetries:
    def test_the_same_request_is_answered_with_the_stored_bytes(
        self, setup: DeviceSetup, chosen_coins: Coins
    ) -> None:
        study, coins = setup.study(), chosen_coins([0, COIN_SPACE - 1, 0, COIN_SPACE - 1])
        device = setup.device(studies=[study], coins=coins)
        payload = setup.payload(study)
        first = device.answer(payload)
        assert [device.answer(payload) for _ in range(3)] == [first] * 3
        assert coins.draws == [1]
        assert len(list(device.ledger.history())) == 1

    def test_even_after_the_study_expired_or_the_clock_went_mad(self, setup: DeviceSetup) -> None:
        study = setup.study()
        device = setup.device(studies=[study])
        payload = setup.payload(study)
        first = device.answer(payload)
        for now in (0, setup.now_s - 10**8, setup.now_s + 10**9):
            setup.now_s = now
            assert device.answer(payload) == first

    def test_even_by_a_device_that_has_not_met_the_study_again(self, setup: DeviceSetup) -> None:
        study, ledger = setup.study(), MemoryLedger()
        payload = setup.payload(study)
        first = setup.device(studies=[study], ledger=ledger).answer(payload)
        assert setup.device(ledger=ledger).answer(payload) == first

    def test_a_refusal_is_not_kept(self, setup: DeviceSetup) -> None:
        """A request refused for a passing reason is answered when the reason has passed."""
        study = setup.study()
        device = setup.device()
        payload = setup.payload(study)
        assert setup.refusal(device, payload).reason is Reason.UNKNOWN_STUDY
        device.introduce(study)
        assert isinstance(setup.answer(device, payload).outcome, bytes)


class TestFrozenQuestions:
    def test_the_same_question_in_another_round_costs_nothing_and_tells_nothing(
        self, setup: DeviceSetup, chosen_coins: Coins
    ) -> None:
        study = setup.study()
        device = setup.device(studies=[study], coins=chosen_coins([0, COIN_SPACE - 1]))
        first = setup.answer(device, setup.payload(study))
        again = setup.answer(device, setup.payload(study, round_=1))
        assert again.outcome == first.outcome == b"\x00"
        assert (again.charged_nano_nats, again.spent_nano_nats, again.sequence) == (0, 0, 0)

    def test_nor_in_another_study(self, setup: DeviceSetup, chosen_coins: Coins) -> None:
        one, two = setup.study(1), setup.study(2)
        device = setup.device(studies=[one, two], coins=chosen_coins([0, COIN_SPACE - 1]))
        first = setup.answer(device, setup.payload(one))
        again = setup.answer(device, setup.payload(two))
        assert again.outcome == first.outcome
        assert (again.charged_nano_nats, again.spent_nano_nats) == (0, 0)

    def test_a_fresh_expression_of_the_same_question_is_the_same_question(
        self, setup: DeviceSetup
    ) -> None:
        study, smoker = setup.study(), setup.schema.smoker
        device = setup.device(studies=[study])
        charges = [
            setup.answer(device, setup.payload(study, query, round_=number)).charged_nano_nats
            for number, query in enumerate([predicate(smoker == 1), predicate(smoker == 1)])
        ]
        assert charges == [HALF, 0]

    def test_another_randomizer_is_another_question(self, setup: DeviceSetup) -> None:
        study = setup.study()
        device = setup.device(studies=[study])
        setup.answer(device, setup.payload(study))
        other = setup.answer(device, setup.payload(study, None, randomized_response(TWO)))
        assert (other.charged_nano_nats, other.spent_nano_nats) == (TWO, HALF + TWO)

    def test_another_default_is_another_question(self, setup: DeviceSetup) -> None:
        study, smoker = setup.study(), setup.schema.smoker
        device = setup.device(studies=[study])
        setup.answer(device, setup.payload(study, predicate(smoker == 1, default=0)))
        other = setup.answer(device, setup.payload(study, predicate(smoker == 1, default=1)))
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
    def test_bytes_come_out_after_the_commit(self, setup: DeviceSetup) -> None:
        study = setup.study()
        log: list[str] = []
        device = setup.device(studies=[study], ledger=Disk(log))
        device.answer(setup.payload(study))
        log.append("sent")
        assert log == ["durable", "sent"]

    def test_a_failing_ledger_lets_nothing_out(self, setup: DeviceSetup) -> None:
        study, disk = setup.study(), Disk([], fails=True)
        device = setup.device(studies=[study], ledger=disk)
        payload = setup.payload(study)
        with pytest.raises(StoreError, match="disk full"):
            device.answer(payload)
        assert disk.stored(digest_of(payload)) is None
        assert disk.totals(bytes(32), 0).life == 0
        disk._fails = False
        assert isinstance(setup.answer(device, payload).outcome, bytes)

    def test_what_came_out_is_on_the_disk(self, setup: DeviceSetup, tmp_path: Path) -> None:
        study = setup.study()
        payload = setup.payload(study)
        ledger = LedgerFile.create(tmp_path / "ledger").ledger()
        sent = setup.device(studies=[study], ledger=ledger).answer(payload)
        ledger.close()
        reopened = LedgerFile.open(tmp_path / "ledger").ledger()
        assert reopened.stored(digest_of(payload)) == sent
        assert reopened.totals(digest_of(study.study), 0).life == HALF
        reopened.close()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("step", ["clock", "record", "coins"])
def test_a_device_that_is_interrupted_is_let_go_and_nothing_is_charged(
    step: str,
    failure: type[BaseException],
    setup: DeviceSetup,
    chosen_coins: Coins,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever ends a request, while it is settled, evaluated or charged: the next is answered."""

    def interrupted(*arguments: Any) -> Any:
        raise failure

    study = setup.study()
    device = setup.device(studies=[study])
    payload = setup.payload(study)
    with monkeypatch.context() as patch:
        if step == "clock":
            patch.setattr(device, "_now_s", interrupted)
        elif step == "record":
            patch.setattr(RecordWork, "_value", interrupted)
        else:
            patch.setattr(chosen_coins, "words", interrupted)
        with pytest.raises(failure):
            device.answer(payload)
    assert not device._lock.locked()  # the next would wait for ever
    assert list(device.ledger.history()) == []
    assert setup.answer(device, payload).charged_nano_nats == setup.epsilon
