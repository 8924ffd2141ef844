"""Devices of many members in one process, each with an identity and a ledger of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import grpc
from grpc import aio

from askance_client.codec import decode_report
from askance_client.device import Device, ExaminedStudy, Examiner, MemberRecord, Policy
from askance_client.errors import InvalidParameter
from askance_client.ledger import Ledger
from askance_client.messages import Reason, Refusal
from askance_client.queries import Schema
from askance_client.randomizers import Coins
from askance_client.service import observable
from askance_client.service.answering import DeviceAnswers
from askance_client.service.certificates import CertificateFile
from askance_client.service.credentials import Metadata, device_metadata, gateway_metadata
from askance_client.service.enrolment import Enrolment
from askance_client.service.evaluation import Evaluation, TimedEvaluation, evaluate_at_once
from askance_client.service.identity import Identity
from askance_client.service.multiplexer import Multiplexer
from askance_client.service.runtime import DeviceRunner
from askance_client.service.streams import describe

_EXAMINED = 512  # latest requests, for all members: those of eight messages
_THREADS = 32  # that wait for the disk: as many commits may go in one


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """Member of a gateway: a name for logs and coins, an identity, and a device of its own."""

    name: str
    identity: Identity
    record: MemberRecord
    ledger: Ledger


class Watcher(Protocol):
    """Interface for watchers of a gateway, called in the event loop, without values or names."""

    def answered(self, refusal: Reason | None) -> None:
        """A request was answered, or refused."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """A request or a study was refused; the text is for the owner, and did not leave."""
        ...

    def failed(self, failure: str) -> None:
        """Count a failed exchange or ledger, which is tried again."""
        ...

    def connection(self, number: int, *, up: bool) -> None:
        """A connection came to be, or was lost."""
        ...


@dataclass(slots=True)
class CheckInOutcome:
    """Outcome of one check-in of each member: numbers of answers and refusals, by reason.

    `notes` has a line for each failure that was mended.
    """

    members: int
    answered: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    unacknowledged: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Work:
    """Connections to the aggregator, and where devices answer."""

    channels: Sequence[aio.Channel]
    executor: Executor
    evaluation: Evaluation


class Gateway:
    """The devices of all members, on one stream.

    Privacy: each member's device decides by its own record, ledger and coins; all that they share
      is the examination of a request by its bytes alone.

    Args:
      members: whom it stands for, in any order: the aggregator observes the order of `observable`.
      channel: opens a connection to the aggregator; closed again by the gateway.
      connections: how many at least for `check_in_once`; more where the members need them.
      identity: the gateway's own, enrolled with its members; None: its one member is a device of
        its own.
      release_ms: see `DeviceRunner`.
      certificate: file of the certificate that `channel` shows; None: it shows none.
      enrolment: of the members, where need be with the operator's token; None: they are enrolled.
      consent_wait_ms: mean time after which the stream is opened anew, so that requests that were
        held for the owner come again, in milliseconds; 0: never.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        schema: Schema,
        policy: Policy,
        coins_for: Callable[[str], Coins],
        now_s: Callable[[], int],
        channel: Callable[[], aio.Channel],
        connections: int,
        watcher: Watcher,
        identity: Identity | None = None,
        jitter: observable.Jitter = observable.system_jitter,
        sleep: observable.Sleep = observable.sleep_ms,
        longest_wait_ms: int = observable.LONGEST_WAIT_MS,
        release_ms: int = 0,
        certificate: CertificateFile | None = None,
        enrolment: Enrolment | None = None,
        consent_wait_ms: int = 0,
    ) -> None:
        examiner, studies = Examiner(_EXAMINED), dict[bytes, ExaminedStudy]()
        self._members = [
            (
                member.identity,
                Device(
                    schema=schema,
                    record=member.record,
                    policy=policy,
                    ledger=member.ledger,
                    coins=coins_for(member.name),
                    now_s=now_s,
                    examiner=examiner,
                    studies=studies,
                ),
            )
            for member in observable.ordered(members, lambda member: member.identity)
        ]
        self._channel = channel
        self._connections = observable.connections_for(
            min(observable.MEMBERS_AT_ONCE, len(self._members)), connections
        )
        self._watcher = watcher
        self._jitter = jitter
        self._sleep = sleep
        self._longest_wait_ms = longest_wait_ms
        self._release_ms = release_ms
        self._metadata = self._credentials(identity)
        self._certificate = certificate
        self._enrolment = enrolment
        self._consent_wait_ms = consent_wait_ms

    @property
    def members(self) -> int:
        """Number of members."""
        return len(self._members)

    async def run(self) -> None:
        """Hold a stream open for all members until cancelled.

        At cancellation calls end in order, and pending writes to the disk are completed.
        """
        certificate, failed = self._certificate, self._watcher.failed
        backoff = observable.Backoff(jitter=self._jitter, cap_ms=self._longest_wait_ms)
        while not await self._is_known(self._failed):
            await self._sleep(backoff.next_ms())
        async with self._working(1) as work, asyncio.TaskGroup() as tasks:
            (channel,) = work.channels
            multiplexer = Multiplexer(
                self._members,
                self._metadata,
                channel,
                answering=DeviceAnswers(
                    offload=work.executor,
                    evaluate=work.evaluation,
                    on_report=self._report,
                    on_refusal=self._watcher.refused,
                ),
                jitter=self._jitter,
                sleep=self._sleep,
                longest_wait_ms=self._longest_wait_ms,
                release_ms=self._release_ms,
                on_failure=self._failed,
            )
            tasks.create_task(self._watch(0, channel))
            tasks.create_task(multiplexer.participate())
            if certificate is not None:

                async def pause(milliseconds: float) -> None:
                    await self._sleep(milliseconds)
                    await work.evaluation.quiet()

                tasks.create_task(
                    certificate.keep(self._metadata, failed, multiplexer.reopen, pause)
                )

            if self._consent_wait_ms:
                tasks.create_task(self._let_held_come_again(multiplexer))

    async def _is_known(self, failed: Callable[[str], None]) -> bool:
        """Enrol and ask for a certificate, once, where need be; True: calls may be made."""
        enrolment, certificate = self._enrolment, self._certificate
        if enrolment is not None and not await enrolment.renew(failed):
            return False
        return certificate is None or await certificate.is_there(self._metadata, failed)

    async def _let_held_come_again(self, multiplexer: Multiplexer) -> None:
        """Open the stream anew from time to time, whether or not a request is held."""
        while True:
            await self._sleep(observable.consent_wait(self._consent_wait_ms, self._jitter))
            await multiplexer.reopen()

    async def check_in_once(self) -> CheckInOutcome:
        """Let each member fetch, answer and deliver once; failures are counted, not retried."""
        outcome = CheckInOutcome(len(self._members))

        def report(data: bytes) -> None:
            refusal = _refusal(data)
            if refusal is None:
                outcome.answered += 1
            else:
                outcome.refusals[refusal.name] += 1

        said, certificate = outcome.notes, self._certificate
        if not await self._is_known(said.append):
            outcome.failures[said.pop()] += outcome.members
        else:
            await self._check_in_all(outcome, report)
        for failure in outcome.failures:
            self._doubt(failure)
        doubted = certificate if outcome.failures else None
        if doubted and await doubted.replace_refused(self._metadata, said.append):
            outcome.failures.clear()
            await self._check_in_all(outcome, report)
        return outcome

    async def _check_in_all(self, outcome: CheckInOutcome, report: Callable[[bytes], None]) -> None:
        outcome.unacknowledged = 0
        async with self._working(self._connections) as work:
            # A few workers that take the next member each, rather than a task a member.
            places = iter(range(len(self._members)))

            async def check_in() -> None:
                for place in places:
                    runner = self._runner(place, work, report)
                    try:
                        await runner.check_in_once()
                    except Exception as failure:  # one member's trouble is that member's
                        outcome.failures[describe(failure)] += 1
                    outcome.unacknowledged += runner.unacknowledged

            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(observable.MEMBERS_AT_ONCE, len(self._members))):
                    tasks.create_task(check_in())

    @asynccontextmanager
    async def _working(self, connections: int) -> AsyncIterator[_Work]:
        """Connections, and threads for answers, for the length of a block."""
        channels = [self._channel() for _ in range(connections)]
        executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="askance-ledger")
        timed = TimedEvaluation(self._release_ms, sleep=self._sleep)
        try:
            yield _Work(channels, executor, timed if self._release_ms else evaluate_at_once)
        finally:
            for channel in channels:
                await channel.close()
            executor.shutdown()
            timed.close()

    def _credentials(self, identity: Identity | None) -> Metadata:
        if identity is not None:
            return gateway_metadata(identity)
        if len(self._members) != 1:
            raise InvalidParameter(
                f"gateway: expected an identity for {len(self._members)} members, got none"
            )
        return device_metadata(self._members[0][0])

    def _runner(self, place: int, work: _Work, on_report: Callable[[bytes], None]) -> DeviceRunner:
        identity, device = self._members[place]
        return DeviceRunner(
            device,
            identity,
            work.channels[observable.connection_of(place, len(work.channels))],
            sleep=self._sleep,
            offload=work.executor,
            evaluate=work.evaluation,
            release_ms=self._release_ms,
            on_report=on_report,
            on_refusal=self._watcher.refused,
        )

    async def _watch(self, number: int, channel: aio.Channel) -> None:
        was: bool | None = None
        state = channel.get_state()
        while state is not grpc.ChannelConnectivity.SHUTDOWN:
            up = _is_up(state, was)
            if up is not None and up is not bool(was):  # a first try that fails has lost nothing
                self._watcher.connection(number, up=up)
            was = up
            await channel.wait_for_state_change(state)
            state = channel.get_state()

    def _failed(self, failure: str) -> None:
        self._watcher.failed(failure)
        self._doubt(failure)

    def _doubt(self, failure: str) -> None:
        for known in (self._certificate, self._enrolment):
            if known is not None:
                known.doubt(failure)

    def _report(self, data: bytes) -> None:
        self._watcher.answered(_refusal(data))


def _is_up(state: grpc.ChannelConnectivity, was: bool | None) -> bool | None:
    """Return whether a connection is up; None if none has been tried."""
    tried = None if was is None else False
    states = grpc.ChannelConnectivity
    known = {states.READY: True, states.TRANSIENT_FAILURE: False, states.IDLE: tried}
    return known.get(state, was)


def _refusal(report: bytes) -> Reason | None:
    outcome = decode_report(report).outcome
    return outcome.reason if isinstance(outcome, Refusal) else None
