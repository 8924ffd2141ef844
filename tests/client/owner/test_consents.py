"""Decisions of an owner: a study that waits is held, and an approval is of one study by one key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.queries import predicate
from askance_client.codec import decode_report, digest_of
from askance_client.device import Device, TooManyRefusals
from askance_client.errors import InvalidParameter, StoreFailed
from askance_client.messages import Reason, Refusal, SignedStudy
from askance_client.owner import ConsentRule, Consents
from askance_client.owner.consents import (
    MAX_DAYS,
    MAX_QUESTION_BYTES,
    MAX_QUESTIONS,
    MAX_WAITING,
    MAX_WHY,
    Verdict,
)
from askance_client.queries import EncodedRecord
from tests.client.device.conftest import DAY, KEY, NOW, RECORD, SCHEMA, STRANGER, DeviceSetup

if TYPE_CHECKING:
    from collections.abc import Callable

PINNED = frozenset({KEY.public_key().public_bytes_raw(), STRANGER.public_key().public_bytes_raw()})


class Counted:
    """Record source that counts how often it is read."""

    def __init__(self, record: EncodedRecord) -> None:
        self.record, self.loads = record, 0

    def load(self) -> EncodedRecord:
        self.loads += 1
        return self.record


@pytest.fixture
def setup() -> DeviceSetup:
    return DeviceSetup()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Consents]]:
    """Opens the file, after closing it as another process would."""
    files: list[Consents] = []

    def reopen(rule: ConsentRule = ConsentRule.ASK) -> Consents:
        while files:
            files.pop().close()
        files.append(Consents.open(tmp_path / "consents.sqlite", rule))
        return files[-1]

    yield reopen
    while files:
        files.pop().close()


def asked(setup: DeviceSetup, device: Device, payload: bytes) -> tuple[str, tuple[Reason, ...]]:
    """Return what became of a request (a refusal's reason), and the reasons in the log."""
    turn = device.begin((payload,))
    turn.work.answer()
    reasons = tuple(refusal.reason for refusal in turn.refusals)
    report = turn.finish().get(digest_of(payload))
    if report is None:
        return "held", reasons
    outcome = decode_report(report).outcome
    return ("answered" if isinstance(outcome, bytes) else outcome.reason.name), reasons


def asking(setup: DeviceSetup, consents: Consents, *studies: SignedStudy, **more: Any) -> Device:
    return setup.device(RECORD, studies=studies, consent=consents, analysts=PINNED, **more)


def test_a_study_that_waits_sends_nothing_charges_nothing_and_reads_no_record(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents, study = opened(), setup.study()
    device = asking(setup, consents, study)
    source = device._record = Counted(SCHEMA.encode(RECORD))
    payload = setup.payload(study)
    turn = device.begin((payload,))
    assert not turn.pending  # nothing would be evaluated
    turn.close()
    assert asked(setup, device, payload) == ("held", (Reason.WAITING,))
    with pytest.raises(TooManyRefusals):
        device.answer(payload)
    assert (source.loads, list(device.ledger.history())) == (0, [])
    (waiting,) = consents.waiting(NOW)
    assert (waiting.digest, waiting.questions) == (digest_of(study.study), (payload,))
    consents.approve(waiting, NOW, None)
    assert asked(setup, device, payload) == ("answered", ())
    assert source.loads == 1
    assert len(list(device.ledger.history())) == 1


def test_what_is_held_is_the_same_for_every_record(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    study, told = setup.study(), []
    for record in (RECORD, {"smoker": 0}, {}):
        device = setup.device(record, studies=(study,), consent=opened(), analysts=PINNED)
        turn = device.begin((setup.payload(study),))
        told.append((turn.refusals, turn.pending, turn.work.weight, turn.finish()))
    assert told[0] == told[1] == told[2]


def test_an_approval_is_of_these_bytes_by_this_key(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    """A study that was altered, has the same name, or another key is asked about again."""
    consents, study = opened(), setup.study()
    same_bytes = setup.study(key=STRANGER)
    others = [
        setup.study(budget=200 * setup.epsilon),  # the same purpose, learner and nonce
        setup.study(expires=NOW + 2 * DAY),
        setup.study(nonce=1),
        setup.study(fields=("smoker",)),
    ]
    assert same_bytes.study == study.study
    device = asking(setup, consents, study, *others)
    asked(setup, device, setup.payload(study))
    consents.approve(consents.named(digest_of(study.study).hex()), NOW, None)
    assert asked(setup, device, setup.payload(study))[0] == "answered"
    for number, other in enumerate(others):
        payload = setup.payload(other, round_=number + 1)
        assert asked(setup, device, payload)[0] == "held", number
    alone = asking(setup, consents, same_bytes)
    assert asked(setup, alone, setup.payload(study, round_=9))[0] == "held"
    assert device.introduce(same_bytes) is None  # beside the approved one
    assert asked(setup, device, setup.payload(study, round_=9))[0] == "answered"
    assert len(list(device.ledger.history())) == 1
    with pytest.raises(InvalidParameter, match="by the analysts"):
        consents.named(digest_of(study.study).hex())
    by_key = consents.named(digest_of(study.study).hex(), STRANGER.public_key().public_bytes_raw())
    assert by_key.decision is None


def test_a_forged_signature_or_request_does_not_use_an_approval(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents, study, other = opened(), setup.study(), setup.study(nonce=1)
    device = asking(setup, consents, study, other)
    asked(setup, device, setup.payload(study))
    consents.approve(consents.named(digest_of(study.study).hex()), NOW, None)
    forged = SignedStudy(other.study, study.public_key, study.signature)
    refusal = device.introduce(forged)
    assert refusal is not None
    assert refusal.reason is Reason.BAD_SIGNATURE
    assert asked(setup, device, setup.payload(other))[0] == "held"


def test_a_frozen_answer_is_not_given_to_a_study_that_waits(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents, first, second = opened(), setup.study(), setup.study(nonce=1)
    device = asking(setup, consents, first, second)
    asked(setup, device, setup.payload(first))
    consents.approve(consents.named(digest_of(first.study).hex()), NOW, None)
    assert asked(setup, device, setup.payload(first))[0] == "answered"
    assert asked(setup, device, setup.payload(second))[0] == "held"
    assert asked(setup, device, setup.payload(first))[0] == "answered"  # the stored bytes again


def test_a_decision_survives_a_restart(setup: DeviceSetup, opened: Callable[..., Consents]) -> None:
    consents, yes, no = opened(), setup.study(), setup.study(nonce=1)
    device = asking(setup, consents, yes, no)
    for study in (yes, no):
        asked(setup, device, setup.payload(study))
    consents.approve(consents.named(digest_of(yes.study).hex()), NOW, None, "helps my town")
    consents.deny(consents.named(digest_of(no.study).hex()), NOW, "asks too much")
    device = asking(setup, opened(), yes, no)
    assert asked(setup, device, setup.payload(yes))[0] == "answered"
    assert asked(setup, device, setup.payload(no)) == ("NOT_APPROVED", (Reason.NOT_APPROVED,))
    kept = opened().named(digest_of(no.study).hex())
    assert kept.decision is not None
    assert (kept.decision.verdict, kept.decision.why) == (Verdict.DENIED, "asks too much")
    assert kept.questions == (setup.payload(no),)


@pytest.mark.parametrize("last", [Verdict.DENIED, Verdict.APPROVED])
def test_the_latest_of_several_decisions_holds_after_a_restart_too(
    setup: DeviceSetup, opened: Callable[..., Consents], last: Verdict
) -> None:
    consents, study = opened(), setup.study()
    asked(setup, asking(setup, consents, study), setup.payload(study))
    (other,) = set(Verdict) - {last}
    for verdict in (other, other, last):
        known = consents.named(digest_of(study.study).hex())
        if verdict is Verdict.APPROVED:
            consents.approve(known, NOW, None)
        else:
            consents.deny(known, NOW)
    for now in (consents, opened()):
        found = asked(setup, asking(setup, now, study), setup.payload(study))[0]
        assert found == ("answered" if last is Verdict.APPROVED else "NOT_APPROVED")


def test_an_approval_that_has_ended_is_not_revived_by_a_clock_that_is_corrected(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    """Decisions are held against the charge's time, which stands still meanwhile."""
    consents, brief, other = opened(), setup.study(expires=NOW + 9 * DAY), setup.study(nonce=1)
    device = asking(setup, consents, brief, other)
    for study in (brief, other):
        asked(setup, device, setup.payload(study))
    consents.approve(consents.named(digest_of(brief.study).hex()), NOW - DAY + 30, 1)
    consents.approve(consents.named(digest_of(other.study).hex()), NOW, None)
    setup.now_s = NOW + 30  # the brief approval has ended
    assert asked(setup, device, setup.payload(other))[0] == "answered"
    setup.now_s = NOW + 29
    tall = setup.payload(brief, predicate(setup.schema.height > 1), round_=1)
    assert asked(setup, device, tall) == ("held", (Reason.WAITING,))  # and it is not evaluated


def test_an_approval_ends_and_the_study_is_asked_about_again(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents, study = opened(), setup.study(expires=NOW + 10 * DAY)
    device = asking(setup, consents, study)
    asked(setup, device, setup.payload(study))
    known = consents.approve(consents.waiting(NOW)[0], NOW, 2)
    assert known.decision is not None
    assert known.decision.until_s == NOW + 2 * DAY
    setup.now_s = NOW + 2 * DAY - 1
    assert asked(setup, device, setup.payload(study))[0] == "answered"
    setup.now_s = NOW + 2 * DAY
    assert asked(setup, device, setup.payload(study, round_=1))[0] == "held"
    assert [known.digest for known in consents.waiting(setup.now_s)] == [digest_of(study.study)]
    setup.now_s = NOW + 10 * DAY  # the study's own end: there is nothing left to decide
    assert asked(setup, device, setup.payload(study, round_=2))[0] == "EXPIRED"
    assert consents.waiting(setup.now_s) == ()
    with pytest.raises(InvalidParameter, match="expired"):
        consents.approve(known, setup.now_s, None)


def test_an_approval_never_outlasts_its_study(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents, study = opened(), setup.study(expires=NOW + DAY)
    asked(setup, asking(setup, consents, study), setup.payload(study))
    decision = consents.approve(consents.waiting(NOW)[0], NOW, MAX_DAYS).decision
    assert decision is not None
    assert decision.until_s == NOW + DAY
    for days in (0, MAX_DAYS + 1):
        with pytest.raises(InvalidParameter, match="days"):
            consents.approve(consents.studies()[0], NOW, days)


def test_by_default_pinned_studies_are_answered_and_a_denied_one_is_not(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents, study = opened(ConsentRule.PINNED), setup.study()
    device = asking(setup, consents, study)
    assert asked(setup, device, setup.payload(study))[0] == "answered"
    assert consents.waiting(NOW) == ()
    consents.deny(consents.named(digest_of(study.study).hex()[:8]), NOW)
    colour = setup.payload(study, round_=1)
    assert asked(setup, device, colour)[0] == "NOT_APPROVED"
    stored = setup.payload(study)  # its report may never have arrived
    assert asked(setup, device, stored)[0] == "NOT_APPROVED"


def test_no_flood_of_studies_grows_the_file_past_its_bounds(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents = opened()
    for nonce in range(MAX_WAITING + 3):
        study = setup.study(nonce)
        device = asking(setup, consents, study)
        for round_ in range(MAX_QUESTIONS + 2 if nonce == 0 else 1):
            assert asked(setup, device, setup.payload(study, round_=round_))[0] == "held"
    assert len(consents.waiting(NOW)) == MAX_WAITING
    assert len(consents.studies()[0].questions) == MAX_QUESTIONS
    assert len(opened().studies()) == MAX_WAITING
    fresh = setup.study(nonce=10**6, expires=NOW + 3 * DAY)
    setup.now_s = NOW + DAY  # the others have expired: there is room
    consents = opened()
    asked(setup, asking(setup, consents, fresh), setup.payload(fresh))
    assert [known.digest for known in consents.waiting(setup.now_s)] == [digest_of(fresh.study)]


def test_a_question_is_kept_up_to_its_size(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents = opened()
    for nonce, size in enumerate((MAX_QUESTION_BYTES, MAX_QUESTION_BYTES + 1)):
        examined = setup.examiner.study(setup.study(nonce))
        assert not isinstance(examined, Refusal)
        assert consents(examined, bytes(size), NOW) is not None  # held in both cases
    assert [len(known.questions) for known in consents.studies()] == [1, 0]


def test_a_decision_that_is_not_durable_is_not_in_force(
    setup: DeviceSetup, opened: Callable[..., Consents]
) -> None:
    consents, study = opened(), setup.study()
    device = asking(setup, consents, study)
    asked(setup, device, setup.payload(study))
    consents._file.connection.execute("PRAGMA query_only=ON")  # as a disk that takes no more
    with pytest.raises(StoreFailed, match="nothing was decided"):
        consents.approve(consents.waiting(NOW)[0], NOW, None)
    assert asked(setup, device, setup.payload(study))[0] == "held"


@pytest.mark.parametrize("name", ["", "abc", "zz" * 8, "00000000"])
def test_a_name_that_fits_no_study_is_one_clear_error(
    opened: Callable[..., Consents], name: str
) -> None:
    with pytest.raises(InvalidParameter, match="first 8 digits"):
        opened().named(name)


def test_a_reason_is_one_short_line(setup: DeviceSetup, opened: Callable[..., Consents]) -> None:
    consents, study = opened(), setup.study()
    asked(setup, asking(setup, consents, study), setup.payload(study))
    for why in ("x" * (MAX_WHY + 1), "two\nlines", "\x1b[2J"):
        with pytest.raises(InvalidParameter, match="why"):
            consents.deny(consents.studies()[0], NOW, why)
    assert consents.studies()[0].decision is None
    decided = consents.deny(consents.studies()[0], NOW, "x" * MAX_WHY).decision
    assert decided is not None
    assert decided.why == "x" * MAX_WHY
