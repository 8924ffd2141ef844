"""Aggregator and devices, every part the real one, on a hand-made clock and network.

The caller has one thread; studies have theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from askance_aggregator.clock import system_now_s
from askance_aggregator.server.devices import Hub, Peers, ServiceFleet, Settings
from askance_aggregator.server.devices.admission import Admission
from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.server.studies import (
    Collector,
    KeepLimits,
    StudyManager,
    SubmissionLimits,
    SubmissionRefused,
)
from askance_aggregator.server.studies.approvals import ApprovalStanding, ApproverCheck
from askance_aggregator.store import (
    SqliteLocation,
    SqliteStore,
    Store,
    StoreLocation,
    StudyState,
)
from askance_aggregator.store.register import Affected, DeviceSelection, Register
from askance_aggregator.studies.keep import Keep
from askance_client.codec import digest_of
from askance_client.errors import StoreError
from askance_client.ledger import Ledger, LedgerFile
from askance_client.service import Identity, token_digest
from askance_simulation.disturbances.unlucky import Life, mortal
from askance_simulation.fleets.memory_ledger import MemoryLedger
from askance_simulation.stream_runner import StreamRunner
from tests.faults.network import Link, MessageRecorder
from tests.faults.people import NOW_S, PUBLIC, Setup

Change = Callable[[Register, DeviceSelection], Affected]
"""Change of the standing of selected devices."""

_TURNS = 40  # of the loop, in which everything that waits for no thread has happened
_LOOK_EVERY_S = 0.0003
_PATIENCE = 100_000


class Inline(Executor):
    """Works at once, in the thread that asks: the order of things is always the same."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class Clock:
    """A clock that is set; who waits is woken when it has passed."""

    boot = "the only boot"

    def __init__(self) -> None:
        self.now = NOW_S
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def __call__(self) -> int:
        return self.now

    def now_ms(self) -> int:
        """Return the time of a steady clock, which is never set."""
        return 1000 * self.now

    def advance(self, seconds: int) -> None:
        """Advance the clock."""
        self.now += seconds
        due = [future for until, future in self._waiting if until <= 1000 * self.now]
        self._waiting = [(u, f) for u, f in self._waiting if u > 1000 * self.now]
        for future in due:
            if not future.done():
                future.set_result(None)

    async def sleep(self, milliseconds: float) -> None:
        """Waits for this clock."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((1000 * self.now + milliseconds, future))
        await future


class Disk:
    """State that outlives every process: the aggregator's store, and each device's ledger."""

    def __init__(
        self, folder: Path | None, users: int, location: StoreLocation | None = None
    ) -> None:
        self._folder = folder
        self._memory = [MemoryLedger() for _ in range(users)]
        if folder is not None:
            self._ledgers = LedgerFile.create(folder / "ledgers")
            if location is None:
                SqliteStore.create(folder / "store").close()
                location = SqliteLocation(folder / "store")
        self._location = location
        self.store: Store = SqliteStore.in_memory() if location is None else location.open()

    def ledger(self, ordinal: int) -> Ledger:
        """A user's ledger."""
        if self._folder is None:
            return self._memory[ordinal]
        return self._ledgers.ledger(f"user {ordinal}")

    def reopen(self) -> None:
        """The aggregator's store is closed, and opened by another process."""
        if self._location is not None:
            self.store.close()
            self.store = self._location.open()

    def check_alone(self) -> None:
        """Check that no second process is admitted to a SQLite store; it has no replicas."""
        if self._folder is not None and isinstance(self._location, SqliteLocation):
            with pytest.raises(StoreError, match="in use: stop that process first"):
                self._location.open()

    def close(self) -> None:
        """Close the files."""
        if self._location is not None:  # one in memory is read after its end
            self.store.close()
        if self._folder is not None:
            self._ledgers.close()


@dataclass
class Process:
    """Aggregator's process."""

    life: Life
    store: Store
    hub: Hub
    manager: StudyManager
    standings: Standings
    servicer: DevicesServicer


