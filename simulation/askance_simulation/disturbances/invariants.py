"""Invariants under faults, checked on what is durable and on what devices received.

No report is counted twice; no device is past its budget, or charged twice for a request; an answer
is that of the reports that arrived, which are the devices' own, byte for byte; and the transcript
alone leads to the same result again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from askance_aggregator.families import family_of
from askance_aggregator.store import Store
from askance_aggregator.studies import Outcome, Session, Tally, Transcript
from askance_aggregator.studies.transcript import Asked, AskedGroup, Closed
from askance_client.codec import decode_report, decode_request, decode_study, digest_of
from askance_client.errors import AskanceError
from askance_client.ledger import Entry, Ledger
from askance_client.messages import Refusal, Report
from askance_client.queries import Schema
from askance_client.randomizers import Randomizer

T = TypeVar("T")


class BrokenInvariant(AskanceError):
    """Something does not hold that must, whatever goes wrong: a defect of this system."""


def check_store(
    store: Store, ledger: Callable[[int], Ledger], accepted: Mapping[tuple[int, bytes], int]
) -> None:
    """Check all invariants of a store's studies and of the ledgers of devices that answered."""
    check_accepted_once(accepted)
    budgets: dict[bytes, int] = {}
    refused: dict[int, set[bytes]] = {}
    for digest, signed in store.studies().items():
        terms = decode_study(signed.study)
        budgets[digest] = terms.budget_nano_nats
        asked, closed = events(store, digest)
        for number, end in closed.items():
            for group, tally in zip(asked[number].groups, end.tallies, strict=True):
                check_counted(store, group, tally, terms.schema)
                for ordinal, no in check_same_bytes(store, group, ledger, terms.schema).items():
                    refused.setdefault(ordinal, set()).update([digest_of(group.payload)] * no)
    for ordinal in sorted(refused):
        check_charges(ordinal, ledger(ordinal).history(), budgets, refused[ordinal])


def check_accepted_once(accepted: Mapping[tuple[int, bytes], int]) -> None:
    """Check that each report is accepted once, and its later deliveries as duplicates."""
    for (ordinal, digest), times in accepted.items():
        if times > 1:
            raise _broken(f"device {ordinal}, request {digest.hex()[:8]}", "accepted once", times)


def check_charges(
    ordinal: int,
    history: Iterable[Entry],
    budgets: Mapping[bytes, int],
    refused: Collection[bytes] = (),
) -> None:
    """Check that no device is charged twice, for a refusal, or above a study's budget."""
    requests: set[bytes] = set()
    spent: Counter[bytes] = Counter()
    for entry in history:
        if entry.request_digest in requests:
            raise _broken(f"device {ordinal}", "one charge a request", "two")
        if entry.request_digest in refused:
            raise _broken(f"device {ordinal}", "no charge for what it refused", "one")
        requests.add(entry.request_digest)
        spent[entry.study_digest] += entry.nano_nats
    for study, nano_nats in spent.items():
        if nano_nats > budgets[study]:
            raise _broken(f"device {ordinal}", f"at most {budgets[study]} nano-nats", nano_nats)


def check_counted(store: Store, group: AskedGroup, tally: Tally, schema: Schema) -> None:
    """Check that a closed round's tally counts the stored reports once, without conflict."""
    digest = digest_of(group.payload)
    where = f"request {digest.hex()[:8]}"
    if any(True for _ in store.evidence(digest)):
        raise _broken(where, "no two different reports of one device", "some")
    randomizer = decode_request(group.payload, schema).randomizer
    stored = list(store.reports(digest))
    if len({ordinal for ordinal, _ in stored}) < len(stored):
        raise _broken(where, "one report per device", "more")
    outcomes = [decode_report(data).outcome for _, data in stored]
    symbols = [outcome for outcome in outcomes if isinstance(outcome, bytes)]
    refusals = Counter(one.reason for one in outcomes if isinstance(one, Refusal))
    if tally.answered != len(symbols):
        raise _broken(where, f"{len(symbols)} answers counted", tally.answered)
    if tally.counts != tallied(randomizer, symbols):
        raise _broken(where, "the counts of the stored reports", "others")
    if dict(tally.refusals) != dict(refusals):
        raise _broken(where, f"{refusals.total()} refusals counted", dict(tally.refusals))


def check_same_bytes(
    store: Store, group: AskedGroup, ledger: Callable[[int], Ledger], schema: Schema
) -> dict[int, bool]:
    """Check that a stored answer is the one that its device's ledger holds.

    A reused answer has no row: it costs nothing, and its symbol is the one that was frozen.

    Returns:
      Whose report is stored, and whether it is a refusal.
    """
    digest = digest_of(group.payload)
    request = decode_request(group.payload, schema)
    named = request.query.digest(schema) + request.randomizer.canonical
    question = hashlib.sha256(named).digest()
    found: dict[int, bool] = {}
    for ordinal, data in store.reports(digest):
        report: Report = decode_report(data)
        found[ordinal] = isinstance(report.outcome, Refusal)  # which the ledger does not keep
        if found[ordinal]:
            continue
        held = ledger(ordinal).standing(digest, question, request.study_digest, 0)
        reused = Report(digest, held.frozen or b"", 0, 0, 0)
        if data != held.report and report != reused:
            raise _broken(f"device {ordinal}", "the bytes that its ledger holds", "others")
    return found


def check_replay(session: Session[T], outcome: Outcome[T]) -> None:
    """Check that the transcript and the stored reports lead to the same result without a user."""
    if session.run() != outcome:
        raise _broken("replay", "the same result as the study had", "another")


def events(store: Store, study: bytes) -> tuple[dict[int, Asked], dict[int, Closed]]:
    """Return a study's asked and closed rounds as its transcript records them, by number."""
    recorded = Transcript(store.log(study)).recorded
    asked = {event.round: event for event in recorded if isinstance(event, Asked)}
    closed = {event.round: event for event in recorded if isinstance(event, Closed)}
    if len(asked) + len(closed) + 1 != max(len(recorded), 1):
        raise _broken("transcript", "every round asked once and closed once", "more")
    return asked, closed


def tallied(randomizer: Randomizer, symbols: list[bytes]) -> tuple[int, ...]:
    """Compute the tally of these symbols."""
    table = np.frombuffer(b"".join(symbols), np.uint8).reshape(len(symbols), randomizer.width)
    return tuple(int(count) for count in family_of(randomizer).tally(table))


def _broken(where: str, expected: str, found: Any) -> BrokenInvariant:
    return BrokenInvariant(f"{where}: expected {expected}, got {found}")
