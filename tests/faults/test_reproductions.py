"""Past and suspected defects, each as the shortest history that shows it.

A history that `test_generated` or the endurance script has found is kept here, with what it found.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from askance_client.messages import AckStatus, Reason
from askance_simulation.disturbances import Fault
from tests.faults.deployment import Deployment
from tests.faults.invariants import check, finish
from tests.faults.operations import (
    Cancel,
    CheckIn,
    CrashAggregator,
    CrashDevice,
    Deliver,
    Dial,
    FailDisk,
    Operation,
    Pass,
    Restart,
    Submit,
)
from tests.faults.people import PARITY, PEOPLE, WEEK_S, Setup
from tests.faults.runs import happens

TIMED = replace(PEOPLE, deadline_s=60)
History = tuple[Setup, list[Operation]]
EVERYBODY: list[Operation] = [CheckIn(device) for device in range(PEOPLE.users)]

FOUND: dict[str, History] = {
    # The report was durable and its commit had failed; the round closed without it, and the device
    # was later acknowledged as counted.
    "a report that the disk kept although it failed, and a deadline": (
        TIMED,
        [FailDisk(kept=True), CheckIn(0), Pass(60)],
    ),
}
FEARED: dict[str, History] = {
    "a lost request": (PEOPLE, [CheckIn(0, (Fault.LOST_REQUEST,)), CheckIn(0)]),
    "a lost response with the question in it": (PEOPLE, [CheckIn(0, (Fault.LOST_RESPONSE,))]),
    "a lost acknowledgement": (PEOPLE, [CheckIn(0, (Fault.NONE, Fault.LOST_RESPONSE))]),
    "an answer delivered twice": (PEOPLE, [CheckIn(0, (Fault.NONE, Fault.TWICE))]),
    "an answer held back until another has been counted": (
        PEOPLE,
        [CheckIn(0, (Fault.NONE, Fault.HELD)), CheckIn(0), Deliver(0)],
    ),
    "an answer held back until its study has ended": (
        PEOPLE,
        [CheckIn(0, (Fault.NONE, Fault.HELD)), *EVERYBODY, Deliver(0)],
    ),
    "a device that dies before its charge is durable": (
        PEOPLE,
        [CrashDevice(0, kept=False), CheckIn(0), CheckIn(0)],
    ),
    "a device that dies between spending and sending": (
        PEOPLE,
        [CrashDevice(0, kept=True), CheckIn(0), CheckIn(0)],
    ),
    "a stream that is cut before its acknowledgement": (PEOPLE, [Dial(0, 3), CheckIn(0)]),
    "a disk that keeps nothing": (PEOPLE, [FailDisk(kept=False), CheckIn(0), CheckIn(0)]),
    "a study that asks the same while the first is open": (PEOPLE, [Submit(1), *EVERYBODY]),
    "a study that asks the same after the first has ended": (PEOPLE, [*EVERYBODY, Submit(1)]),
    "a study that asks a part of the same people the same": (PARITY, [Submit(1)]),
    "a study that nobody can afford any more": (
        replace(PEOPLE, life=3),
        [*EVERYBODY, Submit(2), *EVERYBODY],
    ),
    "a cancelled study and a restart": (PEOPLE, [CheckIn(0), Cancel(0), Restart(killed=True)]),
    "devices that come back after a week": (TIMED, [Pass(WEEK_S), *EVERYBODY]),
}
CRASHES: dict[str, History] = {
    f"the aggregator dies at its write {writes}, {'after' if kept else 'before'} it is durable": (
        TIMED,
        [CheckIn(1), CrashAggregator(writes, kept), CheckIn(0), Submit(1), *EVERYBODY],
    )
    for writes in range(8)
    for kept in (False, True)
}
ALL_FEARED = FEARED | CRASHES


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str, tmp_path: Path) -> None:
    setup, history = FOUND[name]
    happens(setup, history)
    happens(setup, history, tmp_path)


@pytest.mark.parametrize("name", ALL_FEARED)
def test_what_was_feared(name: str) -> None:
    happens(*ALL_FEARED[name])


def after(setup: Setup, history: list[Operation]) -> Deployment:
    """A deployment after a history in which the studies have ended."""

    async def scenario() -> Deployment:
        deployment = Deployment(setup)
        await deployment.submit(0)
        for operation in history:
            await operation.happen(deployment)
        await finish(deployment)
        check(deployment)
        await deployment.stop()
        return deployment

    return asyncio.run(scenario())


def acknowledged_as(deployment: Deployment, ordinal: int) -> list[AckStatus]:
    """Return every acknowledgement that a device got for its reports."""
    return [
        status
        for whom, response in deployment.recorder.responses
        if whom == ordinal
        for _, status in response.acks
    ]


def test_a_device_back_after_a_week_is_late_and_its_charge_stands() -> None:
    """The device had answered, and lost its network before its report arrived."""
    away = CheckIn(0, (Fault.NONE, Fault.LOST_REQUEST))
    deployment = after(TIMED, [away, *EVERYBODY[1:], Pass(WEEK_S), CheckIn(0)])
    assert acknowledged_as(deployment, 0) == [AckStatus.LATE]
    (entry,) = deployment.disk.ledger(0).history()
    assert entry.nano_nats == 2 * 10**9
    assert deployment.disk.store.report(entry.request_digest, 0) is None


def test_a_device_that_is_first_asked_after_a_week_refuses_and_says_why() -> None:
    deployment = after(PEOPLE, [*EVERYBODY[1:], Pass(WEEK_S), CheckIn(0)])
    assert acknowledged_as(deployment, 0) == [AckStatus.ACCEPTED]
    assert list(deployment.disk.ledger(0).history()) == []
    (result,) = results(deployment)
    assert f'"refusals": {{"{Reason.EXPIRED.name.lower()}": 1}}' in result


def test_the_same_question_in_a_second_study_costs_nothing_and_counts() -> None:
    deployment = after(PEOPLE, [*EVERYBODY, Submit(1), *EVERYBODY])
    charges = [
        [entry.nano_nats for entry in deployment.disk.ledger(ordinal).history()]
        for ordinal in range(PEOPLE.users)
    ]
    assert charges == [[2 * 10**9]] * PEOPLE.users
    first, second = results(deployment)
    assert '"total_spent_nano_nats": 12000000000' in first
    assert '"total_spent_nano_nats": 0' in second


def results(deployment: Deployment) -> list[str]:
    """Return the results of the submitted studies, in the plans' order."""
    ended = deployment.disk.store.conclusions()
    digests = map(deployment.digest, range(len(deployment.setup.plans)))
    return [ended[digest].result_json for digest in digests if digest in ended]
