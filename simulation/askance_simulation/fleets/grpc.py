"""Devices over real gRPC on loopback: the service, its SQLite store, and the devices' streams."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from askance_aggregator.server.devices import AggregatorServer, PeerLimits, ServerParts, Settings
from askance_aggregator.store import SqliteStore
from askance_aggregator.studies import Accounts, Round, Tally, TranscriptLog
from askance_client.codec import digest_of
from askance_client.garbage_collection import rare_collections
from askance_client.messages import SignedStudy
from askance_simulation.disturbances import Fates, FaultRecorder
from askance_simulation.disturbances.invariants import check_store
from askance_simulation.fleets.attendance import Attendance
from askance_simulation.fleets.devices import Devices
from askance_simulation.fleets.opened import OpenedFleet, Progress
from askance_simulation.fleets.runners import Runners
from askance_simulation.fleets.streams import (
    STREAMS_PER_CONNECTION,
    FaultyStreams,
    MakeStreams,
    SharedStreams,
)

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

    Raises:
      BrokenInvariant: after faults, something does not hold that must (see `faults.invariants`).
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
        """Connect the present devices, disconnect the absent ones, and count the missing answers.

        The round then does not wait for the absent devices.
        """
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
