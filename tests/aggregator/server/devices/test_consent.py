"""An owner's consent with an aggregator on loopback: held until approved, then answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Round
from askance_client.cli.folder import OpenFolder
from askance_client.cli.home import DeviceHome
from askance_client.codec import digest_of
from askance_client.device import Policy
from askance_client.errors import InvalidParameter
from askance_client.ledger import LedgerFile
from askance_client.messages import Reason, Refusal
from askance_client.owner import ConsentRule, Consents, ControlServer, ask_running
from askance_client.service import Gateway, Member, channel_options
from askance_client.service.multiplexer import Multiplexer
from askance_client.service.observable import Sleep, sleep_ms

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

MEMBERS = 3


class Log:
    """Record of a gateway's events."""

    def __init__(self) -> None:
        self.answers: list[Reason | None] = []
        self.texts: list[Refusal] = []
        self.failures: list[str] = []

    def answered(self, refusal: Reason | None) -> None:
        self.answers.append(refusal)

    def refused(self, refusal: Refusal) -> None:
        self.texts.append(refusal)

    def failed(self, failure: str) -> None:
        self.failures.append(failure)

    def connection(self, number: int, *, up: bool) -> None:
        """Connections are of no interest."""


class Owned:
    """A folder with a gateway in it, its socket, and what its owner asks."""

    def __init__(self, world: World, folder: Path, rule: ConsentRule = ConsentRule.ASK) -> None:
        self.home = DeviceHome.create(folder, "")
        self.world, self.rule, self.log = world, rule, Log()
        self.consent_wait_ms = 200
        self.sleep: Sleep = sleep_ms
        key = world.key.public_key().public_bytes_raw()
        self.policy = Policy(frozenset({key}), 10**10)

    def ask(self, operation: str, /, **arguments: Any) -> list[dict[str, Any]]:
        found = ask_running(self.home.control_path, operation, arguments)
        assert found is not None  # a device runs: the files are not opened beside it
        return found

    @asynccontextmanager
    async def running(self, address: str) -> Any:
        ledgers = LedgerFile.open(self.home.ledger_path)
        consents = Consents.open(self.home.consents_path, self.rule)
        gateway = self._gateway(address, ledgers, consents)
        folder = OpenFolder(
            self.home,
            ledgers,
            consents,
            self._configuration,
            running=True,
            now_s=lambda: int(self.world.now_s),
        )
        control = ControlServer(self.home.control_path, folder.operations())
        task = asyncio.ensure_future(gateway.run())
        try:
            async with control.serving():
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            consents.close()
            ledgers.close()

    def _configuration(self) -> Any:
        """Return the part of a configuration that the operations need; there is no file."""
        return SimpleNamespace(policy=self.policy, consent_days=None)

    def _gateway(self, address: str, ledgers: LedgerFile, consents: Consents) -> Gateway:
        world = self.world
        return Gateway(
            [
                Member(
                    str(ordinal),
                    world.identity(ordinal),
                    world.schema.encode({"smoker": ordinal % 2}),
                    ledgers.ledger(str(ordinal)),
                )
                for ordinal in range(MEMBERS)
            ],
            schema=world.schema,
            policy=Policy(self.policy.analysts, self.policy.life_nano_nats, consent=consents),
            coins_for=lambda name: world.device(int(name))._coins,
            now_s=lambda: int(world.now_s),
            channel=lambda: aio.insecure_channel(
                address, options=channel_options(own_connection=True)
            ),
            connections=1,
            watcher=self.log,
            identity=world.gateway(),
            jitter=lambda bound: min(bound, 10),
            consent_wait_ms=self.consent_wait_ms,
            sleep=self.sleep,
        )


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@pytest.fixture
def owned(world: World, store: SqliteStore, tmp_path: Path) -> Owned:
    world.enrol(store, MEMBERS)
    return Owned(world, tmp_path / "device")


async def waiting(owned: Owned) -> dict[str, Any]:
    """The status of the running device, when all members hold their question."""
    await until(lambda: len(owned.log.texts) >= MEMBERS)
    (status,) = await asyncio.to_thread(owned.ask, "status")
    return status


def test_a_study_is_approved_while_it_runs_and_its_charge_appears(
    owned: Owned, world: World, server: AggregatorServer, run: Callable[..., Any]
) -> None:
    round_ = world.broadcast(MEMBERS)

    async def serve() -> tuple[Any, ...]:
        async with owned.running(server.address):
            asking = asyncio.ensure_future(
                asyncio.to_thread(server.fleet.ask, round_, world.accounts(MEMBERS))
            )
            before = await waiting(owned)
            assert not asking.done()
            assert owned.log.answers == []  # nothing leaves while it is held
            study = before["waiting"][0]["study"]
            explained = await asyncio.to_thread(owned.ask, "explain", name=study[:16])
            told = await asyncio.to_thread(owned.ask, "approve", study=study[:16])
            tallies = await asking
            history = await asyncio.to_thread(owned.ask, "history")
            after = (await asyncio.to_thread(owned.ask, "status"))[0]
            return before, explained, told, tallies, history, after

    before, explained, told, tallies, history, after = run(serve())
    assert (before["spent_nano_nats"], before["answers"]) == (0, 0)
    assert before["running"] is True
    assert {text.reason for text in owned.log.texts} == {Reason.WAITING}
    (asked,) = explained[0]["questions"]
    assert asked["odds"] == "2.72"
    assert told[0]["state"] == "approved"
    alone = world.straight(round_, world.devices(MEMBERS))
    assert [tally.counts for tally in tallies] == [tally.counts for tally in alone]
    assert set(owned.log.answers) == {None}  # a stream opened anew may bring a kept answer again
    assert [entry["nano_nats"] for entry in history] == [asked["nano_nats"]] * MEMBERS
    assert history[0]["analysts"] == [world.key.public_key().public_bytes_raw().hex()]
    assert after["answers"] == MEMBERS
    assert after["waiting"] == []


