"""Limits of a study besides its budget: the number of answers, and the work per day."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from askance_aggregator.encoding import encode_study
from askance_aggregator.queries import predicate
from askance_client.codec import decode_study
from askance_client.device import Device
from askance_client.ledger import Ledger, LedgerFile
from askance_client.messages import Reason, Repeat, SignedStudy
from askance_protos.v1 import study_pb2
from askance_simulation.fleets.memory_ledger import MemoryLedger

if TYPE_CHECKING:
    from tests.client.device.conftest import DeviceSetup

DAY = 86_400
LATER = 40_000 * DAY
# Of `colour == label`: three nodes, two arguments and a constant; and 16 of a draw.
WEIGHT = 6 + 16


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    return LedgerFile.create(tmp_path / "ledger").ledger()


@pytest.fixture
def own(setup: DeviceSetup) -> DeviceSetup:
    """A setup of the test's own, whose clock it may set."""
    return type(setup)()


def questions(setup: DeviceSetup, study: SignedStudy, epoch: int = 0) -> list[bytes]:
    """Three questions that are not each other's."""
    colour = setup.schema.colour
    return [
        setup.payload(study, predicate(colour == label), epoch=epoch)
        for label in ("red", "green", "blue")
    ]


def refused(device: Device, payloads: Sequence[bytes]) -> list[Reason]:
    """Ask in one message, and return the reasons of the refusals."""
    turn = device.begin(payloads)
    turn.work.answer()
    turn.finish()
    return [refusal.reason for refusal in turn.refusals]


class TestAnswers:
    @pytest.mark.parametrize(("owner", "signed"), [(2, 4_096), (4_096, 2), (2, 2)])
    @pytest.mark.parametrize("at_once", [False, True])
    def test_a_study_has_so_many_in_all(
        self, setup: DeviceSetup, ledger: Ledger, owner: int, signed: int, at_once: bool
    ) -> None:
        study, other = setup.study(answers=signed), setup.study(1, answers=signed)
        device = setup.device(studies=[study, other], ledger=ledger, study_answers=owner)
        asked = questions(setup, study)
        messages = [asked] if at_once else [[payload] for payload in asked]
        reasons = [reason for message in messages for reason in refused(device, message)]
        assert reasons == [Reason.OVER_STUDY_BUDGET]
        assert len(list(ledger.history())) == 2
        assert refused(device, asked[:2]) == []  # a retry is answered
        assert setup.answer(device, setup.payload(other)).charged_nano_nats == setup.epsilon

    def test_a_frozen_answer_is_none_of_them(self, setup: DeviceSetup, ledger: Ledger) -> None:
        study = setup.study(answers=1)
        device = setup.device(studies=[study], ledger=ledger)
        assert setup.answer(device, setup.payload(study)).charged_nano_nats == setup.epsilon
        again = setup.answer(device, setup.payload(study, round_=1))
        assert again.charged_nano_nats == 0
        assert isinstance(again.outcome, bytes)

    def test_all_epochs_of_a_study_have_so_many_together(
        self, own: DeviceSetup, ledger: Ledger
    ) -> None:
        repeat = Repeat(7, 4, 20_000 // 7)
        study = own.study(repeat=repeat, expires=LATER, answers=2)
        device = own.device(studies=[study], ledger=ledger, refresh_days=1)
        for epoch in repeat.indices[:2]:
            own.now_s = epoch * 7 * DAY
            assert refused(device, [own.payload(study, epoch=epoch)]) == []
        own.now_s = repeat.indices[2] * 7 * DAY
        last = own.payload(study, epoch=repeat.indices[2])
        assert refused(device, [last]) == [Reason.OVER_STUDY_BUDGET]

    def test_a_restart_forgets_none(self, setup: DeviceSetup, tmp_path: Path) -> None:
        study = setup.study(answers=1)
        asked = questions(setup, study)
        ledger = LedgerFile.create(tmp_path / "ledger").ledger()
        assert refused(setup.device(studies=[study], ledger=ledger), asked[:1]) == []
        ledger.close()
        again = setup.device(studies=[study], ledger=LedgerFile.open(tmp_path / "ledger").ledger())
        assert refused(again, asked) == [Reason.OVER_STUDY_BUDGET] * 2

    def test_a_study_that_signs_the_default_has_the_bytes_that_it_had(
        self, setup: DeviceSetup
    ) -> None:
        data = setup.study().study
        assert study_pb2.Study.FromString(data).most_answers == 0
        assert decode_study(data).most_answers == 4_096

    def test_a_number_that_is_signed_is_read_back(self, setup: DeviceSetup) -> None:
        terms = decode_study(setup.study(answers=5).study)
        assert terms.most_answers == 5
        assert study_pb2.Study.FromString(encode_study(terms)).most_answers == 5


class TestWork:
    @pytest.mark.parametrize("at_once", [False, True])
    def test_a_study_has_so_much_per_day(
        self, own: DeviceSetup, ledger: Ledger, at_once: bool
    ) -> None:
        """The limit may be reached; another study has work of its own, and so has another day."""
        study, other = own.study(expires=LATER), own.study(1, expires=LATER)
        device = own.device(studies=[study, other], ledger=ledger, study_work=2 * WEIGHT)
        asked = questions(own, study)
        messages = [asked] if at_once else [[payload] for payload in asked]
        reasons = [reason for message in messages for reason in refused(device, message)]
        assert reasons == [Reason.OVER_DAY_BUDGET]
        assert refused(device, asked[:2]) == []  # a retry is no work
        assert refused(device, [own.payload(other)]) == []
        own.now_s += DAY
        assert refused(device, asked) == []

    def test_one_more_than_the_limit_is_refused(self, setup: DeviceSetup, ledger: Ledger) -> None:
        study = setup.study()
        device = setup.device(studies=[study], ledger=ledger, study_work=2 * WEIGHT - 1)
        assert refused(device, questions(setup, study)) == [Reason.OVER_DAY_BUDGET] * 2

    def test_a_restart_forgets_none(self, setup: DeviceSetup, tmp_path: Path) -> None:
        """A device that is started for each check-in would have no limit otherwise."""
        study = setup.study()
        asked = questions(setup, study)
        ledger = LedgerFile.create(tmp_path / "ledger").ledger()
        first = setup.device(studies=[study], ledger=ledger, study_work=WEIGHT)
        assert refused(first, asked[:1]) == []
        ledger.close()
        reopened = LedgerFile.open(tmp_path / "ledger").ledger()
        again = setup.device(studies=[study], ledger=reopened, study_work=WEIGHT)
        assert refused(again, asked) == [Reason.OVER_DAY_BUDGET] * 2
