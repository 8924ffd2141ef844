"""Repeated studies on the served aggregator: a collection per epoch, on the aggregator's clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.analyst import StudyExport, verify
from askance_aggregator.server.devices.fleet import ServiceFleet
from askance_aggregator.server.studies import UnknownEpoch, runs
from askance_aggregator.store import StudyState, store_location
from askance_aggregator.studies.series import EpochStatus
from askance_aggregator.studies.transcript import Asked, Header, Transcript
from askance_client.messages import Conduct, Repeat, SignedStudy
from tests.aggregator.server.studies.conftest import RunIn, Scenario, study
from tests.faults.deployment import Deployment
from tests.faults.people import NOW_S, PARITY, PEOPLE, PUBLIC, WEEK_S
from tests.postgresql import PostgresqlServer

NAT, DAY_S = 10**9, 86_400
FIRST = NOW_S // WEEK_S  # its sixth day is today
FRESH = replace(PEOPLE, refresh_days=7)


def repeated(epochs: int = 3, *, first: int = FIRST, **changes: Any) -> SignedStudy:
    """A study of a few weeks."""
    end_s = (first + epochs) * WEEK_S
    return study(repeat=Repeat(7, epochs, first), **{"expires_unix_s": end_s, **changes})


async def weeks_pass(deployment: Deployment, weeks: int = 1) -> None:
    """Go to the first second of the next week, and then further by whole weeks."""
    begin_s = (deployment.clock.now // WEEK_S + weeks) * WEEK_S
    deployment.clock.advance(begin_s - deployment.clock.now)
    await deployment.settle()


async def all_check_in(deployment: Deployment) -> None:
    for phone in deployment.phones:
        await phone.check_in()
    await deployment.settle()


def transcript(deployment: Deployment, digest: bytes, epoch: int) -> Transcript:
    return Transcript(deployment.disk.store.log(digest, epoch))


def result(deployment: Deployment, digest: bytes, epoch: int = 0) -> dict[str, Any]:
    ended = deployment.manager.conclusion(digest, PUBLIC, epoch)
    assert ended is not None
    found: dict[str, Any] = json.loads(ended.result_json)
    return found


def states(deployment: Deployment, digest: bytes) -> list[tuple[int, str, str]]:
    return [
        (one.epoch - FIRST, one.state.name, one.reason)
        for one in deployment.disk.store.epochs(digest)
    ]


def charges(deployment: Deployment) -> list[list[int]]:
    """Return the days, from the first week's first, on which each device was charged."""
    return [
        [
            entry.at_s // 86_400 - 7 * FIRST
            for entry in deployment.disk.ledger(phone.ordinal).history()
        ]
        for phone in deployment.phones
    ]


def check(deployment: Deployment, digest: bytes, epoch: int) -> None:
    """Verify the export of an epoch."""
    signed, lines, text, _ = deployment.manager.export(digest, PUBLIC, epoch)
    found = verify(StudyExport(signed, tuple(lines), json.loads(text), epoch))
    assert found.state == result(deployment, digest, epoch)["state"]


def test_one_study_is_a_collection_per_epoch(run_in: RunIn) -> None:
    """An epoch is charged, has a transcript and a conclusion of its own, and ends in its days."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated())
        await deployment.settle()
        for place in range(3):
            await all_check_in(deployment)
            assert states(deployment, digest) == [(n, "DONE", "done") for n in range(place + 1)]
            await weeks_pass(deployment)
        assert charges(deployment) == [[5, 7, 14]] * 6
        headers = [transcript(deployment, digest, FIRST + n).recorded[0] for n in range(3)]
        assert [h.epoch - FIRST for h in headers if isinstance(h, Header)] == [0, 1, 2]
        found = [result(deployment, digest, FIRST + n) for n in range(3)]
        assert len({one["transcript"] for one in found}) == 3
        assert [(one["number"], one["answers"], one["fresh"]) for one in found] == [
            (n, 6, 6) for n in (1, 2, 3)
        ]
        assert [one["first_day"] for one in found] == ["2023-11-09", "2023-11-16", "2023-11-23"]
        whole = result(deployment, digest)
        assert (whole["state"], whole["reason"], whole["message"]) == ("done", "done", "")
        assert [one["epoch"] - FIRST for one in whole["epochs"]] == [0, 1, 2]
        most = sum(one["epsilon"]["max_asked_nano_nats"] for one in found)
        assert 2.99 * NAT < most <= 3 * NAT
        assert whole["epsilon"] == {
            "budget_per_epoch": 1.0,
            "budget": 3.0,
            "max_asked_nano_nats": most,
        }
        assert deployment.disk.store.nano_nats_asked() == most
        for place in range(3):
            check(deployment, digest, FIRST + place)

    run_in(scenario, FRESH)


def test_failures_of_the_disk_are_counted_anew_in_each_epoch(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a few failures in months suspended a study at each later one."""
    suspended: list[bytes] = []
    monkeypatch.setattr(runs, "_DISK_S", 0.001)
    monkeypatch.setattr(runs, "_TRIES", 2)
    monkeypatch.setattr(ServiceFleet, "suspend", lambda _, digest: suspended.append(digest))

    async def scenario(deployment: Deployment) -> None:
        deployment.life.fail_at("conclude", kept=False)
        digest = deployment.manager.submit(repeated())
        await deployment.settle()
        for place in range(3):
            await all_check_in(deployment)
            assert len(states(deployment, digest)) == place + 1
            await weeks_pass(deployment)
            deployment.life.fail_at("conclude", kept=False)
        assert suspended == []

    run_in(scenario, FRESH)


