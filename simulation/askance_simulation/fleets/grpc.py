"""Devices over real gRPC on loopback: the service, its SQLite store, and the devices' streams."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from grpc import aio

from askance_aggregator.server.devices import (
    AggregatorServer,
    Hub,
    PeerLimits,
    ServerParts,
    Settings,
)
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Accounts, Round, Tally, TranscriptLog
from askance_client.codec import digest_of
from askance_client.errors import LocalProtocolError
from askance_client.garbage_collection import rare_collections
from askance_client.messages import Reason, SignedStudy
from askance_client.service import channel_options
from askance_client.service.channels import NO_PROXY
from askance_simulation.disturbances import Fates, FaultRecorder
from askance_simulation.disturbances.invariants import check_store
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.opened import OpenedFleet, Progress
from askance_simulation.fleets.streams import (
    STREAMS_PER_CONNECTION,
    FaultyStreams,
    MakeStreams,
    Runtime,
    SharedStreams,
    Streams,
)

_DIALLING = 64  # streams that are opened between two turns of the loop
_STOP_S = 30.0


class Runners:
    """Devices of a fleet, of which the present ones are on an open stream.

    No device connects before `attend` sets which ones are present.
    """

    def __init__(self, streams: Streams, server: AggregatorServer) -> None:
        self._streams = streams
        self._server = server
        self._channels: list[aio.Channel] = []
        self._running: dict[tuple[int, ...], asyncio.Task[None]] = {}  # by the stream's devices
        self._failure: BaseException | None = None
        self._over = False
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(), server.loop)

    def check(self) -> None:
        """Raise what a device's runtime ended with."""
        if self._failure is not None:
            raise LocalProtocolError("devices: expected them to run on, got one that ended") from (
                self._failure
            )

    def attend(self, away: Collection[int]) -> Future[None]:
        """Set the absent devices; all others connect. Callable from any thread, returns at once.

        Returns:
          Done when those who are not there have hung up, and the others dial.
        """
        attending = self._attend(frozenset(away))
        return asyncio.run_coroutine_threadsafe(attending, self._server.loop)

    def stop(self) -> None:
        """Disconnect all devices."""
        self._serving.cancel()
        with suppress(CancelledError):
            self._serving.result(_STOP_S)

    async def _serve(self) -> None:
        self._channels = [
            aio.insecure_channel(
                self._server.address, options=[*channel_options(own_connection=True), NO_PROXY]
            )
            for _ in range(self._streams.connections)
        ]
        try:
            await asyncio.Event().wait()
        finally:
            self._over = True
            await self._hang_up(list(self._running))
            for channel in self._channels:
                await channel.close()

    async def _attend(self, away: frozenset[int]) -> None:
        """Keep the streams whose devices stay the same, end the others, open what is missing."""
        wanted = {ordinals: number for number, ordinals in self._streams.present(away)}
        await self._hang_up([ordinals for ordinals in self._running if ordinals not in wanted])
        opened = [stream for stream in wanted.items() if stream[0] not in self._running]
        for place, (ordinals, number) in enumerate(opened):
            runtime = self._streams.runtime(ordinals, self._channels[number])
            self._running[ordinals] = asyncio.ensure_future(self._participate(runtime))
            if place % _DIALLING == 0:
                await asyncio.sleep(0)  # lets a stop take effect while they connect
                if self._over:
                    return

    async def _hang_up(self, streams: Sequence[tuple[int, ...]]) -> None:
        leaving = [self._running.pop(ordinals) for ordinals in streams]
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)

    async def _participate(self, runtime: Runtime) -> None:
        try:
            await runtime.participate()
        except Exception as error:
            self._failure = error
            await self._server.hub.stop()  # a caller that waits for a round would wait for ever


_LOOK_AGAIN_S = 0.01  # until a round that has been opened is asked


class Attendance(Observer):
    """Observer that closes a round when only the absent devices have not answered.

    It observes the service in its event loop.
    """

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self._study = b""
        self._away = 0
        self._looking = False

    def expect(self, hub: Hub, study: bytes, away: int) -> None:
        """Set the number of answers that will not come, before a round of a study opens."""
        self._hub, self._study, self._away = hub, study, away

    def round_opened(self) -> None:
        """Schedule a check, since all devices may be absent."""
        self._look_soon()

    def charged(self, nano_nats: int) -> None:
        """Schedule a check after an answer."""
        self._look_soon()

    def refused(self, reason: Reason) -> None:
        """Schedule a check after a refusal."""
        self._look_soon()

    def _look_soon(self) -> None:
        """Schedule one check, after the report and all others that are counted now."""
        if self._away and not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        assert self._hub is not None
        asked, answered = self._hub.progress(self._study)
        if not asked:  # what the store holds of it is being entered
            self._looking = True
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look)
        elif asked - answered <= self._away:
            self._hub.close_round(self._study)