class Phone:
    """Device of one user: its memory is lost when it dies, its ledger is not."""

    def __init__(self, deployment: Deployment, ordinal: int) -> None:
        self._deployment = deployment
        self.ordinal = ordinal
        self.identity = _identity(ordinal)
        self._streaming: asyncio.Future[None] | None = None
        self.boot()

    def boot(self) -> None:
        """Start anew, with its ledger and nothing else."""
        disk, clock = self._deployment.disk, self._deployment.clock
        self.life = Life()
        self.link = Link(
            self.ordinal,
            _identity(self.ordinal),
            lambda: self._deployment.servicer(self.ordinal),
            self._deployment.recorder,
        )
        ledger = mortal(disk.ledger(self.ordinal), self.life)
        device = self._deployment.setup.device(self.ordinal, ledger, clock)
        channel: Any = self.link
        self.runner = StreamRunner(
            device, self.identity, channel, jitter=lambda _: 0, sleep=_for_ever
        )

    async def check_in(self) -> None:
        """Once; a failure is the network's, the aggregator's or its own end."""
        await self.hang_up()
        with suppress(aio.AioRpcError, StoreError):
            await self.runner.check_in_once()

    async def dial(self, messages: int) -> None:
        """Hold a stream open for a number of messages or until it does something else."""
        await self.hang_up()
        self.link.messages = messages
        self._streaming = asyncio.ensure_future(self.runner.participate())

    async def hang_up(self) -> None:
        """End its stream; what dies of its own is started anew."""
        streaming, self._streaming = self._streaming, None
        if streaming is not None:
            streaming.cancel()
            found = await asyncio.gather(streaming, return_exceptions=True)
            assert isinstance(found[0], asyncio.CancelledError | StoreError), found
        stream, self.link.stream = self.link.stream, None
        if stream is not None:
            stream.cancel()
            await stream.served()
        if self.life.ended:
            self.boot()