def test_an_epoch_waits_for_its_first_day(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2, first=FIRST + 1))
        await deployment.settle()
        await all_check_in(deployment)
        assert charges(deployment) == [[]] * 6
        status = deployment.manager.status(digest, PUBLIC)
        repeat = Repeat(7, 2, FIRST + 1)
        assert status.epochs == EpochStatus(FIRST + 1, repeat, 0, open=False)
        assert (status.state, status.round, status.asked) == (StudyState.OPEN, 0, 0)
        await weeks_pass(deployment)
        status = deployment.manager.status(digest, PUBLIC)
        assert status.epochs == EpochStatus(FIRST + 1, repeat, 0, open=True)
        assert (status.asked, status.answered) == (6, 0)
        await all_check_in(deployment)
        assert charges(deployment) == [[7]] * 6
        status = deployment.manager.status(digest, PUBLIC)
        assert status.epochs == EpochStatus(FIRST + 2, repeat, 1, open=False)
        assert status.round == 0

    run_in(scenario, FRESH)


def test_an_open_round_closes_with_its_epoch_and_counts_what_has_come(run_in: RunIn) -> None:
    """Two of six have answered when the week ends; the others are never asked for that week."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        await deployment.settle()
        for phone in deployment.phones[:2]:
            await phone.check_in()
        await weeks_pass(deployment)
        assert states(deployment, digest) == [(0, "DONE", "done")]
        assert result(deployment, digest, FIRST)["answers"] == 2
        check(deployment, digest, FIRST)
        await all_check_in(deployment)
        assert charges(deployment) == [[5, 7]] * 2 + [[7]] * 4
        assert result(deployment, digest, FIRST + 1)["answers"] == 6

    run_in(scenario, FRESH)


def test_an_open_round_closes_when_its_study_expires_within_an_epoch(run_in: RunIn) -> None:
    """Devices refuse the study from then on: no answer can come, and none is asked for."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(1, expires_unix_s=NOW_S + 3_600))
        await deployment.settle()
        for phone in deployment.phones[:2]:
            await phone.check_in()
        deployment.clock.advance(3_599)
        await deployment.settle()
        assert states(deployment, digest) == []
        deployment.clock.advance(1)
        await deployment.settle()
        assert states(deployment, digest) == [(0, "DONE", "done")]
        assert result(deployment, digest, FIRST)["answers"] == 2
        check(deployment, digest, FIRST)
        await all_check_in(deployment)
        assert charges(deployment) == [[5]] * 2 + [[]] * 4

    run_in(scenario, FRESH)


def test_an_epoch_with_too_few_answers_fails_and_the_next_is_collected(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2, conduct=Conduct(least_answers=3)))
        await deployment.settle()
        await deployment.phones[0].check_in()
        await weeks_pass(deployment)
        await all_check_in(deployment)
        assert states(deployment, digest) == [
            (0, "FAILED", "too-few-respondents"),
            (1, "DONE", "done"),
        ]
        check(deployment, digest, FIRST)
        whole = result(deployment, digest)
        assert (whole["state"], whole["message"]) == ("done", "1 of 2 epochs have no result")

    run_in(scenario, FRESH)


