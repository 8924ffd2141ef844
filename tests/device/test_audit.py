"""What an audit of a ledger's file finds, and that it finds nothing in a sound one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from askance.client.codec import encode_report
from askance.client.device import Audit, Policy
from askance.client.ledger import Answer, Charge
from askance.client.messages import Report

POLICY = Policy(frozenset(), 100, day_nano_nats=70, study_nano_nats=80)


def answer(number: int, cost: int, spent: int, member: str = "a", **changed: Any) -> Answer:
    """A sound answer, but for what is changed in its charge."""
    digest = number.to_bytes(32, "big")
    charge = Charge(digest, b"s" * 32, digest, number, cost, b"y")
    report = encode_report(Report(digest, b"y", cost, spent))
    return Answer(member, replace(charge, **changed), report)


SOUND = (answer(1, 60, 60), answer(2, 20, 80), answer(1, 70, 70, "b"), answer(3, 0, 80))


def found(*answers: Answer) -> list[str]:
    audit = Audit(POLICY)
    return [what for one in answers for what in audit.take(one)]


def test_sound_answers_are_none_of_them_objected_to() -> None:
    assert found(*SOUND) == []


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (answer(4, 1, 81), "expected at most 80 nano-nats a study, found 81"),
        (answer(2, 60, 140, study_digest=b"t" * 32), "nano-nats a life, found 140"),
        (answer(2, 60, 60, "b", study_digest=b"t" * 32), "nano-nats a life, found 130"),
        (answer(1, 11, 11, "b", study_digest=b"t" * 32), "nano-nats a day, found 81"),
        (answer(4, 0, 80, nano_nats=1), "expected a report of 1 nano-nats charged, found 0"),
        (answer(4, 0, 79), "expected a report of 80 nano-nats spent by the study, found 79"),
        (answer(4, 0, 80, symbol=b"n"), "to carry the symbol that was charged"),
        (answer(4, 0, 80, request_digest=bytes(32)), "expected a report on this request"),
        (answer(4, 0, 80, question=(1).to_bytes(32, "big"), symbol=b"n"), "to be answered alike"),
        (answer(4, 5, 85, question=(1).to_bytes(32, "big")), "to cost nothing"),
        (replace(answer(4, 0, 80), report=b"\xff"), "expected a report: "),
    ],
)
def test_what_no_device_writes_is_found(bad: Answer, message: str) -> None:
    assert any(message in what for what in found(*SOUND, bad))
