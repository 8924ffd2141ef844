"""Delivery of reports: checked, made durable together, and entered in their rounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import compress, islice, repeat
from typing import NamedTuple

from askance_aggregator.server.devices.commits import GroupedReads, ReportGroupCommit, Statuses
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.server.devices.states import StudyPhase, StudyPhases
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import Store, StoredReport
from askance_aggregator.studies.intake import CheckedReports, decoded, without_sequence
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus

_SEQUENCES = 1 << 16  # users whose highest acknowledged sequence number is remembered
_DURABLE = (AckStatus.ACCEPTED, AckStatus.DUPLICATE)
_REFUSED = (StudyPhase.SUSPENDED, StudyPhase.CANCELLED)  # reports of these studies are late

Outcome = tuple[bytes, AckStatus | None]
"""Digest of the request that a report answers, and the status to acknowledge; None: the report's
round is not over and is not asked now, so that nothing may be acknowledged."""


Ack = tuple[bytes, AckStatus]

_stored = partial(tuple.__new__, StoredReport)  # of a tuple: a call takes twice as long


class Delivery(NamedTuple):
    """Reports of a user that passed the checks together."""

    opened: OpenRound
    reports: CheckedReports
    ordinal: int
    place: int  # of the user in the reports' cohort
    data: tuple[bytes, ...]  # as they arrived
    sequences: tuple[int, ...]  # sequence numbers of the reports


def _rows(delivery: Delivery) -> Iterator[StoredReport]:
    """Return reports as the store takes them."""
    return map(
        _stored,
        zip(
            delivery.reports.digests,
            repeat(delivery.ordinal),
            delivery.data,
            delivery.sequences,
        ),
    )


class Deliveries:
    """Reports on their way into open rounds; for use in one event loop.

    Args:
      requests: the open rounds, by the digests of their requests.
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
        self._run = InExecutor(executor)
        self._observer = observer
        self._requests = requests
        self._phases = phases
        self._commits = ReportGroupCommit(store, executor, observer)
        self._sequences: OrderedDict[int, int] = OrderedDict()
        self._sequence_reads = GroupedReads(store.acknowledged_sequences, executor)

    def checked(self, ordinal: int, data: tuple[bytes, ...]) -> Delivery | None:
        """Check a message's reports by one look-up; None: they are to be checked one by one."""
        if not data:
            return None
        parts, sequences = zip(*map(without_sequence, data), strict=True)
        try:
            opened = self._requests.get(decoded(parts[0]).request_digest)
        except RemoteProtocolError:
            return None
        if opened is None or opened.closing:
            return None
        reports = opened.check(parts)
        if isinstance(reports, AckStatus) or any(report.sequence for report in reports.reports):
            return None
        place = opened.place(reports, ordinal)
        return None if place is None else Delivery(opened, reports, ordinal, place, data, sequences)

    async def deliver_checked(self, delivery: Delivery) -> Sequence[Ack]:
        """Make checked reports durable; return the acknowledgements."""
        return (await self._deliver_all((delivery,)))[0]

    async def deliver_messages(
        self, messages: Sequence[tuple[int, tuple[bytes, ...]]]
    ) -> list[Sequence[Outcome]]:
        """Accept messages, each with its user's ordinal, together; return when they are durable."""
        tried = [self.checked(ordinal, data) for ordinal, data in messages]
        one_by_one = [
            (ordinal, report)
            for (ordinal, data), delivery in zip(messages, tried, strict=True)
            if delivery is None
            for report in data
        ]
        for _, report in one_by_one:
            decoded(report)  # raises, while nothing is taken
        deliveries = [delivery for delivery in tried if delivery is not None]
        acks = iter(await self._deliver_all(deliveries) if deliveries else ())
        others = iter(await self.deliver(one_by_one) if one_by_one else ())
        return [
            list(islice(others, len(data))) if delivery is None else next(acks)
            for (_, data), delivery in zip(messages, tried, strict=True)
        ]

    async def _deliver_all(self, deliveries: Sequence[Delivery]) -> list[Sequence[Ack]]:
        """Make checked reports durable together; return the acknowledgements of each delivery."""
        for delivery in deliveries:
            delivery.opened.expect()
        rows = [row for delivery in deliveries for row in _rows(delivery)]
        # Not after the `await`: a device that leaves before its acknowledgement is counted too.
        statuses = await self._commits.submit(rows, partial(self._enter, deliveries))
        found = iter(statuses)
        return [self._acks(one, list(islice(found, len(one.data)))) for one in deliveries]

    def _acks(self, delivery: Delivery, statuses: Statuses) -> Sequence[Ack]:
        """Return the acknowledgements of a delivery, and count them."""
        reports = delivery.reports
        if statuses.count(AckStatus.ACCEPTED) == len(statuses):
            self._observer.acknowledged(AckStatus.ACCEPTED, len(statuses))
            return reports.accepted
        for status in statuses:
            self._observer.acknowledged(status)
        return list(zip(reports.digests, statuses, strict=True))

    async def deliver(self, reports: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        """Accept reports one by one, each with its user's ordinal; return when they are durable."""
        found = [decoded(data) for _, data in reports]
        outcomes: list[Outcome | None] = [None] * len(reports)
        durable: dict[int, Delivery] = {}  # by place among the reports
        for number, (report, (ordinal, data)) in enumerate(zip(found, reports, strict=True)):
            opened = self._requests.get(report.request_digest)
            if opened is None or opened.closing:
                continue
            checked = opened.check((data,))
            place = None if isinstance(checked, AckStatus) else opened.place(checked, ordinal)
            if isinstance(checked, AckStatus) or place is None:
                status = checked if isinstance(checked, AckStatus) else AckStatus.UNKNOWN
                outcomes[number] = (report.request_digest, status)
                self._observer.acknowledged(status)
            else:
                sequences = (report.sequence,)
                durable[number] = Delivery(opened, checked, ordinal, place, (data,), sequences)
        if durable:
            acks = await self._deliver_all(tuple(durable.values()))
            for number, (ack,) in zip(durable, acks, strict=True):
                outcomes[number] = ack
        return [
            outcome or await self._belated(report.request_digest, *sent)
            for outcome, report, sent in zip(outcomes, found, reports, strict=True)
        ]

    async def acknowledged_sequence(self, ordinal: int) -> int:
        """Return the highest sequence number in this user's durable reports; 0 for none."""
        known = self._sequences.get(ordinal)
        if known is None:
            known = await self._sequence_reads.get(ordinal)
            # A commit that ended meanwhile has not raised it: too low is harmless.
            self._sequences[ordinal] = known
            if len(self._sequences) > _SEQUENCES:
                self._sequences.popitem(last=False)
        return known

    async def acknowledged_sequences(self, ordinals: Sequence[int]) -> list[int]:
        """Return the highest sequence numbers of many users; nothing of it is remembered."""
        return await self._run(self._store.acknowledged_sequences, ordinals)

    async def close(self) -> None:
        """Commit the reports that have arrived and accept no more."""
        await self._commits.close()

    def _enter(self, deliveries: Sequence[Delivery], statuses: Statuses | None) -> None:
        """Count reports whose commit has ended; what cannot be counted keeps no other back."""
        # Without statuses the commit has failed.
        failures: list[Exception] = []
        found = iter(statuses or ())
        for delivery in deliveries:
            counted = False
            try:
                if statuses is not None:
                    self._add(delivery, list(islice(found, len(delivery.data))))
                    counted = True
            except Exception as error:
                failures.append(error)
            finally:
                delivery.opened.arrived(counted=counted)
        if failures:
            raise failures[0]

    def _add(self, delivery: Delivery, statuses: Statuses) -> None:
        """Count durable reports."""
        # A duplicate is counted too: its first commit may have reached the disk and yet have
        # failed, so that it was never counted. Counting is idempotent.
        opened, reports, ordinal, place, _, sequences = delivery
        new = counted = reports
        if statuses.count(AckStatus.ACCEPTED) < len(statuses):
            new = reports.only(status is AckStatus.ACCEPTED for status in statuses)
            counted = reports.only(status in _DURABLE for status in statuses)
            sequences = tuple(compress(sequences, (one is AckStatus.ACCEPTED for one in statuses)))
        if new.answers:
            self._observer.charged(new.charged)
        for reason in new.refusals:
            self._observer.refused(reason)
        if sequences:
            self._raise_sequence(ordinal, max(sequences))
        if counted.groups:
            opened.add(counted, ordinal, place)

    def _raise_sequence(self, ordinal: int, sequence: int) -> None:
        known = self._sequences.get(ordinal)
        if known is not None and sequence > known:
            self._sequences[ordinal] = sequence

    async def _belated(self, digest: bytes, ordinal: int, data: bytes) -> Outcome:
        """Return the outcome of a report that no open round waits for."""
        status = await self._belated_status(digest, ordinal, data)
        if status is not None:
            self._observer.acknowledged(status)
        return digest, status

    async def _belated_status(self, digest: bytes, ordinal: int, data: bytes) -> AckStatus | None:
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