class Deployment:
    """Everything together, in the running event loop.

    Args:
      setup: users, plans and policies.
      folder: of the devices' ledgers and of the aggregator's store, each a file; None: in memory.
      store: address of the aggregator's store, if it is another.
      limits: what an analyst may submit.
      analysts: public keys of those who may submit.
    """

    def __init__(
        self,
        setup: Setup,
        folder: Path | None = None,
        *,
        store: StoreLocation | None = None,
        limits: SubmissionLimits | None = None,
        analysts: frozenset[bytes] = frozenset({PUBLIC}),
    ) -> None:
        self.setup = setup
        self.clock = Clock()
        self.disk = Disk(folder, setup.users, store)
        self.recorder = MessageRecorder()
        self.cancelled: set[bytes] = set()  # as the analyst was informed
        self.out: set[int] = set()  # revoked and forgotten users, as every process knows
        self.forgotten: set[int] = set()
        self.limits = limits
        self.analysts = analysts
        # Of the processes that start from now on.
        self.may_approve: ApproverCheck = lambda *_: ApprovalStanding.COUNTS
        self.disk.store.enrol(
            (identity.device_id, token_digest(identity.token))
            for identity in map(_identity, range(setup.users))
        )
        self._processes = self._start_all()
        self.phones = [Phone(self, ordinal) for ordinal in range(setup.users)]

    @property
    def manager(self) -> StudyManager:
        """Study manager of the running aggregator."""
        return self._processes[0].manager

    @property
    def hub(self) -> Hub:
        """Hub of the running aggregator."""
        return self._processes[0].hub

    @property
    def life(self) -> Life:
        """Life of the running aggregator."""
        return self._processes[0].life

    @property
    def reachable(self) -> bool:
        """Return whether the store can be read."""
        return True

    def process(self, number: int) -> Process:
        """Return a process by its number; it may have died."""
        return self._processes[number]

    def servicer(self, ordinal: int) -> DevicesServicer | None:
        """Servicer of the running aggregator, as the network finds it for a device."""
        return _servicer(self._processes[0])

    def digest(self, place: int) -> bytes:
        """The study of a plan."""
        return digest_of(self.setup.signed(place).study)

    async def submit(self, place: int) -> None:
        """The analyst submits a plan, and again after a failure when it likes."""
        with suppress(StoreError, SubmissionRefused):
            self.manager.submit(self.setup.signed(place))
        await self.settle()

    async def cancel(self, place: int) -> None:
        """The analyst cancels a study."""
        digest = self.digest(place)
        if self.disk.store.study(digest) is None:
            return
        manager = self.manager
        with suppress(StoreError):
            manager.cancel(digest, PUBLIC)
            for _ in range(_PATIENCE):
                if manager.status(digest, PUBLIC).state is not StudyState.OPEN:
                    break
                await asyncio.sleep(_LOOK_EVERY_S)
            if manager.status(digest, PUBLIC).state is StudyState.CANCELLED:
                self.cancelled.add(digest)
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing moves any more; an aggregator that has died meanwhile comes back."""
        for _ in range(_PATIENCE):
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            if await self._replace_dead():
                continue
            if self._still():
                return
            await asyncio.sleep(_LOOK_EVERY_S)
        raise AssertionError("a study neither asks nor ends")

    async def restart(self) -> None:
        """End the aggregator, if it has not died, and start another on the same store."""
        await self._end(self._processes[0])
        self.disk.reopen()
        self._processes = self._start_all()
        await self.notice()
        await self.settle()

    def known_ends(self, ended: set[bytes]) -> set[bytes]:
        """Return which of the studies that have ended every process knows to have ended."""
        return ended

    async def recover(self) -> None:
        """Start every process that has died."""
        if self.life.ended:
            await self.restart()

    def check(self) -> None:
        """Check what only this kind of deployment has; nothing."""

    def close_rounds(self) -> None:
        """Close every open round, as an operator does."""
        for process in self._processes:
            for digest in self.disk.store.listing.open_studies():
                process.hub.close_round(digest)

    async def change(self, ordinal: int, change: Change) -> bool:
        """Change a device's standing, as an operator's command does; then each process knows it.

        Returns:
          Whether the store could be changed.
        """
        selection = DeviceSelection(ids=(_identity(ordinal).device_id,))
        change(self.disk.store.register, selection)
        await self.notice()
        await self.settle()
        return True

    async def notice(self) -> None:
        """Let the processes read the register, as each does several times a second."""
        for process in self._processes:
            if not process.life.ended:
                changes = await process.standings._refresh()
                if changes is not None:
                    process.servicer.apply(changes)

    def collect(self, reports_days: int) -> None:
        """Delete what is due of studies that have ended."""
        limits = KeepLimits(default=Keep(reports_days=reports_days))
        Collector(self.disk.store, limits, self.clock, lambda _: False).collect()

    async def stop(self) -> None:
        """End everything."""
        for phone in self.phones:
            await phone.hang_up()
        for process in self._processes:
            await process.hub.stop()
            await asyncio.get_running_loop().run_in_executor(None, process.manager.stop)
        self.disk.close()

    async def _replace_dead(self) -> bool:
        """Start a process in place of one that has died; return whether one had."""
        if not self.life.ended:
            return False
        await self.restart()
        return True

    async def _end(self, process: Process) -> None:
        """End a process, and wait until nothing of it moves."""
        await process.hub.stop()
        await asyncio.get_running_loop().run_in_executor(None, process.manager.stop)
        process.life.end()
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def _start_all(self) -> list[Process]:
        life = Life()
        return [self._start(mortal(self.disk.store, life), life)]

    def _start(self, store: Store, life: Life) -> Process:
        executor, loop = Inline(), asyncio.get_running_loop()
        hub = Hub(store, executor, clock=self.clock, sleep=self.clock.sleep)
        manager = StudyManager(
            store,
            ServiceFleet(hub, store, loop),
            analysts=self.analysts,
            limits=self.limits,
            now_s=self.clock,
            look_s=_LOOK_EVERY_S,
            random_bytes=bytes,
            may_approve=self.may_approve,
        )
        standings = Standings(store, executor, system_now_s)
        admission = Admission(store, executor, Peers(Settings().unproven), standings)
        servicer = DevicesServicer(hub, admission, Settings(), lambda _: 0)
        manager.resume()
        return Process(life, store, hub, manager, standings, servicer)

    def _still(self) -> bool:
        """Return whether every running study waits for devices or has ended."""
        return all(map(_waits, self._processes))


def _waits(process: Process) -> bool:
    return all(
        run.over.is_set() or run.waiting or process.hub.progress(digest)[0] > 0
        for digest, run in tuple(process.manager._runs.items())
    )


def _servicer(process: Process) -> DevicesServicer | None:
    return None if process.life.ended else process.servicer


def _identity(ordinal: int) -> Identity:
    return Identity(b"device %d" % ordinal, b"token of device %d" % ordinal)


async def _for_ever(_: float) -> None:
    await asyncio.Event().wait()
