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

from grpc import aio

from askance_aggregator.server.devices import Hub, Peers, ServiceFleet, Settings
from askance_aggregator.server.devices.admission import Admission
from askance_aggregator.server.devices.servicer import DevicesServicer
from askance_aggregator.server.studies import StudyManager, SubmissionLimits, SubmissionRefused
from askance_aggregator.store import MemoryStore, SqliteStore, Store, StudyState
from askance_client.codec import digest_of
from askance_client.errors import StoreError
from askance_client.ledger import Ledger, LedgerFile
from askance_client.service import DeviceRunner, Identity, token_digest
from askance_simulation.disturbances.mortality import Life, mortal
from askance_simulation.fleets.memory_ledger import MemoryLedger
from tests.faults.network import Link, MessageRecorder
from tests.faults.people import NOW_S, PUBLIC, Setup

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
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

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

    async def sleep(self, milliseconds: int) -> None:
        """Waits for this clock."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((1000 * self.now + milliseconds, future))
        await future


class Disk:
    """State that outlives every process: the aggregator's store, and each device's ledger."""

    def __init__(self, folder: Path | None, users: int) -> None:
        self._folder = folder
        self._memory = [MemoryLedger() for _ in range(users)]
        if folder is None:
            self.store: Store = MemoryStore()
        else:
            self.store = SqliteStore.create(folder / "store")
            self._ledgers = LedgerFile.create(folder / "ledgers")

    def ledger(self, ordinal: int) -> Ledger:
        """A user's ledger."""
        if self._folder is None:
            return self._memory[ordinal]
        return self._ledgers.ledger(f"user {ordinal}")

    def reopen(self) -> None:
        """The aggregator's file is closed, and opened by another process."""
        if self._folder is not None:
            self.store.close()
            self.store = SqliteStore.open(self._folder / "store")

    def close(self) -> None:
        """Close the files."""
        self.store.close()
        if self._folder is not None:
            self._ledgers.close()


@dataclass
class Process:
    """Life of the aggregator."""

    life: Life
    hub: Hub
    manager: StudyManager
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
            self._deployment.servicer,
            self._deployment.recorder,
        )
        ledger = mortal(disk.ledger(self.ordinal), self.life)
        device = self._deployment.setup.device(self.ordinal, ledger, clock)
        channel: Any = self.link
        self.runner = DeviceRunner(
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
    """Everything together, in the running event loop."""

    def __init__(
        self,
        setup: Setup,
        folder: Path | None = None,
        *,
        limits: SubmissionLimits | None = None,
        analysts: frozenset[bytes] = frozenset({PUBLIC}),
    ) -> None:
        self.setup = setup
        self.clock = Clock()
        self.disk = Disk(folder, setup.users)
        self.recorder = MessageRecorder()
        self.cancelled: set[bytes] = set()  # as the analyst was informed
        self.limits = limits
        self.analysts = analysts
        self.disk.store.enrol(
            (identity.device_id, token_digest(identity.token))
            for identity in map(_identity, range(setup.users))
        )
        self._process = self._start()
        self.phones = [Phone(self, ordinal) for ordinal in range(setup.users)]

    @property
    def manager(self) -> StudyManager:
        """Study manager of the running aggregator."""
        return self._process.manager

    @property
    def hub(self) -> Hub:
        """Hub of the running aggregator."""
        return self._process.hub

    @property
    def life(self) -> Life:
        """Life of the running aggregator."""
        return self._process.life

    def servicer(self) -> DevicesServicer | None:
        """Servicer of the running aggregator, as the network finds it."""
        return None if self._process.life.ended else self._process.servicer

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
            if self.life.ended:
                await self.restart()
            elif self._still():
                return
            else:
                await asyncio.sleep(_LOOK_EVERY_S)
        raise AssertionError("a study neither asks nor ends")

    async def restart(self) -> None:
        """End the aggregator, if it has not died, and start another on the same store."""
        process = self._process
        await process.hub.stop()
        await asyncio.get_running_loop().run_in_executor(None, process.manager.stop)
        process.life.end()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self.disk.reopen()
        self._process = self._start()
        await self.settle()

    async def stop(self) -> None:
        """End everything."""
        for phone in self.phones:
            await phone.hang_up()
        await self._process.hub.stop()
        await asyncio.get_running_loop().run_in_executor(None, self.manager.stop)
        self.disk.close()

    def _start(self) -> Process:
        life = Life()
        store = mortal(self.disk.store, life)
        executor, loop = Inline(), asyncio.get_running_loop()
        hub = Hub(store, executor, clock=self.clock, sleep=self.clock.sleep)
        manager = StudyManager(
            store,
            ServiceFleet(hub, store, loop),
            analysts=self.analysts,
            limits=self.limits,
            now_s=self.clock,
        )
        admission = Admission(store, executor, Peers(Settings().unproven))
        servicer = DevicesServicer(hub, admission, Settings(), lambda _: 0)
        manager.resume()
        return Process(life, hub, manager, servicer)

    def _still(self) -> bool:
        """Return whether every running study waits for devices or has ended."""
        return all(
            run.over.is_set() or self.hub.progress(digest)[0] > 0
            for digest, run in tuple(self.manager._runs.items())
        )


def _identity(ordinal: int) -> Identity:
    return Identity(b"device %d" % ordinal, b"token of device %d" % ordinal)


async def _for_ever(_: int) -> None:
    await asyncio.Event().wait()
