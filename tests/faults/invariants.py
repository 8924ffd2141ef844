"""Invariants of a deployment under any treatment, from durable state and recorded messages."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from askance_aggregator.learners import hypothesis_json
from askance_aggregator.store import Store, StudyState
from askance_aggregator.studies import Accounts, MemoryLog, Round, Session, Tally, Transcript
from askance_aggregator.studies.results import cohort_seed, figures
from askance_client.codec import decode_report, decode_study, digest_of
from askance_client.messages import AckStatus
from askance_simulation.disturbances.invariants import (
    check_accepted_once,
    check_charges,
    events,
)
from askance_simulation.disturbances.invariants import check_counted as stored_and_counted
from tests.faults.deployment import Deployment
from tests.faults.people import undisturbed

_ROUNDS = 12  # of check-ins by all devices, after which every study has come to an end


async def finish(deployment: Deployment) -> None:
    """End all faults: all devices check in until every study has ended.

    Revoked devices are restored; a round that waits for a forgotten one is closed by its operator.
    """
    await deployment.recover()
    for ordinal in sorted(deployment.out - deployment.forgotten):
        await deployment.change(ordinal, lambda register, which: register.restore(which))
    deployment.out = set(deployment.forgotten)
    for _ in range(_ROUNDS):  # a process may have been about to die
        if not open_studies(deployment):
            return
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()
        await deployment.recover()
        if deployment.forgotten:
            deployment.close_rounds()
            await deployment.settle()
    raise AssertionError("everybody checks in, and a study does not end")


def open_studies(deployment: Deployment) -> set[bytes]:
    """Return the studies that have not ended, as stored."""
    store = deployment.disk.store
    return set(store.studies()) - set(store.conclusions())


def check(deployment: Deployment) -> None:
    """Everything that must hold when every study has ended."""
    check_said(deployment)
    check_ledgers(deployment)
    check_ended(deployment)
    for digest in deployment.cancelled:
        assert deployment.disk.store.conclusions()[digest].state is StudyState.CANCELLED


def check_ended(deployment: Deployment) -> None:
    """Check the studies that have ended; of those that were collected, what is left."""
    store = deployment.disk.store
    ended = store.conclusions()
    for place in range(len(deployment.setup.plans)):
        digest = deployment.digest(place)
        if digest in ended:
            if not is_collected(store, digest):
                check_counted(deployment, digest)
            check_accounts(deployment, digest)
            check_result(deployment, place)


def is_collected(store: Store, digest: bytes) -> bool:
    """Return whether a study's reports were deleted."""
    kept = store.retention.of(digest)
    return kept is not None and kept.reports_deleted_unix_s is not None


def check_said(deployment: Deployment) -> None:
    """No request has a second name, and a report is accepted once."""
    named: dict[tuple[bytes, int, int], bytes] = {}
    accepted: Counter[tuple[int, bytes]] = Counter()
    setup, store = deployment.setup, deployment.disk.store
    for ordinal, response in deployment.recorder.responses:
        for payload in response.requests:
            request = setup.request(payload)
            place = (request.study_digest, request.round, request.group)
            assert named.setdefault(place, digest_of(payload)) == digest_of(payload)
            assert store.asked(digest_of(payload))
        for digest, status in response.acks:
            assert status in (AckStatus.ACCEPTED, AckStatus.DUPLICATE, AckStatus.LATE), status
            accepted[ordinal, digest] += status is AckStatus.ACCEPTED
            asked = store.asked(digest)
            assert asked is not None
            if status is not AckStatus.LATE and not is_collected(store, asked.study_digest):
                assert store.report(digest, ordinal) is not None
    check_accepted_once(accepted)


def check_ledgers(deployment: Deployment) -> None:
    """Check that no user is charged twice for a request or a question, nor above any budget."""
    budgets = {
        digest: decode_study(signed.study).budget_nano_nats
        for digest, signed in deployment.disk.store.studies().items()
    }
    for phone in deployment.phones:
        entries = list(deployment.disk.ledger(phone.ordinal).history())
        check_charges(phone.ordinal, entries, budgets)
        assert sum(entry.nano_nats for entry in entries) <= deployment.setup.life * 10**9
    check_frozen(deployment)