_CONNECTIONS = 8
_TICK_S = 0.2


@contextmanager
def grpc_fleet(
    devices: Devices,
    progress: Progress | None = None,
    *,
    streams: MakeStreams = SharedStreams,
    connections: int = _CONNECTIONS,
    order: Sequence[int] | None = None,
    store: Path | None = None,
    fates: Fates | None = None,
    recorder: FaultRecorder | None = None,
) -> Iterator[OpenedFleet]:
    """Run a service with `devices` connected, for the length of the block.

    Args:
      devices: devices of the fleet.
      progress: called with the number of new reports.
      streams: makes the streams: a few for all devices, or `StreamPerDevice`.
      connections: over how many connections the streams are spread; of shared streams, one each.
      order: in which order of ordinals they dial in; it changes no transcript.
      store: where the aggregator's store is made; None: in a temporary folder, removed after.
      fates: what goes wrong on the way, of each device on a stream of its own; it changes no
        transcript either. None: nothing does.
      recorder: records what went wrong.
    """
    recorder = recorder or FaultRecorder()
    attendance = Attendance()
    with rare_collections(), tempfile.TemporaryDirectory(prefix="askance-") as folder:
        opened = SqliteStore.create(store or Path(folder) / "aggregator.sqlite")
        try:
            chosen = range(len(devices)) if order is None else order
            if fates is not None:
                streams = partial(FaultyStreams, fates=fates, recorder=recorder)
            made = streams(devices, connections, chosen)
            made.enrol(opened)
            with AggregatorServer.start(
                opened, settings=room_for(len(devices)), parts=ServerParts(observer=attendance)
            ) as server:
                runners = Runners(made, server)
                try:
                    if not devices.behaviour.absences:
                        runners.attend(())  # before they are asked: it takes them a while
                    fleet = _Watched(server, runners, devices, attendance, progress)
                    yield OpenedFleet(fleet, _logs(opened))
                finally:
                    runners.stop()
            if fates is not None:
                check_store(opened, lambda ordinal: devices[ordinal].ledger, recorder.accepted)
        finally:
            opened.close()


def room_for(devices: int) -> Settings:
    """Return service settings with a place for every device.

    A device without a place would never answer, and the round never close.
    """
    usual = Settings()
    return replace(
        usual,
        max_streams=max(usual.max_streams, devices),
        max_members=max(usual.max_members, devices),
        max_pending=max(usual.max_pending, devices),
        connection_streams=2 * STREAMS_PER_CONNECTION,
        unproven=PeerLimits(max(usual.unproven.calls, devices), max(usual.unproven.calls, devices)),
    )


def _logs(store: SqliteStore) -> Callable[[SignedStudy], TranscriptLog]:
    def log(study: SignedStudy) -> TranscriptLog:
        digest = digest_of(study.study)
        store.add_study(digest, study)
        return store.log(digest)

    return log


class _Watched:
    """The service's fleet; what ends a device's runtime ends the round too."""

    def __init__(
        self,
        server: AggregatorServer,
        runners: Runners,
        devices: Devices,
        attendance: Attendance,
        progress: Progress | None,
    ) -> None:
        self._fleet = server.fleet
        self._hub = server.hub
        self._runners = runners
        self._devices = devices
        self._attendance = attendance
        self._progress = progress

    @property
    def population(self) -> int:
        return self._fleet.population

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        asked = sum(group.cohort.size for group in round_.groups)
        away = self._attend(round_)
        try:
            with self._reporting(asked, away):
                return self._fleet.ask(round_, accounts)
        finally:
            self._runners.check()

    def recall(self, round_: Round, accounts: Accounts) -> None:
        self._fleet.recall(round_, accounts)

    def _attend(self, round_: Round) -> int:
        """Connect the present devices, disconnect the absent ones, and count missing answers."""
        # The round then does not wait for the absent devices.
        behaviour = self._devices.behaviour
        if not behaviour.absences:
            return 0
        everybody = np.arange(len(self._devices), dtype=np.int64)
        absent = behaviour.absent(round_.study_digest, round_.number, everybody)
        away = sum(int(absent[group.cohort.members].sum()) for group in round_.groups)
        self._attendance.expect(self._hub, round_.study_digest, away)
        self._runners.attend(np.flatnonzero(absent).tolist()).result()
        return away

    @contextmanager
    def _reporting(self, asked: int, away: int) -> Iterator[None]:
        """Report the progress of a round periodically, from a thread of its own."""
        if self._progress is None:
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(self._progress, asked, away, done))
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, progress: Progress, asked: int, away: int, done: threading.Event) -> None:
        reported = 0
        while not done.wait(_TICK_S):
            out = self._hub.outstanding
            if out > away:  # 0 before the round opens as well as after it closes
                progress(asked - out - reported)
                reported = asked - out
        progress(asked - away - reported)
