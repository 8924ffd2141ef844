"""Findings of an audit of a ledger's file; none in a sound file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from askance_client.cli.report import LedgerAudit
from askance_client.codec import encode_report
from askance_client.device import Policy
from askance_client.ledger import NO_HASH, Charge, Posting, PostingKind
from askance_client.messages import Report

POLICY = Policy(frozenset(), 100, day_nano_nats=70, study_nano_nats=80)


DAY = 86_400


def answer(number: int, cost: int, spent: int, member: str = "a", **changed: Any) -> Posting:
    """A sound answer, except for the changes in its charge; it is not chained yet."""
    digest = number.to_bytes(32, "big")
    charge = Charge(digest, b"s" * 32, digest, number * DAY, cost, b"y")
    report = encode_report(Report(digest, b"y", cost, spent))
    return Posting(0, member, b"", 0, PostingKind.ANSWER, charge._replace(**changed), report, b"")


SOUND = (answer(1, 60, 60), answer(2, 20, 80), answer(1, 70, 70, "b"))


def chained(*postings: Posting) -> Iterator[Posting]:
    """The same rows with places, sequence numbers and hashes as a file has them."""
    chains: dict[str, tuple[int, bytes]] = {}
    for place, posting in enumerate(postings, start=1):
        last, before = chains.get(posting.member, (0, NO_HASH))
        placed = replace(posting, place=place, sequence=last + 1)
        chains[posting.member] = (last + 1, placed.hash(before))
        yield replace(placed, chained=placed.hash(before))


def findings(*postings: Posting) -> list[str]:
    audit = LedgerAudit(POLICY)
    return [what for one in postings for what in audit.take(one)]


def test_sound_answers_have_no_violation() -> None:
    assert findings(*chained(*SOUND)) == []


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (answer(4, 1, 81), "expected at most 80 nano-nats per study, found 81"),
        (answer(2, 60, 140, study_digest=b"t" * 32), "nano-nats per life, found 140"),
        (answer(2, 60, 60, "b", study_digest=b"t" * 32), "nano-nats per life, found 130"),
        (answer(1, 11, 11, "b", study_digest=b"t" * 32), "nano-nats per day, found 81"),
        (answer(4, 2, 81, nano_nats=1), "expected a report of 1 nano-nats charged, found 2"),
        (answer(4, 1, 80), "expected a report of 81 nano-nats spent by the study, found 80"),
        (answer(4, 1, 81, symbol=b"n"), "to carry the symbol that was charged"),
        (answer(4, 1, 81, request_digest=bytes(32)), "expected a report on this request"),
        (answer(4, 5, 85, question=(1).to_bytes(32, "big")), "to be charged once"),
        (replace(answer(4, 1, 81), report=b"\xff"), "expected a report: "),
    ],
)
def test_a_row_that_no_device_writes_is_found(bad: Posting, message: str) -> None:
    assert any(message in what for what in findings(*chained(*SOUND, bad)))


@pytest.mark.parametrize("missing", [0, 1])
def test_deleted_rows_are_found(missing: int) -> None:
    rows = list(chained(*SOUND))
    del rows[missing]
    assert any("expected row" in what for what in findings(*rows))


@pytest.mark.parametrize("stored", [bytes(32), b"\xff" * 32])
def test_a_hash_that_was_changed_is_found(stored: bytes) -> None:
    rows = list(chained(*SOUND))
    rows[2] = replace(rows[2], chained=stored)
    assert findings(*rows) == ["expected the hash of this row and those before it, found another"]


def test_a_row_that_was_changed_is_found() -> None:
    rows = list(chained(*SOUND))
    rows[0] = replace(rows[0], charge=rows[0].charge._replace(at_s=DAY + 1))
    assert "expected the hash of this row and those before it, found another" in findings(*rows)
