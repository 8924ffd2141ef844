"""Two study managers on one database, in one process: half of the devices call each of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from askance_aggregator.analyst.approvals import sign_approval
from askance_aggregator.clock import system_now_s
from askance_aggregator.server.devices import Hub, Peers, ServiceFleet, Settings
from askance_aggregator.server.devices.admission import Admission
from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.server.studies import Approver, StudyManager, SubmissionLimits
from askance_aggregator.store import PostgresqlLocation, Store, StudyState, TaggedPopulation
from askance_aggregator.store.postgresql import replicas
from askance_aggregator.store.register import DeviceSelection
from askance_aggregator.studies.population import signed_parameters
from tests.aggregator.server.studies.conftest import study
from tests.faults.deployment import Deployment, Inline, Phone
from tests.faults.people import PARITY, PEOPLE, PUBLIC
from tests.postgresql import PostgresqlServer


@pytest.fixture
def location(postgresql: PostgresqlServer) -> PostgresqlLocation:
    return PostgresqlLocation(postgresql.new_store())


@asynccontextmanager
async def another(
    deployment: Deployment, location: PostgresqlLocation, limits: SubmissionLimits | None = None
) -> AsyncIterator[tuple[StudyManager, list[Phone]]]:
    """Provide a second replica, and the devices with odd numbers, which call it."""
    with closing(location.open()) as store:
        store.replicas.register("another")
        executor, loop = Inline(), asyncio.get_running_loop()
        hub = Hub(store, executor, clock=deployment.clock, sleep=deployment.clock.sleep)
        manager = StudyManager(
            store,
            ServiceFleet(hub, store, loop),
            analysts=frozenset({PUBLIC}),
            now_s=deployment.clock,
            limits=limits,
        )
        standings = Standings(store, executor, system_now_s)
        admission = Admission(store, executor, Peers(Settings().unproven), standings)
        servicer = DevicesServicer(hub, admission, Settings(), lambda _: 0)
        manager.resume()
        there: Any = SimpleNamespace(
            disk=deployment.disk,
            clock=deployment.clock,
            recorder=deployment.recorder,
            setup=deployment.setup,
            servicer=lambda _: servicer,
        )
        try:
            yield manager, [Phone(there, one.ordinal) for one in deployment.phones[1::2]]
        finally:
            await hub.stop()
            await loop.run_in_executor(None, manager.stop)


async def until_ended(store: Store, digest: bytes, phones: Sequence[Phone]) -> None:
    """Let the devices check in until a study has ended."""
    async with asyncio.timeout(60):
        while store.conclusion(digest) is None:
            for phone in phones:
                await phone.check_in()
            await asyncio.sleep(0.02)


def lines_of(store: Store, digest: bytes) -> list[str]:
    return list(store.log(digest).lines())


async def alone() -> list[str]:
    """Return the transcript of the study in one process."""
    deployment = Deployment(PARITY)
    try:
        await deployment.submit(0)
        await until_ended(deployment.disk.store, deployment.digest(0), deployment.phones)
        return lines_of(deployment.disk.store, deployment.digest(0))
    finally:
        await deployment.stop()


def test_two_replicas_come_to_the_transcript_of_one(location: PostgresqlLocation) -> None:
    """An adaptive study of two rounds; every answer of the second follows from all of the first."""

    async def together() -> list[str]:
        deployment = Deployment(PARITY, store=location)
        store, digest = deployment.disk.store, deployment.digest(0)
        try:
            async with another(deployment, location) as (_, phones):
                await deployment.submit(0)
                await until_ended(store, digest, [*deployment.phones[::2], *phones])
                return lines_of(store, digest)
        finally:
            await deployment.stop()

    expected = asyncio.run(alone())
    assert len(expected) == 5
    assert asyncio.run(together()) == expected


def test_a_replica_that_has_lost_a_lease_lets_go_of_the_study(
    location: PostgresqlLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round is then another's, which it follows: it asks its devices, and ends nothing."""
    monkeypatch.setattr(replicas, "RENEW_S", 0.05)

    async def scenario() -> None:
        deployment = Deployment(PARITY, store=location)
        digest = deployment.digest(0)
        try:
            await deployment.submit(0)
            assert deployment.hub.followed(digest) is None
            with psycopg.connect(location.url) as connection:
                connection.execute(
                    "UPDATE askance.leases SET replica = 'another', token = token + 1,"
                    " expires_at = clock_timestamp() + interval '1 hour'"
                )
            async with asyncio.timeout(60):
                while deployment.hub.followed(digest) != (0, 0):
                    await asyncio.sleep(0.02)
        finally:
            await deployment.stop()

    asyncio.run(scenario())


