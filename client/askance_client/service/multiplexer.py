"""Many members on one stream: batches of requests in, batches of reports out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from grpc import aio

from askance_client.codec import digest_of, study_of
from askance_client.device import Device
from askance_client.errors import RemoteProtocolError
from askance_client.messages import SignedStudy
from askance_client.service.answering import DeviceAnswers
from askance_client.service.credentials import Metadata
from askance_client.service.exchange import MAX_KNOWN_STUDIES
from askance_client.service.gateway_exchange import (
    MAX_JOINS,
    MAX_UNSETTLED,
    Absence,
    GatewayBatch,
    GatewayResponse,
    Join,
    MemberReports,
    decode_gateway_response,
    encode_batch,
    keep_studies,
)
from askance_client.service.identity import Identity
from askance_client.service.observable import (
    LONGEST_WAIT_MS,
    Jitter,
    Sleep,
    member_batches,
    monotonic_ms,
    on_grid,
    shuffled,
    sleep_ms,
    system_jitter,
    wait_after,
)
from askance_client.service.runtime import check_sequence
from askance_client.service.streams import Call, HeldStream, describe

# Responses with requests that are dealt with at one time, of the open stream and of those before
# it: else one that ends its streams quickly could make a gateway keep more and more.
_MAX_AT_WORK = 2 * MAX_UNSETTLED

MAX_UNREAD = 1024
"""Reports per member that wait to be written: one that reads none is asked no more by."""

Reports = tuple[int, dict[bytes, bytes]]
"""Number of a member, and its reports by their requests' digests."""


@dataclass(frozen=True, slots=True)
class _Request:
    """Payload, and the study that it names, if the gateway holds it."""

    payload: bytes
    study: SignedStudy | None