def test_an_epoch_without_an_aggregator_is_missed_and_nobody_is_asked(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(3, first=FIRST + 1))
        await deployment.settle()
        deployment.manager.stop()  # down for the whole of the first epoch
        deployment.clock.advance(2 * WEEK_S)
        await deployment.restart()
        assert states(deployment, digest) == [(1, "FAILED", "missed")]
        assert result(deployment, digest, FIRST + 1)["message"] == (
            "epoch 1 of 3: expected an aggregator that runs this study from 2023-11-16 until"
            " 2023-11-23, got none; no user was asked"
        )
        assert charges(deployment) == [[]] * 6
        check(deployment, digest, FIRST + 1)
        await all_check_in(deployment)
        await weeks_pass(deployment)
        await all_check_in(deployment)
        assert charges(deployment) == [[19, 21]] * 6
        assert deployment.manager.status(digest, PUBLIC).state is StudyState.DONE

    run_in(scenario, FRESH)


def test_a_study_of_missed_epochs_has_failed(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2, first=FIRST + 1))
        await deployment.settle()
        deployment.manager.stop()
        deployment.clock.advance(9 * WEEK_S)
        await deployment.restart()
        whole = result(deployment, digest)
        assert (whole["state"], whole["reason"]) == ("failed", "no-epoch")
        assert [one["reason"] for one in whole["epochs"]] == ["missed"] * 2

    run_in(scenario, FRESH)


RESTARTS = ["between epochs", "within an epoch", "after every check-in"]


@pytest.mark.parametrize("when", RESTARTS)
def test_a_restart_asks_no_epoch_twice(run_in: RunIn, when: str, tmp_path: Path) -> None:
    """The file store is closed and opened by another process; each device is charged once."""
    run_in(_restarted(when), FRESH, folder=tmp_path)


@pytest.mark.parametrize("when", RESTARTS[:2])
def test_a_killed_database_asks_no_epoch_twice(
    run_in: RunIn, when: str, postgresql: PostgresqlServer
) -> None:
    """The database dies and is started again before another process opens it."""
    location = store_location(postgresql.new_store())

    def kill() -> None:
        with postgresql.killed():
            pass

    run_in(_restarted(when, kill), FRESH, store=location)


def _restarted(when: str, before: Callable[[], None] = lambda: None) -> Scenario:
    """A repeated study whose aggregator is restarted, each time after what happens before."""

    async def restart(deployment: Deployment) -> None:
        before()
        await deployment.restart()

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        await deployment.settle()
        for _ in range(2):
            for place, phone in enumerate(deployment.phones):
                await phone.check_in()
                if when == "after every check-in" or (when == "within an epoch" and place == 2):
                    await restart(deployment)
            await deployment.settle()
            if when == "between epochs":
                await restart(deployment)
            await weeks_pass(deployment)
        assert states(deployment, digest) == [(0, "DONE", "done"), (1, "DONE", "done")]
        assert charges(deployment) == [[5, 7]] * 6
        assert [result(deployment, digest, FIRST + n)["answers"] for n in (0, 1)] == [6, 6]
        check(deployment, digest, FIRST)

    return scenario


