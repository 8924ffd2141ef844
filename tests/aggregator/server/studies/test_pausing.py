"""Paused studies: nothing new is asked, deadlines stand still, and a restart changes nothing."""

from __future__ import annotations

import pytest

from askance_aggregator.server.studies import UnknownStudy
from askance_aggregator.store import StudyState
from askance_client.codec import digest_of
from askance_client.errors import StoreError
from askance_client.messages import Conduct
from tests.aggregator.server.studies.conftest import RunIn, study
from tests.aggregator.server.studies.test_epochs import (
    FIRST,
    FRESH,
    all_check_in,
    charges,
    repeated,
    result,
    states,
    weeks_pass,
)
from tests.faults.deployment import Deployment
from tests.faults.people import PUBLIC

HOUR_S = 3_600
TIMED = Conduct(round_deadline_s=2 * HOUR_S)


def asked(deployment: Deployment) -> list[int]:
    """Return the number of charges of each device."""
    return [len(days) for days in charges(deployment)]


async def pass_time(deployment: Deployment, seconds: int) -> None:
    deployment.clock.advance(seconds)
    await deployment.settle()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_paused_study_asks_nothing_and_its_deadline_stands_still(
    run_in: RunIn, restarted: bool
) -> None:
    """The second of two hours is left after a pause of 60 hours."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study(conduct=TIMED))
        await deployment.settle()
        await deployment.phones[0].check_in()
        await pass_time(deployment, HOUR_S)
        assert deployment.manager.pause(digest, PUBLIC) is StudyState.OPEN
        await deployment.settle()
        await all_check_in(deployment)
        await pass_time(deployment, 60 * HOUR_S)
        if restarted:
            await deployment.restart()
            await all_check_in(deployment)
        assert asked(deployment) == [1, 0, 0, 0, 0, 0]
        status = deployment.manager.status(digest, PUBLIC)
        assert (status.state, status.reason, status.answered) == (StudyState.OPEN, "paused", 1)
        assert deployment.manager.unpause(digest, PUBLIC) is StudyState.OPEN
        await deployment.settle()
        await pass_time(deployment, HOUR_S - 1)
        assert deployment.manager.status(digest, PUBLIC).reason == ""
        await deployment.phones[1].check_in()
        await pass_time(deployment, 2)
        assert result(deployment, digest)["answers"] == 2
        assert asked(deployment) == [1, 1, 0, 0, 0, 0]

    run_in(scenario)


def test_a_report_on_its_way_is_taken_while_the_study_is_paused(run_in: RunIn) -> None:
    """The device has the request when the study is paused, and delivers its answer then."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study(conduct=TIMED))
        await deployment.settle()
        phone = deployment.phones[0]
        await phone.dial(2)  # greeted, and asked
        await deployment.settle()
        deployment.manager.pause(digest, PUBLIC)
        await deployment.settle()
        await phone.check_in()
        await deployment.settle()
        status = deployment.manager.status(digest, PUBLIC)
        assert (status.reason, status.asked, status.answered) == ("paused", 6, 1)

    run_in(scenario)


def test_connected_devices_are_asked_when_the_study_is_resumed(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        signed = study(conduct=TIMED)
        digest = digest_of(signed.study)
        deployment.manager.submit(signed)
        deployment.manager.pause(digest, PUBLIC)
        await deployment.settle()
        for phone in deployment.phones:
            await phone.dial(4)
        await deployment.settle()
        assert asked(deployment) == [0] * 6
        deployment.manager.unpause(digest, PUBLIC)
        await deployment.settle()
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()
        assert deployment.manager.status(digest, PUBLIC).state is StudyState.DONE
        assert asked(deployment) == [1] * 6

    run_in(scenario)


@pytest.mark.parametrize("restarted", [False, True])
def test_an_epoch_that_passes_while_its_study_is_paused_is_not_asked(
    run_in: RunIn, restarted: bool
) -> None:
    """Epochs go on being numbered by time: the second is skipped, the third is collected."""

    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated())
        await deployment.settle()
        await all_check_in(deployment)
        deployment.manager.pause(digest, PUBLIC)
        await weeks_pass(deployment)
        if restarted:
            await deployment.restart()
        await all_check_in(deployment)
        await weeks_pass(deployment)
        await all_check_in(deployment)
        assert states(deployment, digest) == [(0, "DONE", "done"), (1, "FAILED", "paused")]
        assert result(deployment, digest, FIRST + 1)["message"] == (
            "epoch 2 of 3: expected a study that is not paused until 2023-11-23, got it paused;"
            " no user was asked"
        )
        deployment.manager.unpause(digest, PUBLIC)
        await deployment.settle()
        await all_check_in(deployment)
        assert charges(deployment) == [[5, 14]] * 6
        assert states(deployment, digest)[2] == (2, "DONE", "done")

    run_in(scenario, FRESH)


def test_an_open_round_of_a_paused_epoch_ends_with_the_epoch(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(repeated(2))
        await deployment.settle()
        deployment.manager.pause(digest, PUBLIC)
        await deployment.settle()
        await all_check_in(deployment)
        await weeks_pass(deployment)
        assert charges(deployment) == [[]] * 6
        assert states(deployment, digest) == [(0, "FAILED", "paused")]

    run_in(scenario, FRESH)


def test_a_paused_study_can_be_cancelled(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        await deployment.settle()
        deployment.manager.pause(digest, PUBLIC)
        await deployment.settle()
        deployment.manager.cancel(digest, PUBLIC)
        await deployment.settle()
        assert deployment.manager.pause(digest, PUBLIC) is StudyState.CANCELLED
        assert deployment.manager.unpause(digest, PUBLIC) is StudyState.CANCELLED
        assert deployment.manager.status(digest, PUBLIC).reason == "cancelled"

    run_in(scenario)


def test_another_analyst_pauses_nothing(run_in: RunIn) -> None:
    async def scenario(deployment: Deployment) -> None:
        digest = deployment.manager.submit(study())
        for call in (deployment.manager.pause, deployment.manager.unpause):
            with pytest.raises(UnknownStudy):
                call(digest, bytes(32))
        assert deployment.disk.store.management.paused() == frozenset()

    run_in(scenario)


def test_a_study_whose_pause_cannot_be_read_begins_when_it_is_submitted_again(
    run_in: RunIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would stay open with its lease, and neither run nor end by a cancellation."""

    async def scenario(deployment: Deployment) -> None:
        def failing() -> frozenset[bytes]:
            raise StoreError("store: expected a working one")

        with monkeypatch.context() as broken:
            broken.setattr(deployment.disk.store.management, "paused", failing)
            with pytest.raises(StoreError, match="expected a working one"):
                deployment.manager.submit(study())
        digest = deployment.manager.submit(study())
        await deployment.settle()
        await all_check_in(deployment)
        assert asked(deployment) == [1] * 6
        assert deployment.manager.status(digest, PUBLIC).state is StudyState.DONE

    run_in(scenario)
