"""Hub between connected devices and open rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import grpc
import numpy as np

from askance_aggregator.amplification.outer import delta_for
from askance_aggregator.clock import SteadyClock, SystemSteadyClock
from askance_aggregator.server.devices.asked_users import SHOWN_TAGS, AskedUsers, answers_by_tag
from askance_aggregator.server.devices.connections import Connection, UserConnection
from askance_aggregator.server.devices.deadlines import RoundDeadlines, RoundTimer
from askance_aggregator.server.devices.deliveries import Ack, Deliveries, Outcome
from askance_aggregator.server.devices.followed_rounds import (
    FollowedRounds,
    RoundNumber,
    StoredReports,
)
from askance_aggregator.server.devices.observer import SILENT, Observer
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.server.devices.states import PhaseEvent, StudyPhase, StudyPhases
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import Store
from askance_aggregator.studies.accounts import Accounts
from askance_aggregator.studies.rounds import Round
from askance_aggregator.studies.tallies import Tally
from askance_client.errors import AskanceError, LocalProtocolError, StoreError
from askance_client.service.observable import Sleep, sleep_ms

_ACK_S = 1.0  # how long an acknowledgement waits for a request to ride on


class ServiceStopped(LocalProtocolError):
    """The service was stopped; the study is as its transcript says, to be gone on with later."""


class StudyCancelled(AskanceError):
    """The study was cancelled; no device is asked any more."""


class RoundNotOpen(StoreError):
    """A report of a round that is not over and that this process does not ask yet, or not now."""


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """An open round: its study, the answers asked for and entered, and its age.

    The age is counted from when it was first opened, by whichever process.
    """

    study_digest: bytes
    asked: int
    answered: int
    age_s: float


class Hub:
    """Aggregator's side of a fleet; for use in one event loop.

    Args:
      clock: by which rounds close; it is never set.
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
        self._run = InExecutor(executor)
        self._observer = observer
        self._clock = clock or SystemSteadyClock()
        self._deadlines = RoundDeadlines(store, executor, self._clock, sleep)
        self._connections: dict[int, UserConnection] = {}
        self._rounds: dict[bytes, OpenRound] = {}  # by study: one round of a study at a time
        self._requests: dict[bytes, OpenRound] = {}
        self._opened_ms: dict[bytes, int] = {}  # by study, on the steady clock
        self._timers: dict[bytes, RoundTimer] = {}  # by study, of rounds that have begun
        self._paused: set[bytes] = set()  # studies
        self._phases = StudyPhases()
        self._driven: set[bytes] = set()  # studies whose rounds this process opens
        self._followed = FollowedRounds(self._ask_followed, self._rounds.__contains__)
        self._stored = StoredReports(store, self._run)
        self._acknowledging: list[Connection] = []
        self._deliveries = Deliveries(store, executor, observer, self._requests, self._phases)
        self._ending: set[asyncio.Future[None]] = set()
        self.stopped = False  # may be read from any thread

    @property
    def connected(self) -> int:
        """Number of devices that hold a stream open, those of gateways included."""
        return len(self._connections)

    @property
    def connected_users(self) -> tuple[int, ...]:
        """Ordinals of these devices, in no order; may be read from any thread."""
        return tuple(self._connections)

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

    def asked_users(self) -> list[AskedUsers]:
        """Return the users of the open rounds; may be called from any thread."""
        connected = np.sort(np.array(self.connected_users, np.int64))
        now_ms, found = self._clock.now_ms(), []
        for study, since_ms in tuple(self._opened_ms.items()):
            opened = self._rounds.get(study)
            if opened is not None and opened.asking:
                of = (study, *opened.number, (now_ms - since_ms) / 1000)
                found.append(AskedUsers(*of, *opened.users(), connected))
        return found

    def connect(self, connection: UserConnection, ordinal: int) -> None:
        """Register a user's stream in place of an earlier one, and send its open requests.

        Args:
          connection: of the user's device, or of its gateway.
          ordinal: the user's; again for the same stream is no harm.
        """
        replaced = self._connections.get(ordinal)
        self._connections[ordinal] = connection
        if replaced is not None and replaced is not connection and replaced.displaced(ordinal):
            self.end(replaced, grpc.StatusCode.ABORTED, "a newer stream of this device took over")
        self._observer.connected(len(self._connections))
        for round_ in self._rounds.values():
            connection.ask(round_, ordinal)

    def disconnect(self, connection: UserConnection, ordinals: Iterable[int]) -> None:
        """Forget that these users are on a stream, but for those that a newer one has."""
        for ordinal in ordinals:
            if self._connections.get(ordinal) is connection:
                del self._connections[ordinal]
        self._observer.connected(len(self._connections))

    def bar(self, ordinals: Iterable[int], details: str) -> None:
        """End the streams of users who may not take part any more; a gateway's goes on without.

        `details` is the text of the status with which a device's own stream ends.
        """
        for ordinal in ordinals:
            connection = self._connections.pop(ordinal, None)
            if connection is not None and connection.barred(ordinal):
                self.end(connection, grpc.StatusCode.PERMISSION_DENIED, details)
        self._observer.connected(len(self._connections))

    def owed(self, ordinal: int, known_studies: set[bytes]) -> list[bytes]:
        """The parts of responses that ask this user what it owes to all open rounds."""
        return [
            part for round_ in self._rounds.values() for part in round_.owed(ordinal, known_studies)
        ]

    async def acknowledged_sequence(self, ordinal: int) -> int:
        """Return the highest sequence number in this user's durable reports; 0 for none."""
        return await self._deliveries.acknowledged_sequence(ordinal)

    async def acknowledged_sequences(self, ordinals: Sequence[int]) -> list[int]:
        """Return the `acknowledged_sequence` of each of many users."""
        return await self._deliveries.acknowledged_sequences(ordinals)

    async def open(
        self, round_: Round, accounts: Accounts, left_ms: Callable[[], int] | None = None
    ) -> tuple[Tally, ...]:
        """Ask a round and return its tallies when it is complete or its deadline has passed.

        A round is complete when every member has answered or refused.

        What the store already holds of it is counted, and its members are not asked again. A round
        that is opened again keeps the deadline that it had first.

        `left_ms` returns the milliseconds until the end of the round's epoch, at which it closes
        with what has come; at 0 or less no member is asked. None: no such end.
        """
        study = round_.study_digest
        if study not in self._driven:
            self._driven.add(study)
            await self._followed.leave(study)
        opened = OpenRound(round_, accounts)
        if self._store.replicas.shared:  # the others may have stored the rest meanwhile
            opened.on_answered = lambda: self._stored.look([opened])
        self._check_may_open(opened)
        self._phases.on(study, PhaseEvent.PREPARE)
        noted = await self._deadlines.note(opened, round_, left_ms)  # before any user is asked
        self._check_may_open(opened)  # much may have happened meanwhile
        if noted.over:
            opened.close()  # no user is to be charged for an answer that comes too late
        self._register(opened, noted.age_s)
        try:
            await self._enter_stored(opened)
            timer = self._deadlines.timer(opened, noted)
            self._timers[opened.study_digest] = timer
            if opened.study_digest in self._paused:
                opened.hold()
                timer.hold()
            else:
                self._ask(opened)
                timer.start()
            self._look_again(opened)
            await opened.closed()
            if self.stopped:
                raise _stopped()
            if opened.doubtful:  # a stored report is counted, or its study would lie
                await self._stored.enter_all(opened)
            await self._run(
                self._store.close_round, opened.study_digest, round_.number, round_.epoch
            )
            await self._stored.enter_new(opened)  # no replica takes a report of it any more
            with suppress(StoreError):  # the study goes on without this note
                await self._run(self._note_completion, opened)
            # Durable before the tallies are returned, and so before any is published.
            released = opened.study_digest, opened.releases(), delta_for
            await self._run(self._store.outer.record, *released)
            return opened.tallies()
        finally:
            self._retire(opened)

    def _note_completion(self, opened: OpenRound) -> None:
        """Keep by tag how many devices a closed round has asked, and how many have answered."""
        register, none = self._store.register, np.empty(0, np.int64)
        users = AskedUsers(opened.study_digest, *opened.number, 0.0, *opened.users(), none)
        rows = answers_by_tag([users], register.tagged(), SHOWN_TAGS)
        register.note_completion(opened.study_digest, rows)

    def round_span(self, round_: Round) -> AbstractContextManager[None]:
        """Return the span of a round, to be entered by the thread of its study."""
        asked = sum(group.cohort.size for group in round_.groups)
        return self._observer.round_span(round_.study_digest, round_.number, round_.epoch, asked)

    def follow(self, round_: Round, accounts: Accounts, age_s: int = 0) -> None:
        """Ask a round that another replica drives, and take its reports, until `keep_followed`.

        It was opened `age_s` seconds ago.

        Its users are asked what is recorded, and the replica that drives it counts what is stored.
        A round that is followed or driven already is left as it is.
        """
        if not self.stopped and round_.study_digest not in self._driven:
            self._followed.follow(round_, accounts, self._stored.hint, age_s)

    def followed(self, study_digest: bytes) -> RoundNumber | None:
        """Return epoch and number of a study's followed round; may be called from any thread."""
        return self._followed.number_of(study_digest)

    def keep_followed(self, rounds: Mapping[bytes, RoundNumber]) -> None:
        """Leave every followed round but these, given as epoch and number by study."""
        self._followed.keep(rounds)

    def release(self, study_digest: bytes) -> None:
        """Drive a study no more: another replica has its lease; `open` raises ServiceStopped."""
        self._driven.discard(study_digest)
        opened = self._rounds.get(study_digest)
        if opened is None:
            self._phases.on(study_digest, PhaseEvent.FORGET)
        elif self._followed.number_of(study_digest) is None:
            opened.abandon(ServiceStopped("round: expected the study's lease, found it lost"))

    def look(self) -> None:
        """Enter soon what other replicas have stored of the open rounds."""
        self._stored.look(self._rounds.values())

    async def _ask_followed(self, opened: OpenRound, age_s: int) -> None:
        """Ask a round of another replica until it is complete or left."""
        if self.stopped:
            return
        self._phases.on(opened.study_digest, PhaseEvent.PREPARE)
        self._register(opened, age_s)
        try:
            await self._enter_stored(opened)
            if opened.study_digest in self._paused:
                opened.hold()
            else:
                self._ask(opened)
            self._look_again(opened)
            await opened.closed()
            if not opened.outstanding:  # the replica that drives it need not wait for a look
                self._stored.hint()
        finally:
            self._retire(opened)

    async def _enter_stored(self, opened: OpenRound) -> None:
        """Enter what is stored of a round; the others of its members are to be asked."""
        await self._stored.enter_first(opened)
        opened.begin()  # a device that connected meanwhile is asked by this loop, and not twice

    def _look_again(self, opened: OpenRound) -> None:
        """Enter what was stored while a round was being prepared."""
        if opened.news:
            self._stored.look([opened])

    def _register(self, opened: OpenRound, age_s: int) -> None:
        self._opened_ms[opened.study_digest] = self._clock.now_ms() - 1000 * age_s
        self._phases.on(opened.study_digest, PhaseEvent.OPEN)
        self._rounds[opened.study_digest] = opened
        self._requests.update((digest, opened) for digest in opened.requests)
        self._observer.round_opened()

    def _check_may_open(self, opened: OpenRound) -> None:
        if self.stopped:
            raise _stopped()
        phase = self._phases.of(opened.study_digest)
        if phase is StudyPhase.CANCELLED:
            raise StudyCancelled("round: expected a study that goes on, got a cancelled one")
        if phase is StudyPhase.OPEN:
            raise LocalProtocolError("round: expected no open round of its study, got one")

    async def recall(self, round_: Round, accounts: Accounts) -> None:
        """Replay the store's reports of a closed round into the accounts; send no request.

        Raises:
          StoreError: what is stored cannot be read.
        """
        await self._stored.enter_all(OpenRound(round_, accounts))

    def close_round(self, study_digest: bytes) -> bool:
        """End a study's open round with what has come; return whether there was one."""
        opened = self._rounds.get(study_digest)
        if opened is not None:
            opened.close()
        return opened is not None

    def acknowledge(self, connection: Connection, acks: Sequence[Ack]) -> None:
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

    def pause(self, study_digest: bytes) -> None:
        """Ask no user for this study until `unpause`; reports that come are taken.

        The deadline of its open round stands still meanwhile, and so does that of a round that is
        opened while it is paused. The end of an epoch does not wait.
        """
        if study_digest in self._paused:
            return
        self._paused.add(study_digest)
        opened, timer = self._rounds.get(study_digest), self._timers.get(study_digest)
        if timer is not None:
            timer.hold()
        if opened is not None and opened.asking:
            opened.hold()
            for connection in self._distinct():
                connection.withdraw(opened.parts)

    def unpause(self, study_digest: bytes) -> None:
        """Ask again for a study that was paused."""
        if study_digest not in self._paused:
            return
        self._paused.remove(study_digest)
        opened, timer = self._rounds.get(study_digest), self._timers.get(study_digest)
        if timer is not None:
            timer.go_on()
        if opened is not None and opened.asking:
            opened.go_on()
            self._ask(opened)

    def forget(self, study_digest: bytes) -> None:
        """Drop what is kept of a study whose end is durable."""
        self._paused.discard(study_digest)
        self._driven.discard(study_digest)
        self._phases.on(study_digest, PhaseEvent.FORGET)

    async def deliver(self, ordinal: int, reports: Sequence[bytes]) -> Sequence[Ack]:
        """Accept a device's reports and return the status of each, once it is durable.

        Returns:
          In order, the digest of the request that it answers, and the status to acknowledge.

        Raises:
          RemoteProtocolError: one is not a report; none was taken.
          StoreError: nothing may be acknowledged.
          RoundNotOpen: a report is of a round that is not over and not asked now; the same.
        """
        self._check_running()
        delivery = self._deliveries.checked(ordinal, tuple(reports))
        if delivery is not None:
            return await self._deliveries.deliver_checked(delivery)
        outcomes = await self._deliveries.deliver([(ordinal, data) for data in reports])
        acks = [(digest, status) for digest, status in outcomes if status is not None]
        if len(acks) < len(outcomes):
            raise RoundNotOpen("reports: expected an open round, found one that is not asked yet")
        return acks

    async def deliver_messages(
        self, messages: Sequence[tuple[int, tuple[bytes, ...]]]
    ) -> list[Sequence[Outcome]]:
        """Accept reports of many devices together (see `Deliveries.deliver_messages`)."""
        self._check_running()
        return await self._deliveries.deliver_messages(messages)

    def _check_running(self) -> None:
        if self.stopped:  # rounds that wait for another process take no reports, and are not over
            raise StoreError("reports: expected a running service, found a stopped one")

    async def stop(self) -> None:
        """Commit the reports that have arrived, and release devices and callers that wait."""
        self.stopped = True
        for opened in tuple(self._rounds.values()):
            opened.close()
        for connection in self._distinct():
            self.end(connection, grpc.StatusCode.UNAVAILABLE, "the aggregator is going down")
        self._followed.keep({})  # also those that are not open yet
        if waiting := {*self._ending, *self._stored.tasks, *self._followed.tasks}:
            await asyncio.wait(waiting)
        await self._deliveries.close()

    def _ask(self, opened: OpenRound) -> None:
        """Send a round's requests to its members that are connected."""
        for ordinal in opened.members_among(self._connections):
            self._connections[ordinal].ask(opened, ordinal)

    def end(self, connection: UserConnection, code: grpc.StatusCode, details: str) -> None:
        """End a stream with a status; `stop` waits until it has ended."""
        ending = asyncio.ensure_future(connection.end(code, details))
        self._ending.add(ending)  # the event loop itself holds tasks only weakly
        ending.add_done_callback(self._ending.discard)

    def _distinct(self) -> list[UserConnection]:
        """Return the open streams, that of a gateway once."""
        return list({id(stream): stream for stream in self._connections.values()}.values())

    def _retire(self, opened: OpenRound) -> None:
        self._phases.on(opened.study_digest, PhaseEvent.RETIRE)
        if opened.study_digest not in self._driven:  # whether it was cancelled is another's to know
            self._phases.on(opened.study_digest, PhaseEvent.FORGET)
        opened.on_answered = None
        del self._rounds[opened.study_digest]
        self._opened_ms.pop(opened.study_digest, None)
        timer = self._timers.pop(opened.study_digest, None)
        if timer is not None:
            timer.cancel()
        for digest in opened.requests:
            del self._requests[digest]
        parts = opened.parts
        for connection in self._distinct():  # one that does not read was not asked yet
            connection.withdraw(parts)


def _stopped() -> ServiceStopped:
    return ServiceStopped("round: expected a running service, found a stopped one")