@dataclass(slots=True, eq=False)
class _Open:
    """State of one stream while it is open.

    Args:
      joins: numbers of members that are still to join.
      batches: what is still to be written, after the joins.
      settled: responses that were dealt with and are not yet told as settled.
      at_work: responses with requests that are not dealt with.
    """

    joins: deque[int]
    batches: deque[tuple[MemberReports, ...]] = field(default_factory=deque)
    settled: int = 0
    at_work: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class Multiplexer:
    """Exchange of many members with their aggregator, over one stream.

    At rest a member takes its device and a place in a list: no task, no call and no buffer.

    Privacy: each member's device decides by itself; what leaves is what it has made durable. The
      reports to one response leave together, on the grid, in an order that is drawn anew. A report
      is not kept for another stream: the ledger has it, and what is asked again is settled again,
      so that a study that was denied meanwhile gets nothing more.

    Args:
      members: each with its identity, in the order in which they may be observed to join; a
        member's number is its place.
      metadata: credentials of the gateway (`gateway_metadata`), or of a device that is the one
        member (`device_metadata`).
    """

    def __init__(
        self,
        members: Sequence[tuple[Identity, Device]],
        metadata: Metadata,
        channel: aio.Channel,
        *,
        answering: DeviceAnswers,
        jitter: Jitter = system_jitter,
        sleep: Sleep = sleep_ms,
        longest_wait_ms: int = LONGEST_WAIT_MS,
        release_ms: int = 0,
        now_ms: Callable[[], float] = monotonic_ms,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        self._members = members
        self._answering = answering
        self._jitter = jitter
        self._sleep = sleep
        self._longest_wait_ms = longest_wait_ms
        self._release_ms = release_ms
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._studies: dict[bytes, SignedStudy] = {}
        self._sequences: dict[int, int] = {}  # to be compared with a member's ledger, by number
        self._failures: dict[int, int] = {}  # in a row, by member
        self._waiting: set[int] = set()  # members that are to join again
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: _Open | None = None
        self._at_work = 0  # responses with requests that are not dealt with, of all streams
        self._stream = HeldStream(
            channel,
            "Relay",
            metadata,
            self._exchange_on,
            jitter=jitter,
            sleep=sleep,
            longest_wait_ms=longest_wait_ms,
            on_failure=self._failed,
            quiet=answering.quiet,
        )

    async def participate(self) -> None:
        """Hold the stream open until cancelled; any failure is told and tried again."""
        try:
            while True:
                try:
                    await self._stream.hold()
                except Exception as failure:  # was not foreseen, and must not end the process
                    self._failed(failure)
                await self._sleep(self._stream.backoff.next_ms())
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reopen(self) -> None:
        """End the open stream (see `HeldStream.reopen`)."""
        await self._stream.reopen()

    async def _exchange_on(self, call: Call) -> None:
        """Greet, then read until the stream ends; a task of its own writes."""
        opened = self._open = _Open(deque(range(len(self._members))))
        self._sequences.clear()
        known = tuple(self._studies)[-MAX_KNOWN_STUDIES:]
        writing = asyncio.ensure_future(self._write(call, opened, known))
        writing.add_done_callback(lambda _: call.cancel())  # if it ends, so does the reading
        try:
            while isinstance(data := await self._read(call), bytes):  # else the end of the stream
                self._take(opened, decode_gateway_response(data, len(self._members)))
                self._stream.backoff.reset()
        finally:
            self._open = None
            writing.cancel()

    async def _read(self, call: Call) -> object:
        """Read a message, to be met in a quiet time: a bad one ends the stream, which is seen."""
        data = await call.read()
        await self._answering.quiet()
        return data

    async def _write(self, call: Call, opened: _Open, known: tuple[bytes, ...]) -> None:
        """Write what is queued, joins first; a stream that has ended tells its reader why."""
        with suppress(asyncio.InvalidStateError, aio.AioRpcError):
            while True:
                settled, opened.settled = min(opened.settled, MAX_UNSETTLED), 0
                joins = tuple(self._join(opened) for _ in range(min(MAX_JOINS, len(opened.joins))))
                reports = opened.batches.popleft() if opened.batches and not joins else ()
                if joins or reports or settled or known:
                    await self._answering.quiet()
                    await call.write(encode_batch(GatewayBatch(known, joins, reports, settled)))
                    known = ()
                else:
                    opened.ready.clear()
                    await opened.ready.wait()

    def _join(self, opened: _Open) -> Join:
        number = opened.joins.popleft()
        identity = self._members[number][0]
        return Join(number, identity.device_id, identity.token)

    def _take(self, opened: _Open, response: GatewayResponse) -> None:
        """Do what a response says; its requests are answered beside."""
        for reason, members in response.absences:
            hint = " (does a copy of its folder run?)" if reason is Absence.REPLACED else ""
            self._tell(f"{reason.name}: a member is not on the stream{hint}", len(members))
            self._again(members)
        self._sequences.update(response.sequences)
        fresh = {digest_of(study.study): study for study in response.studies}
        held = {**self._studies, **fresh}
        keep_studies(self._studies, fresh)
        if not response.requests:
            return
        if self._at_work >= _MAX_AT_WORK:
            raise RemoteProtocolError(
                f"exchange: expected at most {_MAX_AT_WORK} responses with requests of all streams"
                " at one time, got one more"
            )
        opened.at_work += 1
        if opened.at_work > MAX_UNSETTLED:
            raise RemoteProtocolError(
                f"exchange: expected at most {MAX_UNSETTLED} responses with requests at one time,"
                " got one more"
            )
        queued = sum(len(one.reports) for batch in opened.batches for one in batch)
        if queued > MAX_UNREAD * len(self._members):
            raise RemoteProtocolError("exchange: expected reports to be read, got more requests")
        asked: dict[int, list[_Request]] = {}
        for payload, members in response.requests:
            request = _Request(payload, held.get(_study_digest(payload)))
            for number in members:
                asked.setdefault(number, []).append(request)
        self._at_work += 1
        self._start(self._settle(opened, asked))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)  # the event loop itself holds tasks only weakly
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, opened: _Open, asked: dict[int, list[_Request]]) -> None:
        """Answer all requests of a response, and release the reports together."""
        try:
            answers = await on_grid(
                self._answer(asked), self._release_ms, self._sleep, self._now_ms
            )
        finally:
            self._at_work -= 1
        # If that stream has ended, the aggregator asks again for what it lacks, on the next one.
        if self._open is opened:
            self._queue(opened, answers)
        opened.at_work -= 1
        opened.settled += 1
        opened.ready.set()

    async def _answer(self, asked: dict[int, list[_Request]]) -> list[Reports]:
        """Let members answer beside each other; one that fails is asked again later."""
        failed: list[int] = []

        async def answer(number: int, requests: list[_Request]) -> Reports:
            try:
                reports = await self._answer_one(number, requests)
            except Exception as failure:  # one member's trouble is that member's
                self._failed(failure)
                failed.append(number)
                return number, {}
            self._failures.pop(number, None)
            return number, reports

        answers = await asyncio.gather(*(answer(*member) for member in asked.items()))
        self._again(failed)
        return answers

    async def _answer_one(self, number: int, requests: list[_Request]) -> dict[bytes, bytes]:
        identity, device = self._members[number]
        turn = self._turns.setdefault(number, asyncio.Lock())
        async with turn:  # a device is not waited for in a thread, where it would hold up others
            acknowledged = self._sequences.get(number, 0)
            if acknowledged:
                await check_sequence(self._answering, device, identity, acknowledged)
                self._sequences.pop(number, None)
            for study in dict.fromkeys(request.study for request in requests):
                if study is not None and not device.knows(digest_of(study.study)):
                    self._answering.meet(device, study)
            payloads = tuple(request.payload for request in requests)
            return await self._answering.answer(device, payloads)

    def _again(self, members: Sequence[int]) -> None:
        """Let members join again after a wait, which grows with their failures in a row."""
        absent = [number for number in members if number not in self._waiting]
        if not absent:
            return
        self._waiting.update(absent)
        for number in absent:
            self._failures[number] = self._failures.get(number, 0) + 1
        most = max(self._failures[number] for number in absent)
        wait_ms = wait_after(most, self._longest_wait_ms, self._jitter)
        self._start(self._join_after(wait_ms, absent))

    async def _join_after(self, wait_ms: int, members: Sequence[int]) -> None:
        opened = self._open
        try:
            await self._sleep(wait_ms)
        finally:
            self._waiting.difference_update(members)
        if opened is not None and opened is self._open:  # all join a newer stream in any case
            opened.joins.extend(members)
            opened.ready.set()

    def _queue(self, opened: _Open, answers: Iterable[Reports]) -> None:
        """Queue reports for a stream, in random order, cut to what a batch may have."""
        entries = shuffled([entry for entry in answers if entry[1]], self._jitter)
        cut = member_batches((number, tuple(reports.values())) for number, reports in entries)
        for batch in cut:
            opened.batches.append(
                tuple(MemberReports(n, self._members[n][0].token, some) for n, some in batch)
            )
        opened.ready.set()

    def _failed(self, failure: Exception) -> None:
        self._tell(describe(failure), 1)

    def _tell(self, failure: str, times: int) -> None:
        if self._on_failure is not None:
            for _ in range(times):
                self._on_failure(failure)


def _study_digest(payload: bytes) -> bytes:
    """Return the digest of the study that a request names; no bytes for bytes that are none."""
    try:
        return study_of(payload)
    except RemoteProtocolError:
        return b""  # the device refuses it