def check_frozen(deployment: Deployment) -> None:
    """A device that has answered a question answers it again for nothing, with the same symbol."""
    setup = deployment.setup
    for phone in deployment.phones:
        ledger = deployment.disk.ledger(phone.ordinal)
        answers: dict[bytes, list[tuple[bytes, int]]] = {}
        for entry in ledger.history():
            stored = ledger.stored(entry.request_digest)
            payload = _payload(deployment, entry.request_digest)
            assert stored is not None
            report, request = decode_report(stored), setup.request(payload)
            assert isinstance(report.outcome, bytes)
            question = request.query.digest(setup.schema) + request.randomizer.canonical
            answers.setdefault(question, []).append((report.outcome, entry.nano_nats))
        for given in answers.values():
            assert len({symbol for symbol, _ in given}) == 1
            assert [charge > 0 for _, charge in given] == [True] + [False] * (len(given) - 1)


def check_counted(deployment: Deployment, digest: bytes) -> None:
    """A closed round's tallies are the stored reports, each once; nothing is in conflict."""
    store = deployment.disk.store
    asked, closed = events(store, digest)
    for event in asked.values():
        for group in event.groups:
            assert list(store.evidence(digest_of(group.payload))) == []
    for number, end in closed.items():
        for group, tally in zip(asked[number].groups, end.tallies, strict=True):
            stored_and_counted(store, group, tally, deployment.setup.schema)


def check_accounts(deployment: Deployment, digest: bytes) -> None:
    """The study's account is what the ledgers say, but for answers that never came in time."""
    epsilon = _result(deployment, digest)["epsilon"]
    spent = []
    for phone in deployment.phones:
        ledger = deployment.disk.ledger(phone.ordinal)
        spent.append(ledger.totals(digest, 0).study)
    total, most = epsilon["total_spent_nano_nats"], epsilon["max_spent_nano_nats"]
    if _all_came(deployment, digest):
        assert (total, most) == (sum(spent), max(spent))
    assert total <= sum(spent)
    assert most <= max(spent) <= epsilon["max_asked_nano_nats"]


def check_result(deployment: Deployment, place: int) -> None:
    """The result follows from the transcript alone; undisturbed by anything but absence."""
    digest = deployment.digest(place)
    store, setup = deployment.disk.store, deployment.setup
    result = _result(deployment, digest)
    ended = store.conclusions()[digest]
    log = MemoryLog()
    for line in store.log(digest).lines():
        log.append(line)
    transcript = Transcript(log)
    assert result["transcript"] == transcript.digest
    assert {**result, **figures(transcript, setup.schema)} == result
    if ended.state is not StudyState.DONE:
        return
    assert result["reconciled"]
    again = Session(
        study=setup.signed(place),
        learner=setup.learner(setup.plans[place]),
        fleet=_Recorded(store.population()),
        log=log,
        cohort_seed=cohort_seed(digest),
        leaf_key=bytes(32),
    ).run()
    assert again.transcript == result["transcript"]
    assert json.loads(json.dumps(hypothesis_json(again.hypothesis))) == result["hypothesis"]
    all_asked = result["users"] == store.population()  # none was revoked when it began
    if all_asked and _all_came(deployment, digest) and not result["refusals"]:
        expected = undisturbed(setup, place)
        assert again.hypothesis == expected.hypothesis
        assert _counted(again) == _counted(expected)
        # Answers that were given to another study before are named in the transcript.
        assert result["reused"] or result["transcript"] == expected.transcript


def _counted(outcome: Any) -> list[list[Tally]]:
    """Tallies without the number of reused answers, which an undisturbed first study has not."""
    return [[replace(tally, reused=0) for tally in tallies] for tallies in outcome.tallies]


class _Recorded:
    """Fleet that sends no request: everything is in the transcript."""

    def __init__(self, population: int) -> None:
        self.population = population

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        raise AssertionError(f"round {round_.number} of a study that has ended is asked again")

    def recall(self, round_: Round, accounts: Accounts) -> None:
        """The accounts are checked elsewhere."""


def _all_came(deployment: Deployment, digest: bytes) -> bool:
    """Return whether every round closed with an answer or a refusal of every device."""
    asked, closed = events(deployment.disk.store, digest)
    return asked.keys() == closed.keys() and all(
        tally.answered + sum(count for _, count in tally.refusals) == tally.asked
        for event in closed.values()
        for tally in event.tallies
    )


def _payload(deployment: Deployment, request_digest: bytes) -> bytes:
    store = deployment.disk.store
    for digest in store.studies():
        for event in events(store, digest)[0].values():
            for group in event.groups:
                if digest_of(group.payload) == request_digest:
                    return group.payload
    raise AssertionError("a device has answered what no transcript has")


def _result(deployment: Deployment, digest: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(deployment.disk.store.conclusions()[digest].result_json)
    return found
