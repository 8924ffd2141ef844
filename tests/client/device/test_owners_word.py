"""The owner's word at the time of a charge, and studies that two analysts signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askance_client.codec import decode_report, digest_of
from askance_client.device import ExaminedStudy, Examiner
from askance_client.device.examination import Known
from askance_client.messages import Reason, Refusal

if TYPE_CHECKING:
    from tests.client.device.conftest import DeviceSetup

WAITING, DENIED = Refusal(Reason.WAITING, "later"), Refusal(Reason.NOT_APPROVED, "no")


class Owner:
    """A consent that says what was last decided, by analyst."""

    def __init__(self, word: Refusal | None = None) -> None:
        self.word = word
        self.by_key: dict[bytes, Refusal | None] = {}

    def __call__(self, study: ExaminedStudy, payload: bytes, at_s: int) -> Refusal | None:
        return self.by_key.get(study.public_key, self.word)


@pytest.mark.parametrize("word", [DENIED, WAITING])
def test_a_denial_while_an_answer_is_evaluated_stops_its_charge(
    setup: DeviceSetup, word: Refusal
) -> None:
    """Also of a repetition of the question in the same message; a denial leaves as its reason."""
    owner = Owner()
    study = setup.study()
    device = setup.device(studies=[study], consent=owner)
    payloads = (setup.payload(study), setup.payload(study, round_=1))
    turn = device.begin(payloads)
    turn.work.answer()
    owner.word = word
    reports = turn.finish()
    assert list(device.ledger.history()) == []
    if word is WAITING:
        assert reports == {}
    else:
        outcomes = {decode_report(report).outcome for report in reports.values()}
        assert (set(reports), outcomes) == (
            {digest_of(payload) for payload in payloads},
            {Refusal(Reason.NOT_APPROVED)},
        )
    owner.word = None
    assert isinstance(setup.answer(device, payloads[0]).outcome, bytes)


@pytest.mark.parametrize("first", ["approved", "other"])
@pytest.mark.parametrize("other", [WAITING, DENIED])
def test_another_analysts_copy_of_a_study_does_not_displace_the_approved_one(
    setup: DeviceSetup, first: str, other: Refusal
) -> None:
    keys = {"approved": setup.key, "other": setup.stranger}
    public = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    owner = Owner()
    owner.by_key = {public["approved"]: None, public["other"]: other}
    second = "other" if first == "approved" else "approved"
    copies = [setup.study(key=keys[name]) for name in (first, second, first)]
    device = setup.device(studies=copies, consent=owner, analysts=frozenset(public.values()))
    assert len(device.known_studies) == 1
    assert isinstance(setup.answer(device, setup.payload(copies[0])).outcome, bytes)
    owner.by_key[public["approved"]] = DENIED
    turn = device.begin((setup.payload(copies[0], round_=1),))
    assert [refusal.reason for refusal in turn.refusals] == [other.reason]
    turn.close()


@pytest.mark.parametrize("word", [DENIED, WAITING])
def test_a_stored_report_does_not_leave_against_the_owners_word(
    setup: DeviceSetup, word: Refusal
) -> None:
    """Once the owner agrees again, the same bytes leave: the report may never have arrived."""
    owner = Owner()
    study = setup.study()
    device = setup.device(studies=[study], consent=owner)
    payload = setup.payload(study)
    stored = device.answer(payload)
    owner.word = word
    turn = device.begin((payload,))
    assert [refusal.reason for refusal in turn.refusals] == [word.reason]
    reports = turn.finish()
    if word is WAITING:
        assert reports == {}
    else:
        assert [decode_report(one).outcome for one in reports.values()] == [
            Refusal(Reason.NOT_APPROVED)
        ]
    owner.word = None
    assert device.answer(payload) == stored


def test_a_stored_report_of_a_study_that_is_not_shown_again_does_not_leave(
    setup: DeviceSetup,
) -> None:
    """A restarted device knows no study, so it cannot ask its owner about this one."""
    owner = Owner()
    study = setup.study()
    device = setup.device(studies=[study], consent=owner)
    payload = setup.payload(study)
    stored = device.answer(payload)
    owner.word = DENIED
    restarted = setup.device(studies=[], consent=owner, ledger=device.ledger)
    assert setup.answer(restarted, payload).outcome == Refusal(Reason.UNKNOWN_STUDY)
    owner.word = None
    restarted.introduce(study)
    assert restarted.answer(payload) == stored


@pytest.mark.parametrize("word", [DENIED, WAITING])
def test_a_request_that_is_refused_by_now_is_not_answered_from_the_ledger_against_the_owners_word(
    setup: DeviceSetup, word: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version of the client answered what this one finds invalid."""
    owner = Owner()
    study = setup.study()
    device = setup.device(studies=[study], consent=owner)
    payload = setup.payload(study)
    stored = device.answer(payload)
    invalid = Refusal(Reason.INVALID_RANDOMIZER, "by now")
    known = Known(digest_of(payload), digest_of(study.study), invalid)
    monkeypatch.setattr(Examiner, "known", lambda *_: known)
    assert device.answer(payload) == stored
    owner.word = word
    turn = device.begin((payload,))
    assert [refusal.reason for refusal in turn.refusals] == [word.reason]
    turn.close()