def test_a_denied_study_is_refused_and_charges_nothing(
    owned: Owned, world: World, server: AggregatorServer, run: Callable[..., Any]
) -> None:
    async def serve() -> tuple[Any, ...]:
        async with owned.running(server.address):
            asking = asyncio.ensure_future(
                asyncio.to_thread(
                    server.fleet.ask, world.broadcast(MEMBERS), world.accounts(MEMBERS)
                )
            )
            study = (await waiting(owned))["waiting"][0]["study"]
            await asyncio.to_thread(owned.ask, "deny", study=study, why="not this")
            return await asking, await asyncio.to_thread(owned.ask, "history")

    tallies, history = run(serve())
    assert [tally.refusals for tally in tallies] == [((Reason.NOT_APPROVED, MEMBERS),)]
    assert history == []


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_nothing_leaves_at_the_time_of_a_decision(
    owned: Owned,
    world: World,
    server: AggregatorServer,
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    decision: str,
) -> None:
    """The stream is opened anew at times of its own; until then the aggregator sees no change."""
    waits: list[float] = []
    opened: list[int] = []
    reopen = Multiplexer.reopen

    async def noted(multiplexer: Multiplexer) -> None:
        opened.append(1)
        await reopen(multiplexer)

    monkeypatch.setattr(Multiplexer, "reopen", noted)

    async def serve() -> tuple[Any, ...]:
        tick = asyncio.Semaphore(0)

        async def sleep(milliseconds: float) -> None:
            if milliseconds < 10_000:
                return await sleep_ms(milliseconds)
            waits.append(milliseconds)
            await tick.acquire()
            return None

        owned.consent_wait_ms, owned.sleep = 600_000, sleep
        async with owned.running(server.address):
            asking = asyncio.ensure_future(
                asyncio.to_thread(
                    server.fleet.ask, world.broadcast(MEMBERS), world.accounts(MEMBERS)
                )
            )
            study = (await waiting(owned))["waiting"][0]["study"]
            tick.release()  # a time comes before the decision: nothing is answered
            await until(lambda: len(owned.log.texts) >= 2 * MEMBERS)
            before = len(opened), len(owned.log.answers)
            await asyncio.to_thread(owned.ask, decision, study=study)
            await asyncio.sleep(0.2)
            after = len(opened), len(owned.log.answers)
            tick.release()
            return before, after, await asking

    before, after, tallies = run(serve())
    assert (before, after) == ((1, 0), (1, 0))
    assert set(waits) == {300_010}  # half of the mean, and what the jitter adds
    assert sum(t.answered for t in tallies) == (MEMBERS if decision == "approve" else 0)


def test_an_approval_is_in_force_after_a_restart(
    owned: Owned, world: World, server: AggregatorServer, run: Callable[..., Any]
) -> None:
    async def serve() -> Any:
        async with owned.running(server.address):
            asking = asyncio.ensure_future(
                asyncio.to_thread(
                    server.fleet.ask, world.broadcast(MEMBERS), world.accounts(MEMBERS)
                )
            )
            study = (await waiting(owned))["waiting"][0]["study"]
            await asyncio.to_thread(owned.ask, "approve", study=study)
        async with owned.running(server.address):
            return await asking

    tallies = run(serve())
    assert sum(tally.answered for tally in tallies) == MEMBERS


def test_no_altered_study_rides_on_an_approval(
    owned: Owned, world: World, server: AggregatorServer, run: Callable[..., Any]
) -> None:
    """A hostile aggregator has an analyst's key, and signs a study of the same name."""

    async def serve() -> list[dict[str, Any]]:
        async with owned.running(server.address):
            asking = asyncio.ensure_future(
                asyncio.to_thread(
                    server.fleet.ask, world.broadcast(MEMBERS), world.accounts(MEMBERS)
                )
            )
            study = (await waiting(owned))["waiting"][0]["study"]
            await asyncio.to_thread(owned.ask, "approve", study=study)
            await asking
            altered = world.signed_study(nonce=bytes(15) + b"\1")
            group = world.group(range(MEMBERS), MEMBERS, number=1, study=altered)
            digest = digest_of(altered.study)
            held = len(owned.log.texts)
            again = asyncio.ensure_future(
                asyncio.to_thread(
                    server.fleet.ask, Round(1, altered, digest, (group,)), world.accounts(MEMBERS)
                )
            )
            await until(lambda: len(owned.log.texts) >= held + MEMBERS)
            (status,) = await asyncio.to_thread(owned.ask, "status")
            assert [known["study"] for known in status["waiting"]] == [digest.hex()]
            assert not again.done()
            await asyncio.to_thread(owned.ask, "deny", study=digest.hex())
            await again
            return await asyncio.to_thread(owned.ask, "history")

    history = run(serve())
    assert len(history) == MEMBERS
    assert {entry["study"] for entry in history} == {digest_of(world.study.study).hex()}


def test_a_bad_name_over_the_socket_changes_nothing(
    owned: Owned, world: World, server: AggregatorServer, run: Callable[..., Any]
) -> None:
    async def serve() -> None:
        async with owned.running(server.address):
            wrong: list[dict[str, Any]] = [
                {"study": "ffffffff"},
                {"study": 5},
                {},
                {"study": "00", "analyst": "zz"},
            ]
            for arguments in wrong:
                with pytest.raises(InvalidParameter):
                    await asyncio.to_thread(partial(owned.ask, "approve", **arguments))

    run(serve())
