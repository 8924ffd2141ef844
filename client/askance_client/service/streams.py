"""A stream that is held open: after a failure, wait and open the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from grpc import aio

from askance_client.errors import AskanceError, RemoteProtocolError
from askance_client.printable import printable
from askance_client.service import observable
from askance_client.service.credentials import Metadata, protocol_of, read_retry_ms
from askance_client.service.exchange import PROTOCOL, SERVICE
from askance_client.service.open_side import explain_tls

Call: TypeAlias = aio.StreamStreamCall[bytes, bytes]
Failure: TypeAlias = aio.AioRpcError | RemoteProtocolError
FAILURES = (aio.AioRpcError, RemoteProtocolError)
"""What an exchange may fail with and be tried again: the network's fault, or the aggregator's."""


class HeldStream:
    """Stream of a device or a gateway, opened again for ever.

    Args:
      method: "Participate" or "Relay".
      exchange: reads and writes a stream that the aggregator has accepted, until it ends.
      quiet: awaited before a stream is opened, and before one is accepted or ended.
    """

    def __init__(
        self,
        channel: aio.Channel,
        method: str,
        metadata: Metadata,
        exchange: Callable[[Call], Awaitable[None]],
        *,
        jitter: observable.Jitter = observable.system_jitter,
        sleep: observable.Sleep = observable.sleep_ms,
        longest_wait_ms: int = observable.LONGEST_WAIT_MS,
        on_failure: Callable[[Failure], None] | None = None,
        quiet: Callable[[], Awaitable[None]],
    ) -> None:
        # Without serializers: messages are bytes here, so that they are bounded before parsing.
        self._open: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            f"/{SERVICE}/{method}"
        )
        self._metadata = metadata
        self._exchange = exchange
        self._jitter = jitter
        self._sleep = sleep
        self._longest_wait_ms = longest_wait_ms
        self._on_failure = on_failure
        self._quiet = quiet
        self._call: Call | None = None
        self.backoff = observable.Backoff(jitter=jitter, cap_ms=longest_wait_ms)

    async def hold(self) -> None:
        """Hold a stream open until cancelled."""
        while True:
            try:
                await self._hold_once()
                wait_ms = self.backoff.next_ms()
            except FAILURES as failure:
                wait_ms = self.after(failure)
            await self._sleep(wait_ms)

    async def reopen(self) -> None:
        """End the open stream: the next one brings the requests that were held.

        What is being answered is made durable, and asked for again.
        """
        await self._quiet()
        if self._call is not None:
            self._call.cancel()

    def after(self, failure: Failure) -> int:
        """Tell of a failure and return the wait after it, in milliseconds."""
        if self._on_failure is not None:
            self._on_failure(failure)
        wait_ms = self.backoff.next_ms()
        if not isinstance(failure, aio.AioRpcError):
            return wait_ms
        asked_ms = read_retry_ms(failure.trailing_metadata())
        return wait_ms + observable.asked_wait_ms(asked_ms, self._longest_wait_ms, self._jitter)

    async def _hold_once(self) -> None:
        await self._quiet()
        call = self._call = self._open(metadata=self._metadata)
        try:
            await self._accepted(call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not call.cancelled():
                raise
            # `reopen` has ended the stream, and nothing else was cancelled.
        finally:
            self._call = None
            call.cancel()

    async def _accepted(self, call: Call) -> None:
        try:
            # A write to a stream that was refused would lose its status, and the wait asked for.
            version = protocol_of(await call.initial_metadata())
            await self._quiet()
            if not version:
                await call.read()
                raise RemoteProtocolError("exchange: expected an accepted stream, got none")
            if version != PROTOCOL:
                raise RemoteProtocolError(
                    f"exchange: expected an aggregator of protocol version {PROTOCOL}, got one of"
                    f" version {version}; nothing was answered (install a client of that version)"
                )
            await self._exchange(call)
        except asyncio.InvalidStateError:
            await call.read()  # written to a stream that has ended: this raises its status


def describe(failure: Exception) -> str:
    """Describe a failure in one line.

    Returns:
      A call's status and its details; an error's message; of an exception that was not foreseen its
      type only, for its message may hold a value.
    """
    if isinstance(failure, aio.AioRpcError):
        details = " ".join((failure.details() or "no details").split())
        return f"{failure.code().name}: {printable(explain_tls(details))}"
    return str(failure) if isinstance(failure, AskanceError) else type(failure).__name__
