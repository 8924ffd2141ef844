"""A device at work: it fetches requests, lets its core answer them, and delivers the reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeAlias, TypeVar

from grpc import aio

from askance_client.device import Device, Turn
from askance_client.errors import AskanceError, RemoteProtocolError
from askance_client.messages import Refusal
from askance_client.printable import printable
from askance_client.service.credentials import device_metadata, protocol_of, read_retry_ms
from askance_client.service.evaluation import Evaluate, evaluate_at_once
from askance_client.service.exchange import (
    MAX_KNOWN_STUDIES,
    MAX_REPORTS,
    PROTOCOL,
    SERVICE,
    CheckIn,
    Response,
    decode_response,
    encode_check_in,
)
from askance_client.service.identity import Identity
from askance_client.service.observable import (
    CALL_TIMEOUT_S,
    LONGEST_WAIT_MS,
    MAX_EXCHANGES,
    Backoff,
    Jitter,
    Sleep,
    asked_wait_ms,
    batches,
    on_grid,
    pause_ms,
    sleep_ms,
    system_jitter,
)
from askance_client.service.outbox import Outbox

T = TypeVar("T")
Failure: TypeAlias = aio.AioRpcError | RemoteProtocolError
_FAILURES = (aio.AioRpcError, RemoteProtocolError)
"""What an exchange may fail with and be tried again: the network's fault, or the aggregator's."""


class LedgerOlder(RemoteProtocolError):
    """An aggregator has acknowledged more answers than the ledger holds.

    The ledger is older than it was (a restored copy), or the aggregator lies. Nothing was answered.
    """


def describe(failure: Exception) -> str:
    """Describe a failure in one line.

    Returns:
      A call's status and its details; an error's message; of an exception that was not foreseen its
      type only, for its message may hold a value.
    """
    if isinstance(failure, aio.AioRpcError):
        details = " ".join((failure.details() or "no details").split())
        return f"{failure.code().name}: {printable(details)}"
    return str(failure) if isinstance(failure, AskanceError) else type(failure).__name__


class DeviceRunner:
    """Exchange of one device with its aggregator.

    Privacy: nothing is decided here; what leaves is what `Device.answer` returned, durable already,
      and a repetition is the same bytes.

    Args:
      device: what answers.
      identity: the device's identity to the aggregator.
      channel: to the aggregator; may be shared by many devices of one process.
      jitter: where the randomness of waiting comes from.
      sleep: how to wait.
      offload: where requests are settled and committed when that waits for a disk; None: in place.
      evaluate: runs the evaluation of a message's answers, for no longer than its time limit.
      release_ms: reports leave at a multiple of this many milliseconds since their requests, all
        of one message together, so that the time an answer took does not show. `evaluate` waits for
        less than that. 0 sends them at once (for simulated devices).
      longest_wait_ms: between two tries.
      on_failure: called for every failed exchange that `participate` and `keep_checking_in` try
        again.
      on_report: given every report when the core has made it durable.
      on_refusal: given every refusal with its text, which does not leave.
      on_default: given a line on answers that were left to the public default, without a value.
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
        evaluate: Evaluate = evaluate_at_once,
        release_ms: int = 0,
        longest_wait_ms: int = LONGEST_WAIT_MS,
        on_failure: Callable[[Failure], None] | None = None,
        on_report: Callable[[bytes], None] | None = None,
        on_refusal: Callable[[Refusal], None] | None = None,
        on_default: Callable[[str], None] | None = None,
    ) -> None:
        self._device = device
        self._identity = identity
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
        self._evaluate = evaluate
        self._release_ms = release_ms
        self._on_failure = on_failure
        self._on_report = on_report
        self._on_refusal = on_refusal
        self._on_default = on_default
        self._evaluating: asyncio.Future[None] | None = None  # perhaps one that is late
        self._outbox = Outbox()
        self._call: aio.StreamStreamCall[bytes, bytes] | None = None

    @property
    def device(self) -> Device:
        """Device that answers."""
        return self._device

    @property
    def unacknowledged(self) -> int:
        """Number of reports kept for another delivery."""
        return len(self._outbox)

    async def check_in_once(self) -> int:
        """Deliver unacknowledged reports, fetch requests, answer them and deliver the answers.

        Returns:
          When the aggregator would like the next check-in, in milliseconds.

        Raises:
          aio.AioRpcError: the network or the aggregator failed; nothing is lost.
          RemoteProtocolError: what came back breaks the protocol; nothing is lost.
          StoreError: the device's ledger cannot be used; nothing was spent, nothing was sent.
        """
        response = await self._exchange(self._first_batch())
        for _ in range(MAX_EXCHANGES):
            reports = self._first_batch()
            if not reports:
                break
            response = await self._exchange(reports)
        return response.retry_after_ms

    async def _exchange(self, reports: tuple[bytes, ...]) -> Response:
        data = await self._check_in(
            self._greeting(reports), timeout=CALL_TIMEOUT_S, metadata=self._metadata
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
                wait_ms = pause_ms(await self.check_in_once())
                self._backoff.reset()
            except _FAILURES as failure:
                wait_ms = self._after(failure)
            await self._sleep(wait_ms)

    async def participate(self) -> None:
        """Hold a stream open for ever; after a failure, wait and open the next one.

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

    def reopen(self) -> None:
        """End the open stream: the next one brings the requests that were held.

        For use in the event loop. What is being answered is answered and delivered.
        """
        if self._call is not None:
            self._call.cancel()

    def _after(self, failure: Failure) -> int:
        if self._on_failure is not None:
            self._on_failure(failure)
        return self._backoff.next_ms() + self._asked_to_wait_ms(failure)

    def _asked_to_wait_ms(self, failure: Failure) -> int:
        if not isinstance(failure, aio.AioRpcError):
            return 0
        asked_ms = read_retry_ms(failure.trailing_metadata())
        return asked_wait_ms(asked_ms, self._longest_wait_ms, self._jitter)

    async def _hold_stream(self) -> None:
        call = self._call = self._participate(metadata=self._metadata)
        try:
            await self._exchange_on(call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not call.cancelled():
                raise
            # `reopen` has ended the stream, and nothing else was cancelled.
        finally:
            self._call = None
            call.cancel()

    async def _exchange_on(self, call: aio.StreamStreamCall[bytes, bytes]) -> None:
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
                for batch in batches(reports, MAX_REPORTS):
                    await call.write(encode_check_in(CheckIn(reports=batch)))
        except asyncio.InvalidStateError:
            await call.read()  # written to a stream that has ended: this raises its status

    def _greeting(self, reports: tuple[bytes, ...]) -> bytes:
        known = self._device.known_studies[-MAX_KNOWN_STUDIES:]
        return encode_check_in(CheckIn(reports=reports, known_studies=known))

    async def _take(self, response: Response) -> tuple[bytes, ...]:
        """Do what a response says and return the reports it led to, which are kept as well.

        Raises:
            LedgerOlder: the aggregator has acknowledged more than the ledger holds; no request was
                answered.
        """
        if not response.requests:
            await self._settle(response)
            self._meet(response)
            return ()
        return await on_grid(self._answer(response), self._release_ms, self._sleep)

    async def _settle(self, response: Response) -> None:
        """Compare the sequence numbers, and forget the reports that are acknowledged."""
        await self._check_sequence(response.acknowledged_sequence)
        for digest, status in response.acks:
            self._outbox.acknowledge(digest, status)

    async def _check_sequence(self, acknowledged: int) -> None:
        """Refuse an exchange whose aggregator is ahead of the ledger; nothing of it is kept."""
        if not acknowledged:
            return
        held = await self._work(lambda: self._device.ledger.sequence)
        if acknowledged > held:
            raise LedgerOlder(
                f"device {self._identity.device_id.hex()}: expected an aggregator that has at most"
                f" {held} numbered answers, got one that has {acknowledged}: the ledger is older"
                " than it was, or the aggregator lies (see device accept-loss)"
            )

    def _meet(self, response: Response) -> None:
        for study in response.studies:
            # A refusal is no failure: a request of such a study is refused one by one, with a
            # reason that the aggregator gets to see.
            self._refused(self._device.introduce(study))

    async def _answer(self, response: Response) -> tuple[bytes, ...]:
        """Settle all requests of a message, then evaluate, then commit; keep the reports."""
        await self._settle(response)
        self._meet(response)
        turn = await self._begin(response.requests)
        finishing = False
        try:
            for refusal in turn.refusals:
                self._refused(refusal)
            if turn.pending:
                await self._evaluate_in_time(turn)
            finishing = True  # from here on the turn ends by itself, in its thread
            reports = await self._work(turn.finish)
        finally:
            if not finishing:
                turn.close()
        for digest, report in reports.items():
            self._outbox.put(digest, report)
            if self._on_report is not None:
                self._on_report(report)
        return tuple(reports.values())

    async def _begin(self, requests: tuple[bytes, ...]) -> Turn:
        if self._offload is None:
            return self._device.begin(requests)
        loop = asyncio.get_running_loop()
        beginning = loop.run_in_executor(self._offload, self._device.begin, requests)
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.add_done_callback(_close)  # or it would hold the device for ever
            raise

    async def _evaluate_in_time(self, turn: Turn) -> None:
        """Evaluate, unless an earlier evaluation of this device is still not done.

        So a record source that hangs takes one thread per device. The time that this takes is the
        same in all cases.
        """
        late = self._evaluating is not None and not self._evaluating.done()
        evaluating = await self._evaluate(_nothing if late else turn.evaluate, turn.weight)
        if not late:
            self._evaluating = evaluating
        if self._on_default is None:
            return
        if late or not evaluating.done():
            self._on_default("a record was not evaluated in time")
        for failure in turn.failures:
            self._on_default(f"a record was not evaluated: {failure}")

    async def _work(self, work: Callable[[], T]) -> T:
        """Do some work where it may wait for a disk; it is done even if the caller is cancelled."""
        if self._offload is None:
            return work()
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._offload, work))

    def _refused(self, refusal: Refusal | None) -> None:
        if refusal is not None and self._on_refusal is not None:
            self._on_refusal(refusal)


def _close(beginning: asyncio.Future[Turn]) -> None:
    """Close the turn that a cancelled caller has begun."""
    if not beginning.cancelled() and beginning.exception() is None:
        beginning.result().close()


def _nothing() -> None:
    """Evaluate nothing: every answer is left to its default."""
