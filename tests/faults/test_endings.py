"""Ends of studies and of devices at the moment at which something is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from askance_aggregator.server.devices import Peers, Settings
from askance_aggregator.server.devices.admission import Admission
from askance_aggregator.server.devices.credentials import (
    read_credentials,
)
from askance_aggregator.server.devices.standings import Revoked, Standings
from askance_aggregator.store import StudyState
from askance_aggregator.store.register import DeviceSelection
from askance_client.service import (
    device_metadata,
    token_digest,
)
from tests.faults.deployment import Deployment, Inline
from tests.faults.invariants import check, finish
from tests.faults.people import PEOPLE, PUBLIC, undisturbed
from tests.faults.replicated import ReplicaStore, ReplicatedDeployment, SharedDatabase
from tests.faults.steps import Steps
from tests.postgresql import PostgresqlServer


@pytest.fixture(scope="module")
def shared(postgresql: PostgresqlServer) -> SharedDatabase:
    return SharedDatabase(postgresql)


def played(deployment: Callable[[], Deployment], scene: Callable[[Any], Awaitable[None]]) -> None:
    """Run a scene on a deployment in which the first study is open."""

    async def whole() -> None:
        made = deployment()
        try:
            async with asyncio.timeout(60):
                await made.submit(0)
                await scene(made)
        finally:
            await made.stop()

    asyncio.run(whole())


@pytest.mark.parametrize("kept", [False, True], ids=["before it is durable", "after it"])
def test_a_cancellation_whose_acknowledgement_is_lost(kept: bool, tmp_path: Path) -> None:
    """The aggregator dies at the end that it writes; the analyst cancels again, and is informed."""

    async def scene(deployment: Deployment) -> None:
        digest, steps = deployment.digest(0), Steps(deployment)
        await deployment.phones[0].check_in()
        deployment.life.end_at(0, kept=kept)
        deployment.manager.cancel(digest, PUBLIC)
        await deployment.settle()  # it has died, and another process runs
        steps.check()
        state = deployment.manager.status(digest, PUBLIC).state
        assert state is (StudyState.CANCELLED if kept else StudyState.OPEN)
        await deployment.cancel(0)
        assert deployment.manager.cancel(digest, PUBLIC) is StudyState.CANCELLED
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.restart()
        steps.check()
        charged = [
            phone.ordinal
            for phone in deployment.phones
            if list(deployment.disk.ledger(phone.ordinal).history())
        ]
        assert charged == [0]
        check(deployment)

    played(lambda: Deployment(PEOPLE, tmp_path), scene)


def test_a_cancellation_at_a_replica_that_dies_before_it_answers(shared: SharedDatabase) -> None:
    """The replica that was asked notes it, and dies; the one that drives the study ends it."""

    async def scene(deployment: ReplicatedDeployment) -> None:
        digest, steps = deployment.digest(0), Steps(deployment)
        asked = deployment.process(1)
        assert asked.manager.cancel(digest, PUBLIC) is StudyState.OPEN
        await deployment.end(1, killed=True)
        await deployment.look_at(0)
        steps.check()
        await deployment.begin(1)
        again = deployment.process(1).manager
        assert again.cancel(digest, PUBLIC) is StudyState.CANCELLED
        for phone in deployment.phones:
            await phone.check_in()
        steps.check()
        assert all(not list(deployment.disk.ledger(n).history()) for n in range(PEOPLE.users))

    played(lambda: ReplicatedDeployment(PEOPLE, shared), scene)


POINTS = [("close_round", "after"), ("append", "before"), ("append", "after")]
POINTS += [("conclude", "before"), ("conclude", "after")]


@pytest.mark.parametrize(("write", "moment"), POINTS)
def test_a_lease_is_lost_while_the_last_round_ends(
    shared: SharedDatabase, write: str, moment: str
) -> None:
    """The other replica takes over between two writes of the end; there is one end, the same."""

    async def scene(deployment: ReplicatedDeployment) -> None:
        driver, steps = cast(ReplicaStore, deployment.process(0).store), Steps(deployment)
        taken: list[str] = []

        def lose() -> None:
            if not taken:
                taken.append(write)
                deployment.take_over(0)

        await deployment.look()  # the other replica follows the round
        driver.interrupt(write, moment, lose)
        for phone in deployment.phones:
            await phone.check_in()
        await deployment.settle()
        await deployment.look()
        assert taken == [write]
        await finish(deployment)
        steps.check()
        check(deployment)
        ended = deployment.manager.conclusion(deployment.digest(0), PUBLIC)
        assert ended is not None
        assert undisturbed(PEOPLE, 0).transcript in ended.result_json
        assert all(not entry.drives for entry in deployment.disk.store.replicas.listing())

    played(lambda: ReplicatedDeployment(PEOPLE, shared), scene)


def test_a_device_that_is_forgotten_is_remembered_no_more() -> None:
    """A device that was admitted before is refused; its id enrols anew as another user."""

    async def scene(deployment: Deployment) -> None:
        phone, store = deployment.phones[0], deployment.disk.store
        await phone.check_in()
        answered = len(deployment.recorder.responses)
        assert answered
        assert not deployment.recorder.statuses
        assert await deployment.change(0, lambda register, which: register.forget(which))
        await phone.check_in()
        assert deployment.recorder.statuses == {grpc.StatusCode.UNAUTHENTICATED}
        enrolled = [(phone.identity.device_id, token_digest(phone.identity.token))]
        assert list(store.enrol(enrolled)) == [PEOPLE.users]
        await phone.check_in()
        assert len(deployment.recorder.responses) > answered
        deployment.close_rounds()
        await deployment.settle()
        assert [n for n, _ in store.reports(next(iter(requests(deployment))))] == [0]

    played(lambda: Deployment(PEOPLE), scene)


class Held(Executor):
    """Works at once, and hands out a result when it is let go."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        result = work(*args, **kwargs)
        self.waiting.append(lambda: future.set_result(result))
        return future


def test_a_device_that_is_forgotten_while_it_is_looked_up_is_not_remembered() -> None:
    """The look-up has read the device before it was erased, and answers after that is known."""

    async def scene(deployment: Deployment) -> None:
        store, identity = deployment.disk.store, deployment.phones[0].identity
        standings = Standings(store, Inline(), deployment.clock)
        held = Held()
        admission = Admission(store, held, Peers(Settings().unproven), standings)
        credentials = read_credentials(device_metadata(identity))
        calling = asyncio.ensure_future(admission.ordinal(credentials, "ipv4:192.0.2.1:1"))
        while not held.waiting:
            await asyncio.sleep(0)
        store.register.forget(DeviceSelection(ids=(identity.device_id,)))
        changes = await standings._refresh()
        assert changes is not None
        admission.forget(changes.devices)
        held.waiting.pop()()
        with pytest.raises(Revoked, match="forgotten"):
            await calling
        assert not admission._known

    played(lambda: Deployment(PEOPLE), scene)


def requests(deployment: Deployment) -> set[bytes]:
    """Return the digests of what the first device was asked."""
    return {entry.request_digest for entry in deployment.disk.ledger(0).history()}
