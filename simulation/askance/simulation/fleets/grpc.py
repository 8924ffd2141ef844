"""Devices over real gRPC on loopback: the service, its SQLite store, and every device's runtime.

Between the service and the devices are real connections, each shared by many devices' streams. Only
the coins and the clock of the devices are the simulation's.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from grpc import aio

from askance.aggregator.service import AggregatorServer, Settings
from askance.aggregator.session import Accounts, Round, Tally, TranscriptLog
from askance.aggregator.store import SqliteStore
from askance.client.codec import digest_of
from askance.client.errors import LocalProtocolError
from askance.client.messages import SignedStudy
from askance.client.service import (
    NO_PROXY,
    DeviceRunner,
    Identity,
    channel_options,
    rare_collections,
    token_digest,
)
from askance.simulation.fleets.devices import Devices
from askance.simulation.fleets.opened import OpenedFleet, Progress

_CONNECTIONS = 8
_DIALLING = 64  # devices that dial between two turns of the loop
_STOP_S = 30.0
_TICK_S = 0.2


@contextmanager
def grpc_fleet(
    devices: Devices,
    progress: Progress | None = None,
    *,
    connections: int = _CONNECTIONS,
    order: Sequence[int] | None = None,
    store: Path | None = None,
) -> Iterator[OpenedFleet]:
    """A service with `devices` dialled in, for the length of the block.

    Args:
      connections: over how many connections the devices' streams are spread.
      order: in which order of ordinals they dial in; it changes no transcript.
      store: where the aggregator's store is made; None: in a temporary folder, removed after.
    """
    with rare_collections(), tempfile.TemporaryDirectory(prefix="askance-") as folder:
        opened = SqliteStore.create(store or Path(folder) / "aggregator.sqlite")
        try:
            identities = [
                Identity(ordinal.to_bytes(16, "big"), secrets.token_bytes(32))
                for ordinal in range(len(devices))
            ]
            opened.enrol((one.device_id, token_digest(one.token)) for one in identities)
            with AggregatorServer.start(opened, settings=room_for(len(devices))) as server:
                runners = _Runners(devices, identities, server, connections, order)
                try:
                    yield OpenedFleet(_Watched(server, runners, progress), _logs(opened))
                finally:
                    runners.stop()
        finally:
            opened.close()


def room_for(devices: int) -> Settings:
    """The service's settings when all of these dial in: whoever found no place would never answer,
    and the round never close."""
    usual = Settings()
    return replace(
        usual,
        max_streams=max(usual.max_streams, devices),
        max_pending=max(usual.max_pending, devices),
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
        self, server: AggregatorServer, runners: _Runners, progress: Progress | None
    ) -> None:
        self._fleet = server.fleet
        self._hub = server.hub
        self._runners = runners
        self._progress = progress

    @property
    def population(self) -> int:
        return self._fleet.population

    def ask(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        asked = sum(group.cohort.size for group in round_.groups)
        try:
            with self._reporting(asked):
                return self._fleet.ask(round_, accounts)
        finally:
            self._runners.check()

    def recall(self, round_: Round, accounts: Accounts) -> None:
        self._fleet.recall(round_, accounts)

    @contextmanager
    def _reporting(self, asked: int) -> Iterator[None]:
        """Tells the progress of a round now and then, from a thread of its own."""
        if self._progress is None:
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(self._progress, asked, done))
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, progress: Progress, asked: int, done: threading.Event) -> None:
        reported = 0
        while not done.wait(_TICK_S):
            answered = asked - self._hub.outstanding
            if self._hub.outstanding:  # 0 before the round opens as well as after it closes
                progress(answered - reported)
                reported = answered
        progress(asked - reported)


class _Runners:
    """Every device's runtime, in the service's event loop.

    In one loop with the service, because grpc.aio serves all loops of a process from one queue.
    """

    def __init__(
        self,
        devices: Devices,
        identities: Sequence[Identity],
        server: AggregatorServer,
        connections: int,
        order: Sequence[int] | None,
    ) -> None:
        self._devices = devices
        self._identities = identities
        self._server = server
        self._connections = connections
        self._order = range(len(devices)) if order is None else order
        self._failure: BaseException | None = None
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(), server.loop)

    def check(self) -> None:
        """Raises what a device's runtime ended with."""
        if self._failure is not None:
            raise LocalProtocolError("devices: expected them to run on, found one ended") from (
                self._failure
            )

    def stop(self) -> None:
        """Hangs up."""
        self._serving.cancel()
        with suppress(CancelledError):
            self._serving.result(_STOP_S)

    async def _serve(self) -> None:
        channels = [
            aio.insecure_channel(
                self._server.address, options=[*channel_options(own_connection=True), NO_PROXY]
            )
            for _ in range(self._connections)
        ]
        try:
            async with asyncio.TaskGroup() as devices:
                for place, ordinal in enumerate(self._order):
                    devices.create_task(self._participate(ordinal, channels[place % len(channels)]))
                    if place % _DIALLING == 0:
                        await asyncio.sleep(0)  # so that who stops while they dial is heard
        finally:
            for channel in channels:
                await channel.close()

    async def _participate(self, ordinal: int, channel: aio.Channel) -> None:
        runner = DeviceRunner(self._devices[ordinal], self._identities[ordinal], channel)
        try:
            await runner.participate()
        except Exception as error:
            self._failure = error
            await self._server.hub.stop()  # whoever waits for a round would wait for ever
            raise
