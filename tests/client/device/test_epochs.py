"""Studies that collect again: the epoch is the device's own, and so are the budgets.

An aggregator here forges epochs, crosses windows and asks too early. Each time the device refuses
with a reason code and nothing is spent.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.queries import predicate
from askance_client.device import Device
from askance_client.ledger import Ledger, LedgerFile
from askance_client.messages import Reason, Refusal, Repeat, SignedStudy
from askance_client.queries import EncodedRecord
from askance_simulation.fleets.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from tests.client.device.conftest import ChosenCoins, DeviceSetup

Coins = type["ChosenCoins"]
DAY = 86_400
WEEKLY = Repeat(7, 4, 20_000 // 7)
LATER = 40_000 * DAY


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    return LedgerFile.create(tmp_path / "ledger").ledger()


@pytest.fixture
def own(setup: DeviceSetup) -> DeviceSetup:
    """A setup of the test's own, whose clock it may set."""
    return type(setup)()


def weekly(
    setup: DeviceSetup, nonce: int = 0, repeat: Repeat = WEEKLY, **terms: Any
) -> SignedStudy:
    return setup.study(nonce, repeat=repeat, expires=LATER, **terms)


def reason_of(setup: DeviceSetup, device: Device, payload: bytes) -> Reason:
    outcome = setup.answer(device, payload).outcome
    assert isinstance(outcome, Refusal)
    return outcome.reason


def spent(ledger: Ledger) -> int:
    return sum(entry.nano_nats for entry in ledger.history())


