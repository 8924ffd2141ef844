"""The devices' exchanges over gRPC, in the service's event loop.

In one loop with the service, because grpc.aio serves all loops of a process from one queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress

from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_client.errors import LocalProtocolError
from askance_client.service import channel_options
from askance_client.service.channels import NO_PROXY
from askance_simulation.fleets.streams import Runtime, Streams

_DIALLING = 64  # streams that are opened between two turns of the loop
_STOP_S = 30.0


class Runners:
    """Devices of a fleet, of which the present ones are on an open stream.

    Args:
      streams: the streams that they share, or have each.
      server: what they connect to.

    No device connects before `attend` sets which ones are present.
    """

    def __init__(self, streams: Streams, server: AggregatorServer) -> None:
        self._streams = streams
        self._server = server
        self._channels: list[aio.Channel] = []
        self._running: dict[tuple[int, ...], asyncio.Task[None]] = {}  # by the stream's devices
        self._failure: BaseException | None = None
        self._over = False
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(), server.loop)

    def check(self) -> None:
        """Raise what a device's runtime ended with."""
        if self._failure is not None:
            raise LocalProtocolError("devices: expected them to run on, found one ended") from (
                self._failure
            )

    def attend(self, away: Collection[int]) -> Future[None]:
        """Set the absent devices; all others connect. Callable from any thread, returns at once.

        Returns:
          Done when those who are not there have hung up, and the others dial.
        """
        attending = self._attend(frozenset(away))
        return asyncio.run_coroutine_threadsafe(attending, self._server.loop)

    def stop(self) -> None:
        """Disconnect all devices."""
        self._serving.cancel()
        with suppress(CancelledError):
            self._serving.result(_STOP_S)

    async def _serve(self) -> None:
        self._channels = [
            aio.insecure_channel(
                self._server.address, options=[*channel_options(own_connection=True), NO_PROXY]
            )
            for _ in range(self._streams.connections)
        ]
        try:
            await asyncio.Event().wait()
        finally:
            self._over = True
            await self._hang_up(list(self._running))
            for channel in self._channels:
                await channel.close()

    async def _attend(self, away: frozenset[int]) -> None:
        """Keep the streams whose devices stay the same, end the others, open what is missing."""
        wanted = {ordinals: number for number, ordinals in self._streams.present(away)}
        await self._hang_up([ordinals for ordinals in self._running if ordinals not in wanted])
        opened = [stream for stream in wanted.items() if stream[0] not in self._running]
        for place, (ordinals, number) in enumerate(opened):
            runtime = self._streams.runtime(ordinals, self._channels[number])
            self._running[ordinals] = asyncio.ensure_future(self._participate(runtime))
            if place % _DIALLING == 0:
                await asyncio.sleep(0)  # lets a stop take effect while they connect
                if self._over:
                    return

    async def _hang_up(self, streams: Sequence[tuple[int, ...]]) -> None:
        leaving = [self._running.pop(ordinals) for ordinals in streams]
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)

    async def _participate(self, runtime: Runtime) -> None:
        try:
            await runtime.participate()
        except Exception as error:
            self._failure = error
            await self._server.hub.stop()  # a caller that waits for a round would wait for ever