def test_replicas_ask_the_tagged_devices_alone(location: PostgresqlLocation) -> None:
    """Two of the tagged devices call the replica that follows; it reads tags and users itself."""
    population = TaggedPopulation(("v2",), bytes(32))
    parameters = (("column", "smoker"), *signed_parameters(population).items())
    signed, tagged = study(parameters=parameters), [0, 1, 3, 4]

    async def scenario() -> None:
        deployment = Deployment(PEOPLE, store=location)
        store = deployment.disk.store
        try:
            async with another(deployment, location) as (manager, phones):
                ids = {one.ordinal: one.device_id for one in store.register.devices()}
                chosen = DeviceSelection(tuple(ids[ordinal] for ordinal in tagged))
                store.register.tag(chosen, ["v2"])
                digest = deployment.manager.submit(signed, population)
                await until_ended(store, digest, [*deployment.phones[::2], *phones])
                ended = manager.conclusion(digest, PUBLIC)
        finally:
            await deployment.stop()
        assert ended is not None
        found = json.loads(ended.result_json)
        assert found["population"] == {"tags": ["v2"], "devices": 4}
        assert (found["users_asked"], found["answers"]) == (4, 4)

    asyncio.run(scenario())


def test_a_study_is_cancelled_at_the_replica_that_does_not_drive_it(
    location: PostgresqlLocation,
) -> None:
    async def scenario() -> None:
        deployment = Deployment(PARITY, store=location)
        store, digest = deployment.disk.store, deployment.digest(0)
        try:
            async with another(deployment, location) as (manager, phones):
                await deployment.submit(0)
                for phone in phones[:3]:
                    await phone.check_in()
                assert manager.cancel(digest, PUBLIC) is StudyState.OPEN
                await until_ended(store, digest, ())
                assert manager.status(digest, PUBLIC).state is StudyState.CANCELLED
        finally:
            await deployment.stop()

    asyncio.run(scenario())


def test_a_study_is_paused_and_resumed_at_any_replica(location: PostgresqlLocation) -> None:
    """Whatever order and replica: within some looks each asks as the store says."""

    async def asked_within(phones: Sequence[Phone], deployment: Deployment) -> int:
        """Return how many answers the drive has after the devices checked in for a while."""
        for _ in range(60):
            for phone in phones:
                await phone.check_in()
            await asyncio.sleep(0.02)
        store = deployment.disk.store
        return sum(1 for line in lines_of(store, deployment.digest(0)) if '"closed"' in line)

    async def scenario() -> None:
        deployment = Deployment(PARITY, store=location)
        store, digest = deployment.disk.store, deployment.digest(0)
        try:
            async with another(deployment, location) as (manager, phones):
                await deployment.submit(0)
                everyone = [*deployment.phones[::2], *phones]
                assert manager.pause(digest, PUBLIC) is StudyState.OPEN  # here none is run
                await asyncio.sleep(1.5)
                assert await asked_within(everyone, deployment) == 0
                store.management.unpause(digest)  # as another replica does, without a word
                await until_ended(store, digest, everyone)
                ended = store.conclusion(digest)
                assert ended is not None
                assert ended.state is StudyState.DONE
        finally:
            await deployment.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("decision", ["approved", "refused", "withdrawn"])
def test_an_approver_decides_at_the_replica_that_does_not_drive(
    location: PostgresqlLocation, decision: str
) -> None:
    limits, key = SubmissionLimits(approval=True), Ed25519PrivateKey.from_private_bytes(b"b" * 32)
    bob, names = Approver("bob", key.public_key().public_bytes_raw()), frozenset({"ann"})

    async def scenario() -> None:
        deployment = Deployment(PARITY, store=location, limits=limits)
        store, digest = deployment.disk.store, deployment.digest(0)
        try:
            async with another(deployment, location, limits) as (manager, phones):
                await deployment.submit(0)
                everyone = [*deployment.phones[::2], *phones]
                for phone in everyone:
                    await phone.check_in()
                assert manager.status(digest, PUBLIC).reason == "awaiting-approval"
                if decision != "refused":
                    manager.approve(digest, bob, sign_approval(digest, key), names)
                    while not list(store.log(digest).lines()):
                        await asyncio.sleep(0.01)
                if decision == "withdrawn":
                    for phone in phones[:2]:
                        await phone.check_in()
                if decision != "approved":
                    manager.refuse(digest, bob, "too much", names)
                await until_ended(store, digest, everyone if decision == "approved" else ())
                ended = manager.status(digest, PUBLIC)
        finally:
            await deployment.stop()
        assert (ended.state.name, ended.reason) == {
            "approved": ("DONE", "done"),
            "refused": ("CANCELLED", "approval-refused"),
            "withdrawn": ("CANCELLED", "approval-withdrawn"),
        }[decision]

    asyncio.run(scenario())
