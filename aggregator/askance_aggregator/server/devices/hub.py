"""Hub between connected devices and open rounds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import ParamSpec, TypeVar

import grpc

from askance_aggregator.clock import SteadyClock, SystemSteadyClock
from askance_aggregator.server.devices.commits import ReportGroupCommit, Statuses
from askance_aggregator.server.devices.connections import Connection
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.server.devices.states import PhaseEvent, StudyPhase, StudyPhases
from askance_aggregator.store import Deadline, RoundNote, Store, StoredReport
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.intake import Arrival
from askance_aggregator.studies.rounds import Round
from askance_aggregator.studies.tallies import Tally
from askance_client.codec import decode_report, decode_study
from askance_client.errors import AskanceError, LocalProtocolError, StoreError
from askance_client.messages import AckStatus, Refusal, Report
from askance_client.service import Sleep, sleep_ms

_SEQUENCES = 1 << 16  # users whose highest acknowledged sequence number is remembered
_PAGE = 1024  # reports of an interrupted round that are entered between two turns of the loop
_ACK_S = 1.0  # how long an acknowledgement waits for a request to ride on
# Between two looks at the clock, and two notes of what is left of a round: a machine that starts
# again gives its rounds at most this much more time than they had left.
_LONGEST_WAIT_MS = 60_000


P = ParamSpec("P")
T = TypeVar("T")
_REFUSED = (StudyPhase.SUSPENDED, StudyPhase.CANCELLED)  # reports of these studies are late
_SHORT = 128  # bytes of a report that others are likely to send as well

# Symbols are few: most reports of a round equal another user's, byte for byte.
_decoded = lru_cache(maxsize=1 << 14)(decode_report)


class ServiceStopped(LocalProtocolError):
    """The service was stopped; the study is as its transcript says, to be gone on with later."""


class StudyCancelled(AskanceError):
    """The study was cancelled; no device is asked any more."""


class RoundNotOpen(StoreError):
    """A report of a round that is not over and that this process does not ask yet, or not now."""


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """An open round: its study, the answers asked for and entered, and its age in this process."""

    study_digest: bytes
    asked: int
    answered: int
    age_s: float


class Hub:
    """Aggregator's side of a fleet; for use in one event loop.

    Args:
      store: what is durable.
      executor: a thread that may wait for the disk.
      observer: is called at every event.
      clock: by which rounds close; it is never set.
      sleep: how to wait.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        observer: Observer = SILENT,
        *,
        clock: SteadyClock | None = None,
        sleep: Sleep = sleep_ms,
    ) -> None:
        self._store = store
        self._executor = executor
        self._observer = observer
        self._clock = clock or SystemSteadyClock()
        self._sleep = sleep
        self._commits = ReportGroupCommit(store, executor, observer)
        self._connections: dict[int, Connection] = {}
        self._rounds: dict[bytes, OpenRound] = {}  # by study: one round of a study at a time
        self._requests: dict[bytes, OpenRound] = {}
        self._opened_ms: dict[bytes, int] = {}  # by study, on the steady clock
        self._phases = StudyPhases()
        self._acknowledging: list[Connection] = []
        self._sequences: OrderedDict[int, int] = OrderedDict()
        self._ending: set[asyncio.Future[None]] = set()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """True if the hub has stopped asking; may be read from any thread."""
        return self._stopped

    @property
    def connected(self) -> int:
        """Number of devices that hold a stream open."""
        return len(self._connections)

    @property
    def outstanding(self) -> int:
        """Number of answers that open rounds still wait for; may be read from any thread."""
        return sum(round_.outstanding for round_ in tuple(self._rounds.values()))

    def progress(self, study_digest: bytes) -> tuple[int, int]:
        """Return the answers that a study's open round asks for and those received; for any thread.

        (0, 0) between rounds.
        """
        opened = self._rounds.get(study_digest)
        if opened is None or not opened.asking:
            return (0, 0)
        return opened.asked, opened.asked - opened.outstanding

    def rounds(self) -> list[RoundProgress]:
        """Return the progress of all open rounds; may be called from any thread."""
        now_ms, opened_ms = self._clock.now_ms(), dict(self._opened_ms)
        return [
            RoundProgress(study, *self.progress(study), (now_ms - since) / 1000)
            for study, since in opened_ms.items()
        ]

    def connect(self, connection: Connection) -> None:
        """Register a device's stream in place of an earlier one, and send its open requests."""
        replaced = self._connections.get(connection.ordinal)
        self._connections[connection.ordinal] = connection
        if replaced is not None:
            self._end(replaced, grpc.StatusCode.ABORTED, "a newer stream of this device took over")
        for round_ in self._rounds.values():
            self._ask(round_, connection)

    def disconnect(self, connection: Connection) -> None:
        """Forget a stream, unless a newer one has replaced it."""
        connection.drop()
        if self._connections.get(connection.ordinal) is connection:
            del self._connections[connection.ordinal]

    def owed(self, ordinal: int, known_studies: set[bytes]) -> list[bytes]:
        """The parts of responses that ask this user what it owes to all open rounds."""
        return [
            part for round_ in self._rounds.values() for part in round_.owed(ordinal, known_studies)
        ]

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

    async def open(self, round_: Round, accounts: Accounts) -> tuple[Tally, ...]:
        """Ask a round and return its tallies when it is complete or its deadline has passed.

        A round is complete when every member has answered or refused.

        What the store already holds of it is counted, and its members are not asked again. A round
        that is opened again keeps the deadline that it had first.

        Raises:
          ServiceStopped: the hub was stopped. StudyCancelled: the study was cancelled.
          LocalProtocolError: the study has a round open.
          StoreError: the store cannot be read or written.
        """
        opened = OpenRound(round_, accounts)
        self._check_may_open(opened)
        self._phases.on(opened.study_digest, PhaseEvent.PREPARE)
        note = await self._note(opened, round_)  # durable before any user is asked
        self._check_may_open(opened)  # much may have happened meanwhile
        if note.closed or (note.deadline is not None and self._left_ms(note.deadline) <= 0):
            opened.close()  # no user is to be charged for an answer that comes too late
        self._opened_ms[opened.study_digest] = self._clock.now_ms()
        self._phases.on(opened.study_digest, PhaseEvent.OPEN)
        self._rounds[opened.study_digest] = opened
        self._requests.update((digest, opened) for digest in opened.requests)
        self._observer.round_opened()
        timer = None
        try:
            await self._resume(opened)
            opened.begin()  # a device that connected meanwhile is asked by this loop, and not twice
            for ordinal in opened.members_among(self._connections):
                self._ask(opened, self._connections[ordinal])
            if note.deadline is not None:
                timer = asyncio.ensure_future(self._end_at(opened, round_.number, note.deadline))
            await opened.closed()
            if self._stopped:
                raise _stopped()
            if opened.doubtful:
                await self._resume(opened)  # a stored report is counted, or its study would lie
            await self._run(self._store.close_round, opened.study_digest, round_.number)
            return opened.tallies()
        finally:
            if timer is not None:
                timer.cancel()
            self._retire(opened)

    def _check_may_open(self, opened: OpenRound) -> None:
        if self._stopped:
            raise _stopped()
        phase = self._phases.of(opened.study_digest)
        if phase is StudyPhase.CANCELLED:
            raise StudyCancelled("round: expected a study that goes on, got a cancelled one")
        if phase is StudyPhase.OPEN:
            raise LocalProtocolError("round: expected no open round of its study, got one")

    async def _note(self, opened: OpenRound, round_: Round) -> RoundNote:
        """Make durable that the round is about to be asked.

        Returns:
          The round as noted first; its deadline is on this process's clock.
        """
        lasts_ms = 1000 * decode_study(round_.study.study).conduct.round_deadline_s
        fresh = self._deadline(lasts_ms) if lasts_ms else None

        def note() -> RoundNote:
            study, number = round_.study_digest, round_.number
            self._store.add_study(study, round_.study)
            found = self._store.open_round(study, number, list(opened.requests), fresh)
            if found.deadline is None or self._on_this_clock(found.deadline):
                return found
            # Another run of the machine: only a clock that is set would show how long it was off.
            deadline = self._deadline(found.deadline.left_ms)
            self._store.note_deadline(study, number, deadline)
            return RoundNote(deadline, found.closed)

        return await self._run(note)

    def _deadline(self, left_ms: int) -> Deadline:
        return Deadline(self._clock.boot, self._clock.now_ms() + left_ms, left_ms)

    def _on_this_clock(self, deadline: Deadline) -> bool:
        return bool(deadline.boot) and deadline.boot == self._clock.boot

    def _left_ms(self, deadline: Deadline) -> int:
        return deadline.at_ms - self._clock.now_ms()

    async def _end_at(self, opened: OpenRound, number: int, deadline: Deadline) -> None:
        """Close a round at its deadline; note meanwhile how much is left of it."""
        while (left_ms := self._left_ms(deadline)) > 0:
            await self._sleep(min(left_ms, _LONGEST_WAIT_MS))
            if (left_ms := self._left_ms(deadline)) > 0:
                noted = Deadline(deadline.boot, deadline.at_ms, left_ms)
                with suppress(StoreError):  # the store's observer has it; the next note comes soon
                    await self._run(self._store.note_deadline, opened.study_digest, number, noted)
        opened.close()

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that waits for the disk."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: work(*args, **kwargs))

    async def recall(self, round_: Round, accounts: Accounts) -> None:
        """Replay the store's reports of a closed round into the accounts; send no request.

        Raises:
          StoreError: what is stored cannot be read.
        """
        await self._resume(OpenRound(round_, accounts))

    def close_round(self, study_digest: bytes) -> bool:
        """End a study's open round with what has come; the rest will be late.

        Returns:
          Whether there was one.
        """
        opened = self._rounds.get(study_digest)
        if opened is not None:
            opened.close()
        return opened is not None

    def acknowledge(self, connection: Connection, acks: Iterable[tuple[bytes, AckStatus]]) -> None:
        """Acknowledge over a stream: with the next request, or soon without one."""
        connection.acknowledge(acks)
        if not self._acknowledging:
            asyncio.get_running_loop().call_later(_ACK_S, self._flush)
        self._acknowledging.append(connection)

    def _flush(self) -> None:
        waiting, self._acknowledging = self._acknowledging, []
        for connection in waiting:
            connection.flush()

    def cancel(self, study_digest: bytes) -> None:
        """Ask no user for this study any more; `open` raises `StudyCancelled` for its round."""
        self._phases.on(study_digest, PhaseEvent.CANCEL)
        opened = self._rounds.get(study_digest)
        if opened is not None:
            opened.abandon(StudyCancelled("study: cancelled by its analyst"))

    def suspend(self, study_digest: bytes) -> None:
        """Refuse reports of an open study that cannot go on.

        The devices are asked again, and answer with the same bytes, if it goes on after all.
        """
        self._phases.on(study_digest, PhaseEvent.SUSPEND)

    def forget(self, study_digest: bytes) -> None:
        """Drop what is kept of a study whose end is durable."""
        self._phases.on(study_digest, PhaseEvent.FORGET)

    async def deliver(
        self, ordinal: int, reports: Sequence[bytes]
    ) -> list[tuple[bytes, AckStatus]]:
        """Accept a device's reports and return the status of each, once it is durable.

        Returns:
          In order, the digest of the request that it answers, and the status to acknowledge.

        Raises:
          RemoteProtocolError: one is not a report; none was taken.
          StoreError: nothing may be acknowledged.
          RoundNotOpen: a report is of a round that is not over and not asked now; the same.
        """
        if self._stopped:  # rounds that wait for another process take no reports, and are not over
            raise StoreError("reports: expected a running service, found a stopped one")
        decoded = [
            _decoded(data) if len(data) <= _SHORT else decode_report(data) for data in reports
        ]
        statuses: list[AckStatus | None] = [None] * len(reports)
        durable: list[tuple[int, OpenRound, Arrival]] = []
        for place, (report, data) in enumerate(zip(decoded, reports, strict=True)):
            opened = self._requests.get(report.request_digest)
            if opened is None or opened.closing:
                continue
            checked = opened.check(ordinal, report, data)
            if isinstance(checked, AckStatus):
                statuses[place] = checked
            else:
                durable.append((place, opened, checked))
        if durable:
            for (place, _, _), status in zip(durable, await self._commit(durable), strict=True):
                statuses[place] = status
        for place, status_now in enumerate(statuses):
            if status_now is None:
                digest = decoded[place].request_digest
                statuses[place] = await self._belated(digest, ordinal, reports[place])
        acks = [
            (report.request_digest, status)
            for report, status in zip(decoded, statuses, strict=True)
            if status is not None
        ]
        for _, status in acks:
            self._observer.acknowledged(status)
        return acks

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

    async def stop(self) -> None:
        """Commit the reports that have arrived, and release devices and callers that wait."""
        self._stopped = True
        for opened in tuple(self._rounds.values()):
            opened.close()
        for connection in tuple(self._connections.values()):
            self._end(connection, grpc.StatusCode.UNAVAILABLE, "the aggregator is going down")
        if self._ending:
            await asyncio.wait(self._ending)
        await self._commits.close()

    async def _belated(self, digest: bytes, ordinal: int, data: bytes) -> AckStatus:
        """Return the status of a report that no open round waits for.

        Raises:
          RoundNotOpen: its round is not over, and is not asked now: it is still to be opened by
            this process, or waits for the disk.
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
        raise RoundNotOpen("reports: expected an open round, found one that is not asked yet")

    async def _resume(self, opened: OpenRound) -> None:
        """Enter what the store holds of a round, a page at a time."""
        loop = asyncio.get_running_loop()
        for digest in opened.requests:
            reports = self._store.reports(digest)

            def page() -> list[tuple[int, bytes]]:
                return list(islice(reports, _PAGE))  # noqa: B023  # called before the next turn

            while stored := await loop.run_in_executor(self._executor, page):
                for ordinal, data in stored:
                    arrival = opened.examine(ordinal, data)
                    if isinstance(arrival, Arrival):
                        opened.add(arrival)

    def _ask(self, opened: OpenRound, connection: Connection) -> None:
        parts = opened.owed(connection.ordinal, connection.known_studies)
        if parts:
            connection.known_studies.add(opened.study_digest)
            connection.push(*parts)

    def _end(self, connection: Connection, code: grpc.StatusCode, details: str) -> None:
        ending = asyncio.ensure_future(connection.end(code, details))
        self._ending.add(ending)  # the event loop itself holds tasks only weakly
        ending.add_done_callback(self._ending.discard)

    def _retire(self, opened: OpenRound) -> None:
        self._phases.on(opened.study_digest, PhaseEvent.RETIRE)
        del self._rounds[opened.study_digest]
        self._opened_ms.pop(opened.study_digest, None)
        for digest in opened.requests:
            del self._requests[digest]
        parts = opened.parts
        for connection in self._connections.values():  # one that does not read was not asked yet
            connection.withdraw(parts)
        self._observer.round_closed()


def _stopped() -> ServiceStopped:
    return ServiceStopped("round: expected a running service, found a stopped one")