@pytest.mark.parametrize("kept", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("writes", range(13))
def test_an_aggregator_killed_at_any_write_asks_no_epoch_twice(
    run_in: RunIn, writes: int, kept: bool
) -> None:
    """The process dies at that write of the first epoch, and at that write of the second one."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        for _ in range(2):
            deployment.life.end_at(writes, kept=kept)
            await deployment.settle()
            await all_check_in(deployment)
            await all_check_in(deployment)
            await weeks_pass(deployment)
        assert states(deployment, digest) == [(0, "DONE", "done"), (1, "DONE", "done")]
        assert charges(deployment) == [[5, 7]] * 6
        assert [result(deployment, digest, FIRST + n)["answers"] for n in (0, 1)] == [6, 6]
        assert result(deployment, digest)["state"] == "done"
        for place in range(2):
            check(deployment, digest, FIRST + place)

    run_in(scenario, FRESH)


def test_an_epoch_that_ends_while_the_aggregator_is_down_stands_as_it_was(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        await deployment.settle()
        for phone in deployment.phones[:4]:
            await phone.check_in()
        await deployment.hub.stop()
        deployment.clock.advance(WEEK_S)
        await deployment.restart()
        assert states(deployment, digest) == [(0, "DONE", "done")]
        assert result(deployment, digest, FIRST)["answers"] == 4
        check(deployment, digest, FIRST)
        await all_check_in(deployment)
        assert charges(deployment) == [[5, 12]] * 4 + [[12]] * 2

    run_in(scenario, FRESH)


def test_a_learner_with_more_to_ask_when_its_epoch_ends_fails(run_in: RunIn) -> None:
    """A second round is not asked after the days: a device would refuse it."""
    parity = replace(PARITY, refresh_days=7)
    schema = PARITY.schema
    signed = repeated(
        2,
        learner="masked-parity",
        learner_version=1,
        parameters=(),
        schema=schema,
        fields=tuple(sorted(schema.fields)),
        budget_nano_nats=8 * NAT,
        conduct=Conduct(beta=Fraction(PARITY.plans[0].beta)),
    )

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(signed)
        await deployment.settle()
        for phone in deployment.phones[:20]:
            await phone.check_in()
        before = charges(deployment)
        assert 0 < sum(map(len, before)) < len(deployment.phones)
        await weeks_pass(deployment)
        (first,) = deployment.disk.store.epochs(digest)
        assert (first.state, first.reason) == (StudyState.FAILED, "epoch-over")
        rounds = [
            event.round
            for event in transcript(deployment, digest, FIRST).recorded
            if isinstance(event, Asked)
        ]
        assert rounds == [0, 1]
        assert charges(deployment) == before
        check(deployment, digest, FIRST)

    run_in(scenario, parity)


@pytest.mark.parametrize("when", ["waiting", "open", "open and not run", "waiting and not run"])
def test_cancelling_stops_the_epochs_that_are_left(run_in: RunIn, when: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(3))
        await deployment.settle()
        await all_check_in(deployment)
        if when.startswith("open"):
            await weeks_pass(deployment)
            await deployment.phones[0].check_in()
        if when.endswith("not run"):
            deployment.analysts = frozenset()  # its analyst is not known any more
            await deployment.restart()
        deployment.manager.cancel(digest, PUBLIC)
        for _ in range(10_000):
            await deployment.settle()
            if deployment.manager.status(digest, PUBLIC).state is not StudyState.OPEN:
                break
        assert result(deployment, digest)["state"] == "cancelled"
        ended = [(0, "DONE", "done")]
        ended += [(1, "CANCELLED", "cancelled")] if when.startswith("open") else []
        assert states(deployment, digest) == ended
        before = charges(deployment)
        await weeks_pass(deployment)
        await all_check_in(deployment)
        await weeks_pass(deployment)
        await all_check_in(deployment)
        assert charges(deployment) == before
        for place, _, _ in ended:
            check(deployment, digest, FIRST + place)

    run_in(scenario, FRESH)


def test_owners_that_never_refresh_are_asked_and_refuse(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        await deployment.settle()
        await all_check_in(deployment)
        found = result(deployment, digest, FIRST)
        assert found["refusals"] == {"refresh_too_early": 6}
        assert charges(deployment) == [[]] * 6

    run_in(scenario)


def test_an_epoch_that_is_not_signed_is_unknown(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        once = deployment.manager.submit(study())
        await deployment.settle()
        for which, epoch in ((digest, FIRST - 1), (digest, FIRST + 2), (once, FIRST)):
            for call in (deployment.manager.conclusion, deployment.manager.export):
                with pytest.raises(UnknownEpoch, match=f"got index {epoch}"):
                    call(which, PUBLIC, epoch)
        assert deployment.manager.conclusion(digest, PUBLIC, FIRST + 1) is None
        assert json.loads(deployment.manager.result_so_far(digest, PUBLIC))["epochs"] == []
        assert deployment.manager.result_so_far(once, PUBLIC) == ""

    run_in(scenario, FRESH)


def test_a_study_cancelled_while_no_thread_runs_it_is_verified(run_in: RunIn) -> None:
    """The open round was asked, and no account has what its devices spent."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        await deployment.settle()
        await deployment.phones[0].check_in()
        deployment.analysts = frozenset()
        await deployment.restart()
        assert deployment.manager.cancel(digest, PUBLIC) is StudyState.CANCELLED
        check(deployment, digest, 0)

    run_in(scenario)
