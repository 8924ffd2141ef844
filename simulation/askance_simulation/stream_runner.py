"""A device with a stream or check-ins of its own, for ever; on real devices a gateway has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpc import aio

from askance_client.device import Device
from askance_client.service import Identity, observable
from askance_client.service.exchange import CheckIn, decode_response, encode_check_in
from askance_client.service.runtime import DeviceRunner
from askance_client.service.streams import FAILURES, Call, Failure, HeldStream

LEAST_WAIT_MS = 50  # whatever an aggregator asks for, no device checks in without a pause


class StreamRunner(DeviceRunner):
    """Exchange of one device with its aggregator, for ever.

    Args:
      longest_wait_ms: between two tries.
      on_failure: called for every failed exchange that is tried again.
      options: further ones of `DeviceRunner`.
    """

    def __init__(
        self,
        device: Device,
        identity: Identity,
        channel: aio.Channel,
        *,
        jitter: observable.Jitter = observable.system_jitter,
        sleep: observable.Sleep = observable.sleep_ms,
        longest_wait_ms: int = observable.LONGEST_WAIT_MS,
        on_failure: Callable[[Failure], None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(device, identity, channel, sleep=sleep, **options)
        self._stream = HeldStream(
            channel,
            "Participate",
            self._metadata,
            self._exchange_on,
            jitter=jitter,
            sleep=sleep,
            longest_wait_ms=longest_wait_ms,
            on_failure=on_failure,
            quiet=self._answering.quiet,
        )

    async def keep_checking_in(self) -> None:
        """Check in for ever, at the aggregator's pace, and after a failure at its own."""
        while True:
            try:
                wait_ms = max(await self.check_in_once(), LEAST_WAIT_MS)
                self._stream.backoff.reset()
            except FAILURES as failure:
                wait_ms = self._stream.after(failure)
            await self._sleep(wait_ms)

    async def participate(self) -> None:
        """Hold a stream open for ever; after a failure, wait and open the next one."""
        await self._stream.hold()

    async def _exchange_on(self, call: Call) -> None:
        first, *others = self._outbox.batches() or [()]
        await call.write(self._greeting(first))
        for batch in others:
            await call.write(encode_check_in(CheckIn(reports=batch)))
        while isinstance(data := await call.read(), bytes):  # else the end of the stream
            reports = await self._take(decode_response(data))
            self._stream.backoff.reset()
            for batch in observable.report_batches(reports):
                await call.write(encode_check_in(CheckIn(reports=batch)))
