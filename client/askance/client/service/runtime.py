"""A device at work: it fetches requests, lets its core answer them, and delivers the reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeAlias

from grpc import aio

from askance.client.codec import digest_of
from askance.client.device import Device
from askance.client.errors import AskanceError, RemoteProtocolError
from askance.client.printable import printable
from askance.client.service.backoff import Backoff, Jitter, Sleep, sleep_ms, system_jitter
from askance.client.service.credentials import device_metadata, protocol_of, read_retry_ms
from askance.client.service.exchange import (
    MAX_KNOWN_STUDIES,
    MAX_REPORTS,
    PROTOCOL,
    SERVICE,
    CheckIn,
    Response,
    decode_response,
    encode_check_in,
)
from askance.client.service.identity import Identity
from askance.client.service.outbox import Outbox

_MAX_EXCHANGES = 64  # of one check-in: an aggregator with more to ask waits for the next one
_CALL_TIMEOUT_S = 60
_LEAST_WAIT_MS = 50  # whatever the aggregator would like: no device checks in without a pause

Failure: TypeAlias = aio.AioRpcError | RemoteProtocolError
_FAILURES = (aio.AioRpcError, RemoteProtocolError)
"""What an exchange may fail with and be tried again: the network's fault, or the aggregator's."""


def describe(failure: aio.AioRpcError | AskanceError) -> str:
    """A failure in one line: a call's status and what was said with it, or the error's message."""
    if isinstance(failure, aio.AioRpcError):
        details = " ".join((failure.details() or "no details").split())
        return f"{failure.code().name}: {printable(details)}"
    return str(failure)


class DeviceRunner:
    """One device's exchange with its aggregator.

    Privacy: nothing is decided here; what leaves is what `Device.answer` returned, durable already,
      and a repetition is the same bytes.
    Args:
      device: what answers.
      identity: who it is to the aggregator.
      channel: to the aggregator; may be shared by many devices of one process.
      jitter: where the randomness of waiting comes from.
      sleep: how to wait.
      offload: where answers are computed when they wait for a disk; None answers in place.
      release_ms: reports leave this long after their requests came, so that the time an answer took
        to compute does not show; 0 sends them at once.
      longest_wait_ms: between two tries.
      on_failure: told of every failed exchange that `participate` and `keep_checking_in` try again.
      on_report: given every report when the core has made it durable.
    """

    def __init__(
        self,
        device: Device,
        identity: Identity,
        channel: aio.Channel,
        *,
        jitter: Jitter = system_jitter,
        sleep: Sleep = sleep_ms,
        offload: Executor | None = None,
        release_ms: int = 0,
        longest_wait_ms: int = 300_000,
        on_failure: Callable[[Failure], None] | None = None,
        on_report: Callable[[bytes], None] | None = None,
    ) -> None:
        self._device = device
        self._metadata = device_metadata(identity)
        # Without serializers: messages are bytes here, so that they are bounded before parsing.
        self._check_in: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/{SERVICE}/CheckIn"
        )
        self._participate: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            f"/{SERVICE}/Participate"
        )
        self._backoff = Backoff(jitter=jitter, cap_ms=longest_wait_ms)
        self._jitter = jitter
        self._longest_wait_ms = longest_wait_ms
        self._sleep = sleep
        self._offload = offload
        self._release_ms = release_ms
        self._on_failure = on_failure
        self._on_report = on_report
        self._outbox = Outbox()

    @property
    def device(self) -> Device:
        """What answers."""
        return self._device

    @property
    def unacknowledged(self) -> int:
        """How many reports are kept for another delivery."""
        return len(self._outbox)

    async def check_in_once(self) -> int:
        """Delivers what is unacknowledged, fetches requests, answers them and delivers that too.

        Returns:
          When the aggregator would like the next check-in, in milliseconds.

        Raises:
          aio.AioRpcError: the network or the aggregator failed; nothing is lost.
          RemoteProtocolError: what came back breaks the protocol; nothing is lost.
          StoreError: the device's ledger cannot be used; nothing was spent, nothing was sent.
        """
        response = await self._exchange(self._first_batch())
        for _ in range(_MAX_EXCHANGES):
            reports = self._first_batch()
            if not reports:
                break
            response = await self._exchange(reports)
        return response.retry_after_ms

    async def _exchange(self, reports: tuple[bytes, ...]) -> Response:
        data = await self._check_in(
            self._greeting(reports), timeout=_CALL_TIMEOUT_S, metadata=self._metadata
        )
        response = decode_response(data)
        if len(response.acks) < len(reports):
            raise RemoteProtocolError(
                f"exchange: expected {len(reports)} acknowledgements, found {len(response.acks)}"
            )
        await self._take(response)
        return response

    def _first_batch(self) -> tuple[bytes, ...]:
        return next(iter(self._outbox.batches(MAX_REPORTS)), ())

    async def keep_checking_in(self) -> None:
        """Checks in for ever, at the aggregator's pace, and after a failure at its own."""
        while True:
            try:
                wait_ms = max(await self.check_in_once(), _LEAST_WAIT_MS)
                self._backoff.reset()
            except _FAILURES as failure:
                wait_ms = self._after(failure)
            await self._sleep(wait_ms)

    async def participate(self) -> None:
        """Holds a stream open for ever; after a failure, waits and opens the next one.

        Raises:
          StoreError: the device's ledger cannot be used; nothing was spent, nothing was sent.
        """
        while True:
            try:
                await self._hold_stream()
                wait_ms = self._backoff.next_ms()
            except _FAILURES as failure:
                wait_ms = self._after(failure)
            await self._sleep(wait_ms)

    def _after(self, failure: Failure) -> int:
        if self._on_failure is not None:
            self._on_failure(failure)
        return self._backoff.next_ms() + self._asked_to_wait_ms(failure)

    def _asked_to_wait_ms(self, failure: Failure) -> int:
        """Return the wait that an aggregator asks for, bounded, and random as the backoff is: one
        that was asked of a crowd at one time must not bring it back at one time."""
        if not isinstance(failure, aio.AioRpcError):
            return 0
        asked_ms = min(read_retry_ms(failure.trailing_metadata()), self._longest_wait_ms)
        return asked_ms + self._jitter(asked_ms)

    async def _hold_stream(self) -> None:
        call = self._participate(metadata=self._metadata)
        try:
            # A write to a stream that was refused would lose its status, and the wait asked for.
            if protocol_of(await call.initial_metadata()) != PROTOCOL:
                await call.read()
                raise RemoteProtocolError("exchange: expected an accepted stream, got none")
            first, *others = self._outbox.batches(MAX_REPORTS) or [()]
            await call.write(self._greeting(first))
            for batch in others:
                await call.write(encode_check_in(CheckIn(reports=batch)))
            while isinstance(data := await call.read(), bytes):  # else the end of the stream
                reports = await self._take(decode_response(data))
                self._backoff.reset()
                for start in range(0, len(reports), MAX_REPORTS):
                    batch = reports[start : start + MAX_REPORTS]
                    await call.write(encode_check_in(CheckIn(reports=batch)))
        except asyncio.InvalidStateError:
            await call.read()  # written to a stream that has ended: this raises its status
        finally:
            call.cancel()

    def _greeting(self, reports: tuple[bytes, ...]) -> bytes:
        known = self._device.known_studies[-MAX_KNOWN_STUDIES:]
        return encode_check_in(CheckIn(reports=reports, known_studies=known))

    async def _take(self, response: Response) -> tuple[bytes, ...]:
        """Does what a response says and returns the reports it led to, which are kept as well."""
        for digest, status in response.acks:
            self._outbox.acknowledge(digest, status)
        if not response.requests:
            self._meet(response)
            return ()
        timer = None
        if self._release_ms:
            timer = asyncio.ensure_future(self._sleep(self._release_ms))
            await asyncio.sleep(0)  # the wait begins before the work
        self._meet(response)
        reports = [await self._answer(payload) for payload in response.requests]
        if timer is not None:
            await timer
        return tuple(reports)

    def _meet(self, response: Response) -> None:
        for study in response.studies:
            # A refusal is no failure: a request of such a study is refused one by one, with a
            # reason that the aggregator gets to see.
            self._device.introduce(study)

    async def _answer(self, payload: bytes) -> bytes:
        if self._offload is None:
            report = self._device.answer(payload)
        else:
            loop = asyncio.get_running_loop()
            report = await loop.run_in_executor(self._offload, self._device.answer, payload)
        self._outbox.put(digest_of(payload), report)
        if self._on_report is not None:
            self._on_report(report)
        return report
