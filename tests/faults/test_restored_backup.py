"""Drill: an older backup is restored, devices deliver again, and none is charged a second time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from askance_aggregator.store import (
    SqliteLocation,
    SqliteStore,
    StoreLocation,
    StudyState,
    open_backup,
    store_location,
)
from askance_aggregator.studies.losses import RestorationLosses, losses
from askance_client.messages import AckStatus
from tests.aggregator.server.studies.conftest import study
from tests.faults.deployment import Deployment
from tests.faults.people import PARITY, PEOPLE, PUBLIC, Setup, undisturbed
from tests.postgresql import PostgresqlServer

Scenario = Callable[[Deployment], Awaitable[None]]
Drill = Callable[[Scenario, Setup], None]
NewLocation = Callable[[str], StoreLocation]


@pytest.fixture(params=["sqlite", "postgresql"])
def new_location(request: pytest.FixtureRequest, tmp_path: Path) -> NewLocation:
    """Factory of places without a store."""
    if request.param == "sqlite":
        return lambda name: SqliteLocation(tmp_path / name)
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return lambda _: store_location(server.new_database())


@pytest.fixture
def drill(new_location: NewLocation, tmp_path: Path) -> Drill:
    """Run a scenario over ledgers in a file and a store that can be backed up."""

    def run(scenario: Scenario, setup: Setup) -> None:
        async def whole() -> None:
            location = new_location("first")
            if isinstance(location, SqliteLocation):
                SqliteStore.create(location.path).close()
            else:
                location.migrate()
            deployment = Deployment(setup, tmp_path, store=location)
            try:
                async with asyncio.timeout(60):
                    await scenario(deployment)
            finally:
                await deployment.stop()

        asyncio.run(whole())

    return run


@pytest.fixture
def restore(new_location: NewLocation) -> Callable[[Deployment, Path], Awaitable[None]]:
    """End the aggregator and start another on the store of a backup."""

    async def restored(deployment: Deployment, backup: Path) -> None:
        location = new_location("restored")
        with open_backup(backup) as opened:
            location.restore(opened, deployment.clock.now)
        deployment.disk._location = location
        await deployment.restart()
        assert len(deployment.disk.store.restores()) == 1

    return restored


Restore = Callable[[Deployment, Path], Awaitable[None]]


async def check_in(deployment: Deployment, *ordinals: int) -> None:
    for ordinal in ordinals:
        await deployment.phones[ordinal].check_in()
    await deployment.settle()


async def all_twice(deployment: Deployment) -> None:
    for _ in range(2):
        await check_in(deployment, *range(deployment.setup.users))


def charges(deployment: Deployment) -> list[list[tuple[bytes, int]]]:
    """Return what each device was charged for, from its ledger."""
    return [
        [(entry.request_digest, entry.nano_nats) for entry in ledger.history()]
        for ledger in (deployment.disk.ledger(phone.ordinal) for phone in deployment.phones)
    ]


def result(deployment: Deployment, place: int = 0) -> dict[str, Any]:
    ended = deployment.manager.conclusion(deployment.digest(place), PUBLIC)
    assert ended is not None
    found: dict[str, Any] = json.loads(ended.result_json)
    return found


def test_answers_after_the_backup_are_delivered_again_at_no_charge(
    drill: Drill, restore: Restore, tmp_path: Path
) -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await check_in(deployment, 0, 1)
        deployment.disk.store.back_up(tmp_path / "backup", deployment.clock.now)
        await check_in(deployment, 2, 3)
        before = charges(deployment)
        await restore(deployment, tmp_path / "backup")
        assert deployment.manager.status(deployment.digest(0), PUBLIC).answered == 2
        await check_in(deployment, 0, 1, 2, 3)
        assert deployment.manager.status(deployment.digest(0), PUBLIC).answered == 4
        assert charges(deployment) == before
        await check_in(deployment, 4, 5)
        assert result(deployment)["transcript"] == undisturbed(PEOPLE, 0).transcript
        assert [len(one) for one in charges(deployment)] == [1] * 6

    drill(scenario, PEOPLE)


@pytest.mark.parametrize("rounds_known", [0, 1])
def test_a_study_of_two_rounds_that_had_ended_ends_the_same_again(
    drill: Drill, restore: Restore, tmp_path: Path, rounds_known: int
) -> None:
    """The backup is of the first round, or of the second; then both are asked to their end."""

    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        digest, backup = deployment.digest(0), tmp_path / "backup"
        if not rounds_known:
            deployment.disk.store.back_up(backup, deployment.clock.now)
        ordinal = 0
        while deployment.manager.status(digest, PUBLIC).rounds_closed < rounds_known:
            await check_in(deployment, ordinal % PARITY.users)
            ordinal += 1
        if rounds_known:
            deployment.disk.store.back_up(backup, deployment.clock.now)
        await all_twice(deployment)
        first, before = result(deployment), charges(deployment)
        await restore(deployment, backup)
        status = deployment.manager.status(digest, PUBLIC)
        assert (status.state, status.rounds_closed) == (StudyState.OPEN, rounds_known)
        await all_twice(deployment)
        assert result(deployment) == first
        assert first["transcript"] == undisturbed(PARITY, 0).transcript
        assert charges(deployment) == before

    drill(scenario, PARITY)


def test_a_study_that_the_backup_lacks_is_unknown_until_it_is_submitted_again(
    drill: Drill, restore: Restore, tmp_path: Path
) -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.disk.store.back_up(tmp_path / "backup", deployment.clock.now)
        await deployment.submit(0)
        await check_in(deployment, *range(6))
        first, before = result(deployment), charges(deployment)
        await restore(deployment, tmp_path / "backup")
        assert deployment.disk.store.studies() == {}
        ((request, _),) = before[0]
        report = deployment.disk.ledger(0).stored(request)
        assert report is not None
        assert await deployment.hub.deliver(0, [report]) == [(request, AckStatus.UNKNOWN)]
        assert list(deployment.disk.store.reports(request)) == []
        await deployment.submit(0)
        await check_in(deployment, *range(6))
        assert result(deployment) == first
        assert charges(deployment) == before

    drill(scenario, PEOPLE)


def test_a_second_round_of_other_content_is_not_answered_by_who_was_charged(
    drill: Drill, restore: Restore, tmp_path: Path
) -> None:
    """A first round with fewer answers leads to another second one; no budget is exceeded."""

    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        deployment.disk.store.back_up(tmp_path / "backup", deployment.clock.now)
        await all_twice(deployment)
        before = charges(deployment)
        await restore(deployment, tmp_path / "backup")
        digest = deployment.digest(0)
        ordinal = 0
        while deployment.manager.status(digest, PUBLIC).answered < 5:
            await check_in(deployment, ordinal)
            ordinal += 1
        deployment.hub.close_round(digest)  # the others stay away
        await deployment.settle()
        for _ in range(3):
            await check_in(deployment, *range(PARITY.users))
            deployment.hub.close_round(digest)
            await deployment.settle()
        assert deployment.manager.status(digest, PUBLIC).state is not StudyState.OPEN
        budget = 10**9 * PARITY.plans[0].epsilon
        for earlier, now in zip(before, charges(deployment), strict=True):
            assert now[: len(earlier)] == earlier  # nothing was forgotten or changed
            assert sum(nano_nats for _, nano_nats in now) <= budget

    drill(scenario, PARITY)


def test_lost_answers_are_counted_by_the_numbers_of_later_reports(
    drill: Drill, restore: Restore, tmp_path: Path
) -> None:
    """A device says with its next answer how many it was charged for since the backup."""

    async def scenario(deployment: Deployment) -> None:
        await deployment.submit(0)
        await check_in(deployment, *range(6))  # the first answer of each
        deployment.disk.store.back_up(tmp_path / "backup", deployment.clock.now)
        assert losses(deployment.disk.store) == RestorationLosses(0, 0, 0)
        await deployment.submit(2)
        await check_in(deployment, *range(6))  # the second, to another question
        await restore(deployment, tmp_path / "backup")
        store, backup_unix_s = deployment.disk.store, deployment.clock.now
        assert losses(store) == RestorationLosses(
            backup_unix_s, 0, 0
        )  # no device has answered since
        third = deployment.manager.submit(
            study(parameters=(("column", "smoker"),), budget_nano_nats=10**9)
        )
        await deployment.settle()
        await check_in(deployment, *range(4))  # the third answer of four; two stay away
        assert losses(store) == RestorationLosses(backup_unix_s, 4, 4)
        await deployment.submit(2)  # lost answers come again, by their numbers
        await check_in(deployment, 0, 1)
        assert losses(store) == RestorationLosses(backup_unix_s, 2, 2)
        await check_in(deployment, 2, 3, 4, 5)
        assert losses(store) == RestorationLosses(backup_unix_s, 0, 0)
        assert deployment.manager.status(third, PUBLIC).state is StudyState.DONE

    drill(scenario, PEOPLE)
