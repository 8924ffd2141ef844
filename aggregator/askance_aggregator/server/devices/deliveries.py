"""Delivery of reports: checked, made durable together, and entered in their rounds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

from askance_aggregator.server.devices.commits import ReportGroupCommit, Statuses
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.server.devices.states import StudyPhase, StudyPhases
from askance_aggregator.store import Store, StoredReport
from askance_aggregator.studies.intake import Arrival, decoded
from askance_client.messages import AckStatus, Refusal, Report

P = ParamSpec("P")
T = TypeVar("T")

_SEQUENCES = 1 << 16  # users whose highest acknowledged sequence number is remembered
_REFUSED = (StudyPhase.SUSPENDED, StudyPhase.CANCELLED)  # reports of these studies are late

Outcome = tuple[bytes, AckStatus | None]
"""Digest of the request that a report answers, and the status to acknowledge; None: the report's
round is not over and is not asked now, so that nothing may be acknowledged."""


class Deliveries:
    """Reports on their way into open rounds; for use in one event loop.

    Args:
      store: what is durable.
      executor: a thread that may wait for the disk.
      observer: is called at every event.
      requests: the open rounds, by the digests of their requests.
      phases: of the studies.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        observer: Observer,
        requests: dict[bytes, OpenRound],
        phases: StudyPhases,
    ) -> None:
        self._store = store
        self._executor = executor
        self._observer = observer
        self._requests = requests
        self._phases = phases
        self._commits = ReportGroupCommit(store, executor, observer)
        self._sequences: OrderedDict[int, int] = OrderedDict()

    async def deliver(self, reports: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        """Accept reports, each with its user's ordinal, together; return when they are durable.

        Raises:
          RemoteProtocolError: one is not a report; none was taken.
          StoreError: nothing may be acknowledged.
        """
        found = [decoded(data) for _, data in reports]
        statuses: list[AckStatus | None] = [None] * len(reports)
        durable: list[tuple[int, OpenRound, Arrival]] = []
        belated: list[int] = []
        for place, (report, (ordinal, data)) in enumerate(zip(found, reports, strict=True)):
            opened = self._requests.get(report.request_digest)
            if opened is None or opened.closing:
                belated.append(place)
                continue
            checked = opened.check(ordinal, report, data)
            if isinstance(checked, AckStatus):
                statuses[place] = checked
            else:
                durable.append((place, opened, checked))
        if durable:
            for (place, _, _), status in zip(durable, await self._commit(durable), strict=True):
                statuses[place] = status
        for place in belated:
            ordinal, data = reports[place]
            statuses[place] = await self._belated(found[place].request_digest, ordinal, data)
        for told in statuses:
            if told is not None:
                self._observer.acknowledged(told)
        return [(r.request_digest, status) for r, status in zip(found, statuses, strict=True)]

    async def acknowledged_sequence(self, ordinal: int) -> int:
        """Return the highest sequence number in this user's durable reports; 0 for none.

        Raises:
          StoreError: the store cannot be read.
        """
        known = self._sequences.get(ordinal)
        if known is None:
            loop = asyncio.get_running_loop()
            known = await loop.run_in_executor(
                self._executor, self._store.acknowledged_sequence, ordinal
            )
            # A commit that ended meanwhile has not raised it: too low is harmless.
            self._sequences[ordinal] = known
            if len(self._sequences) > _SEQUENCES:
                self._sequences.popitem(last=False)
        return known

    async def acknowledged_sequences(self, ordinals: Iterable[int]) -> list[int]:
        """Return the same for many users; nothing of it is remembered."""

        def read() -> list[int]:
            return [self._store.acknowledged_sequence(ordinal) for ordinal in ordinals]

        return await asyncio.get_running_loop().run_in_executor(self._executor, read)

    async def close(self) -> None:
        """Commit the reports that have arrived and accept no more."""
        await self._commits.close()

    async def _commit(self, durable: list[tuple[int, OpenRound, Arrival]]) -> list[AckStatus]:
        arrivals = [(opened, arrival) for _, opened, arrival in durable]
        committed = self._commits.submit(
            [
                StoredReport(
                    arrival.report.request_digest,
                    arrival.ordinal,
                    arrival.data,
                    arrival.report.sequence,
                )
                for _, arrival in arrivals
            ]
        )
        # Not after the `await`: a device that leaves before its acknowledgement is counted too.
        committed.add_done_callback(lambda future: self._add_reports(arrivals, future))
        for opened in {id(opened): opened for opened, _ in arrivals}.values():
            opened.expect(committed)
        return await asyncio.shield(committed)

    def _add_reports(
        self, arrivals: list[tuple[OpenRound, Arrival]], future: asyncio.Future[Statuses]
    ) -> None:
        """Count reports whose commit has succeeded.

        A duplicate is entered too: its first commit may have reached the disk and yet have failed,
        so that it was never counted. Entering is idempotent.
        """
        if future.cancelled() or future.exception() is not None:
            return
        for (opened, arrival), status in zip(arrivals, future.result(), strict=True):
            if status is AckStatus.ACCEPTED:
                self._tell(arrival.report)
                known = self._sequences.get(arrival.ordinal)
                if known is not None:
                    self._sequences[arrival.ordinal] = max(known, arrival.report.sequence)
            if status in (AckStatus.ACCEPTED, AckStatus.DUPLICATE):
                opened.add(arrival)

    def _tell(self, report: Report) -> None:
        if isinstance(report.outcome, Refusal):
            self._observer.refused(report.outcome.reason)
        else:
            self._observer.charged(report.charged_nano_nats)

    async def _belated(self, digest: bytes, ordinal: int, data: bytes) -> AckStatus | None:
        """Return the status of a report that no open round waits for.

        Returns:
          None: its round is not over, and is not asked now: it is still to be opened by this
          process, or waits for the disk.
        """
        stored = await self._run(self._store.report, digest, ordinal)
        if stored == data:
            return AckStatus.DUPLICATE  # counted in its time; only the acknowledgement was lost
        if stored is not None:
            return AckStatus.LATE
        asked = await self._run(self._store.asked, digest)
        if asked is None:
            return AckStatus.UNKNOWN
        opened = self._requests.get(digest)
        closing = opened is not None and opened.closing
        if asked.over or closing or self._phases.of(asked.study_digest) in _REFUSED:
            return AckStatus.LATE
        return None

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that waits for the disk."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))