class TestAnswers:
    def test_an_answer_is_stored_within_its_epoch_and_fresh_and_charged_in_the_next(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        study = weekly(own)
        device = own.device(ledger=ledger, studies=[study], refresh_days=7)
        for number, epoch in enumerate(WEEKLY.indices):
            own.now_s = epoch * 7 * DAY + 5
            first = own.answer(device, own.payload(study, epoch=epoch))
            assert (first.charged_nano_nats, first.sequence) == (own.epsilon, number + 1)
            assert first.spent_nano_nats == own.epsilon  # of the epoch
            own.now_s += 6 * DAY
            again = own.answer(device, own.payload(study, epoch=epoch, round_=1))
            assert (again.charged_nano_nats, again.outcome) == (0, first.outcome)
        assert spent(ledger) == 4 * own.epsilon

    def test_the_record_of_the_new_epoch_is_read(
        self, own: DeviceSetup, ledger: Ledger, chosen_coins: Coins
    ) -> None:
        records = [{"smoker": 0}, {"smoker": 1}]

        class Source:
            def load(self) -> EncodedRecord:
                return own.schema.encode(records[0])

        study = weekly(own)
        coins = chosen_coins([1 << 63] * 3)  # so that the answer follows the record
        device = own.device(ledger=ledger, studies=[study], coins=coins, refresh_days=7)
        device._record = Source()
        outcomes: list[bytes | Refusal] = []
        for epoch in (WEEKLY.first, WEEKLY.first, WEEKLY.first + 1):
            own.now_s = epoch * 7 * DAY
            payload = own.payload(study, epoch=epoch, round_=len(outcomes))
            outcomes.append(own.answer(device, payload).outcome)
            if len(outcomes) == 1:
                records.pop(0)
        assert outcomes[0] == outcomes[1] != outcomes[2]

    def test_two_studies_of_one_every_share_the_answers_of_an_epoch_and_no_other_studies_do(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        studies = [weekly(own, 0), weekly(own, 1), weekly(own, 2, Repeat(14, 2, 20_000 // 14))]
        once = own.study(3, expires=LATER)
        device = own.device(ledger=ledger, studies=[*studies, once], refresh_days=7)
        epochs = [WEEKLY.first, WEEKLY.first, 20_000 // 14]
        charged = [
            own.answer(device, own.payload(study, epoch=epoch)).charged_nano_nats
            for study, epoch in [*zip(studies, epochs, strict=True), (once, 0)]
        ]
        assert charged == [own.epsilon, 0, own.epsilon, own.epsilon]

    def test_epochs_of_one_index_and_different_lengths_share_no_answers(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        """Index 20,000 of days is in 2024, of pairs of days in 2079."""
        studies = [
            own.study(nonce, repeat=Repeat(every, 1, 20_000), expires=50_000 * DAY)
            for nonce, every in enumerate((1, 2))
        ]
        device = own.device(ledger=ledger, studies=studies, refresh_days=1)
        for number, study in enumerate(studies, start=1):
            own.now_s = number * 20_000 * DAY
            report = own.answer(device, own.payload(study, epoch=20_000))
            assert report.charged_nano_nats == own.epsilon
        assert spent(ledger) == 2 * own.epsilon

    def test_a_stored_report_of_an_earlier_epoch_is_resent_and_costs_nothing(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        study = weekly(own)
        device = own.device(ledger=ledger, studies=[study], refresh_days=7)
        payload = own.payload(study, epoch=WEEKLY.first)
        report = device.answer(payload)
        own.now_s += 7 * DAY
        assert device.answer(payload) == report
        assert spent(ledger) == own.epsilon


class TestHostileAggregator:
    @pytest.mark.parametrize("forged", [-2, -1, 1, 2, 3, 4, 1 << 20, -WEEKLY.first])
    @pytest.mark.parametrize("epoch", [WEEKLY.first, WEEKLY.first + 2])
    def test_a_forged_epoch_is_refused_and_costs_nothing(
        self, own: DeviceSetup, ledger: Ledger, epoch: int, forged: int
    ) -> None:
        """An epoch before or after the present one, whether the study signs it or not."""
        study = weekly(own)
        device = own.device(ledger=ledger, studies=[study], refresh_days=7)
        own.now_s = epoch * 7 * DAY
        payload = own.payload(study, epoch=max(epoch + forged, 0))
        assert reason_of(own, device, payload) is Reason.WRONG_EPOCH
        assert spent(ledger) == 0

    def test_a_study_that_collects_once_has_no_epochs(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        study = own.study()
        device = own.device(ledger=ledger, studies=[study], refresh_days=1)
        for epoch in (1, 20_000, WEEKLY.first):
            payload = own.payload(study, epoch=epoch)
            assert reason_of(own, device, payload) is Reason.WRONG_EPOCH
        assert spent(ledger) == 0

    def test_no_epoch_is_answered_before_the_first_or_after_the_last(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        study = weekly(own)
        device = own.device(ledger=ledger, studies=[study], refresh_days=7)
        for epoch in (WEEKLY.first - 1, WEEKLY.first + 4):
            own.now_s = epoch * 7 * DAY
            payload = own.payload(study, epoch=epoch)
            assert reason_of(own, device, payload) is Reason.WRONG_EPOCH
        assert spent(ledger) == 0

    @pytest.mark.parametrize(("refresh", "every"), [(None, 7), (None, 3_660), (30, 29), (8, 7)])
    def test_a_refresh_that_is_too_early_is_refused(
        self, own: DeviceSetup, ledger: Ledger, refresh: int | None, every: int
    ) -> None:
        repeat = Repeat(every, 4, 20_000 // every)
        study = weekly(own, repeat=repeat)
        device = own.device(ledger=ledger, studies=[study], refresh_days=refresh)
        payload = own.payload(study, epoch=repeat.first)
        assert reason_of(own, device, payload) is Reason.REFRESH_TOO_EARLY
        assert spent(ledger) == 0

    def test_an_epoch_that_is_over_does_not_come_back_with_the_clock(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        study = weekly(own)
        device = own.device(ledger=ledger, studies=[study], refresh_days=7)
        own.now_s = (WEEKLY.first + 1) * 7 * DAY
        own.answer(device, own.payload(study, epoch=WEEKLY.first + 1))
        own.now_s -= DAY
        for epoch in (WEEKLY.first, WEEKLY.first + 1):
            payload = own.payload(study, epoch=epoch, round_=1)
            assert reason_of(own, device, payload) is Reason.CLOCK_MOVED_BACK
        assert spent(ledger) == own.epsilon

    def test_the_signed_budget_holds_per_epoch_and_the_owners_over_all(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        study = weekly(own, budget=2 * own.epsilon)
        owner: dict[str, Any] = {"refresh_days": 7, "study_nano_nats": 5 * own.epsilon}
        device = own.device(ledger=ledger, studies=[study], **owner)
        schema = own.schema
        questions = [schema.smoker == 1, schema.height < 1, schema.colour == "red"]
        outcomes = []
        for epoch in list(WEEKLY.indices)[:3]:
            own.now_s = epoch * 7 * DAY
            for place, question in enumerate(questions):
                payload = own.payload(study, predicate(question), epoch=epoch, round_=place)
                outcome = own.answer(device, payload).outcome
                outcomes.append(outcome.reason if isinstance(outcome, Refusal) else None)
        over = Reason.OVER_STUDY_BUDGET
        assert outcomes == [None, None, over, None, None, over, None, over, over]
        assert spent(ledger) == 5 * own.epsilon

    @pytest.mark.parametrize("days", [0, 1, 6])
    def test_the_signed_budget_holds_over_all_days_of_an_epoch(
        self, own: DeviceSetup, ledger: Ledger, days: int
    ) -> None:
        study = weekly(own, budget=own.epsilon)
        device = own.device(ledger=ledger, studies=[study], refresh_days=7)
        first, second, third = three_questions(own, (study, study, study), WEEKLY.first)
        own.now_s = WEEKLY.first * 7 * DAY
        assert own.answer(device, first).charged_nano_nats == own.epsilon
        own.now_s += days * DAY
        assert reason_of(own, device, second) is Reason.OVER_STUDY_BUDGET
        own.now_s = (WEEKLY.first + 1) * 7 * DAY - 1  # its last second
        assert reason_of(own, device, third) is Reason.OVER_STUDY_BUDGET
        assert spent(ledger) == own.epsilon


class TestWindows:
    def test_a_window_counts_the_last_days_and_frees_them_one_by_one(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        daily = Repeat(1, 1_000, 20_000)
        study = weekly(own, repeat=daily, budget=own.epsilon)
        owner: dict[str, Any] = {
            "refresh_days": 1,
            "window_days": 3,
            "window_nano_nats": 2 * own.epsilon,
        }
        device = own.device(ledger=ledger, studies=[study], **owner)
        answered = []
        for day in range(20_000, 20_007):
            own.now_s = day * DAY + DAY - 1
            outcome = own.answer(device, own.payload(study, epoch=day)).outcome
            if isinstance(outcome, Refusal):
                assert outcome.reason is Reason.OVER_WINDOW_BUDGET
            else:
                answered.append(day - 20_000)
        assert answered == [0, 1, 3, 4, 6]

    @pytest.mark.parametrize("seed", range(8))
    def test_no_clock_that_jumps_both_ways_overspends_a_window(
        self, own: DeviceSetup, ledger: Ledger, seed: int
    ) -> None:
        """Sums of any window of days, by the charges' own times, stay within the budget."""
        jumps, days, most = random.Random(seed), 4, 3
        daily = Repeat(1, 1_000, 19_900)
        study = weekly(own, repeat=daily, budget=own.epsilon)
        owner: dict[str, Any] = {
            "refresh_days": 1,
            "window_days": days,
            "window_nano_nats": most * own.epsilon,
        }
        device = own.device(ledger=ledger, studies=[study], **owner)
        reasons = set()
        for number in range(60):
            own.now_s = 20_000 * DAY + jumps.randrange(-5 * DAY, 25 * DAY)
            if jumps.random() < 0.3:  # a small step
                last = max((entry.at_s for entry in ledger.history()), default=own.now_s)
                own.now_s = last + jumps.randrange(-90, DAY)
            payload = own.payload(study, epoch=own.now_s // DAY, round_=number)
            outcome = own.answer(device, payload).outcome
            reasons.add(outcome.reason if isinstance(outcome, Refusal) else None)
        history = list(ledger.history())
        assert [entry.at_s for entry in history] == sorted(entry.at_s for entry in history)
        for entry in history:
            within = [e for e in history if 0 <= e.at_s // DAY - entry.at_s // DAY < days]
            assert sum(e.nano_nats for e in within) <= most * own.epsilon
        assert None in reasons
        assert reasons <= {None, Reason.CLOCK_MOVED_BACK, Reason.OVER_WINDOW_BUDGET}

    @pytest.mark.parametrize("of_two_studies", [False, True])
    def test_charges_of_one_message_are_counted_together(
        self, own: DeviceSetup, ledger: Ledger, of_two_studies: bool
    ) -> None:
        """The window is that of all studies, one or two."""
        one, two = own.study(1), own.study(2 if of_two_studies else 1)
        owner: dict[str, Any] = {"window_days": 30, "window_nano_nats": 2 * own.epsilon}
        device = own.device(ledger=ledger, studies=[one, two], **owner)
        turn = device.begin(three_questions(own, (one, two, one)))
        assert [refusal.reason for refusal in turn.refusals] == [Reason.OVER_WINDOW_BUDGET]
        turn.work.answer()
        turn.finish()
        assert spent(ledger) == 2 * own.epsilon


@pytest.mark.parametrize("before", [0, 1])
def test_charges_of_one_message_are_counted_together_against_the_epoch(
    own: DeviceSetup, ledger: Ledger, before: int
) -> None:
    """Before the record is read: the ledger would refuse them, but after an evaluation."""
    study = weekly(own, budget=2 * own.epsilon)
    device = own.device(ledger=ledger, studies=[study], refresh_days=7)
    own.now_s = WEEKLY.first * 7 * DAY
    payloads = three_questions(own, (study, study, study), WEEKLY.first)
    for payload in payloads[:before]:
        device.answer(payload)
    turn = device.begin(payloads[before:])
    assert [refusal.reason for refusal in turn.refusals] == [Reason.OVER_STUDY_BUDGET]
    turn.work.answer()
    turn.finish()
    assert spent(ledger) == 2 * own.epsilon


def three_questions(
    setup: DeviceSetup, studies: Sequence[SignedStudy], epoch: int = 0
) -> list[bytes]:
    """Payloads of three questions, each to one of three studies."""
    schema = setup.schema
    questions = (schema.smoker == 1, schema.height < 1, schema.colour == "red")
    return [
        setup.payload(study, predicate(question), round_=place, epoch=epoch)
        for place, (study, question) in enumerate(zip(studies, questions, strict=True))
    ]
