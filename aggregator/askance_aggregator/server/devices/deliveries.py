"""Delivery of reports: checked, made durable together, and entered in their rounds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice, repeat
from typing import NamedTuple, ParamSpec, TypeVar

from askance_aggregator.server.devices.commits import ReportGroupCommit, Statuses
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.server.devices.states import StudyPhase, StudyPhases
from askance_aggregator.store import Store, StoredReport
from askance_aggregator.studies.intake import (
    Arrival,
    CheckedMessage,
    decoded,
    without_sequence,
)
from askance_client.errors import RemoteProtocolError
from askance_client.messages import AckStatus, Refusal, Report

P = ParamSpec("P")
T = TypeVar("T")

_SEQUENCES = 1 << 16  # users whose highest acknowledged sequence number is remembered
_REFUSED = (StudyPhase.SUSPENDED, StudyPhase.CANCELLED)  # reports of these studies are late

Outcome = tuple[bytes, AckStatus | None]
"""Digest of the request that a report answers, and the status to acknowledge; None: the report's
round is not over and is not asked now, so that nothing may be acknowledged."""


Ack = tuple[bytes, AckStatus]

_stored = partial(tuple.__new__, StoredReport)  # of a tuple: a call takes twice as long


class Delivery(NamedTuple):
    """A user's message whose reports passed the checks together.

    Args:
      opened: the round that they are reports of.
      message: the reports.
      ordinal: the user's.
      place: of the user in the message's cohort.
      data: the reports as they arrived.
      sequences: their sequence numbers.
    """

    opened: OpenRound
    message: CheckedMessage
    ordinal: int
    place: int
    data: tuple[bytes, ...]
    sequences: tuple[int, ...]


def _rows(delivery: Delivery) -> Iterator[StoredReport]:
    """Return a message's reports as the store takes them."""
    return map(
        _stored,
        zip(
            delivery.message.digests,
            repeat(delivery.ordinal),
            delivery.data,
            delivery.sequences,
        ),
    )


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

    def checked(self, ordinal: int, data: tuple[bytes, ...]) -> Delivery | None:
        """Check the reports of a user's message by one look-up, as is usual.

        Returns:
          None: they are to be checked one by one, by `deliver`.
        """
        if not data:
            return None
        parts, sequences = zip(*map(without_sequence, data), strict=True)
        try:
            opened = self._requests.get(decoded(parts[0]).request_digest)
        except RemoteProtocolError:
            return None
        if opened is None or opened.closing:
            return None
        message = opened.check_message(parts)
        place = None if message is None else opened.place(message, ordinal)
        if message is None or place is None:
            return None
        return Delivery(opened, message, ordinal, place, data, sequences)

    async def deliver_checked(self, delivery: Delivery) -> Sequence[Ack]:
        """Make a checked message durable; return the acknowledgements.

        Raises:
          StoreError: nothing may be acknowledged.
        """
        delivery.opened.expect()
        entered = partial(self._enter_message, delivery)
        return self._acks(delivery, await self._commits.submit(list(_rows(delivery)), entered))

    async def deliver_messages(
        self, messages: Sequence[tuple[int, tuple[bytes, ...]]]
    ) -> list[Sequence[Outcome]]:
        """Accept messages, each with its user's ordinal, together; return when they are durable.

        Returns:
          The outcomes of each message's reports.

        Raises:
          RemoteProtocolError: one has what is not a report; nothing was taken.
          StoreError: nothing may be acknowledged.
        """
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
        """Make checked messages durable together (see `deliver_checked`)."""
        for delivery in deliveries:
            delivery.opened.expect()
        rows = [row for delivery in deliveries for row in _rows(delivery)]
        statuses = await self._commits.submit(rows, partial(self._enter_messages, deliveries))
        found = iter(statuses)
        return [self._acks(one, list(islice(found, len(one.data)))) for one in deliveries]

    def _acks(self, delivery: Delivery, statuses: Statuses) -> Sequence[Ack]:
        """Return the acknowledgements of a message, and count them."""
        message = delivery.message
        if statuses.count(AckStatus.ACCEPTED) == len(statuses):
            self._observer.acknowledged(AckStatus.ACCEPTED, len(statuses))
            return message.accepted
        for status in statuses:
            self._observer.acknowledged(status)
        return list(zip(message.digests, statuses, strict=True))

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
        for opened in {id(opened): opened for opened, _ in arrivals}.values():
            opened.expect()
        return await self._commits.submit(
            [
                StoredReport(
                    arrival.report.request_digest,
                    arrival.ordinal,
                    arrival.data,
                    arrival.report.sequence,
                )
                for _, arrival in arrivals
            ],
            # Not after the `await`: a device that leaves before its acknowledgement is counted too.
            partial(self._enter, arrivals),
        )

    def _enter(
        self, arrivals: Sequence[tuple[OpenRound, Arrival]], statuses: Statuses | None
    ) -> None:
        """Count reports whose commit has ended.

        Args:
          arrivals: the reports, each with its round.
          statuses: of each; None: the commit failed.
        """
        counted = False
        try:
            if statuses is not None:
                self._add_reports(arrivals, statuses)
                counted = True
        finally:
            for opened in {id(opened): opened for opened, _ in arrivals}.values():
                opened.arrived(counted=counted)

    def _enter_messages(self, deliveries: Sequence[Delivery], statuses: Statuses | None) -> None:
        """Count messages whose commit has ended; one that cannot be counted keeps no other back."""
        failures: list[Exception] = []
        found = iter(statuses or ())
        for delivery in deliveries:
            each = None if statuses is None else list(islice(found, len(delivery.data)))
            try:
                self._enter_message(delivery, each)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _enter_message(self, delivery: Delivery, statuses: Statuses | None) -> None:
        """Count a message whose commit has ended (see `_enter`)."""
        counted = False
        try:
            if statuses is not None:
                self._add_message(delivery, statuses)
                counted = True
        finally:
            delivery.opened.arrived(counted=counted)

    def _add_message(self, delivery: Delivery, statuses: Statuses) -> None:
        """Count the durable reports of a message (see `_add_reports`)."""
        opened, message, ordinal, place, data, sequences = delivery
        if statuses.count(AckStatus.ACCEPTED) < len(statuses):
            arrivals = [
                Arrival(group, place, ordinal, decoded(report), report)
                for group, report in zip(message.groups, data, strict=True)
            ]
            self._add_reports([(opened, arrival) for arrival in arrivals], statuses)
            return
        if message.answers:
            self._observer.charged(message.charged)
        for reason in message.refusals:
            self._observer.refused(reason)
        self._raise_sequence(ordinal, max(sequences))
        opened.add_message(message, ordinal, place)

    def _add_reports(
        self, arrivals: Iterable[tuple[OpenRound, Arrival]], statuses: Statuses
    ) -> None:
        """Count durable reports.

        A duplicate is entered too: its first commit may have reached the disk and yet have failed,
        so that it was never counted. Entering is idempotent.
        """
        for (opened, arrival), status in zip(arrivals, statuses, strict=True):
            if status is AckStatus.ACCEPTED:
                self._tell(arrival.report)
                self._raise_sequence(arrival.ordinal, arrival.report.sequence)
            if status in (AckStatus.ACCEPTED, AckStatus.DUPLICATE):
                opened.add(arrival)

    def _raise_sequence(self, ordinal: int, sequence: int) -> None:
        known = self._sequences.get(ordinal)
        if known is not None and sequence > known:
            self._sequences[ordinal] = sequence

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
