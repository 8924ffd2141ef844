"""Every device's runtime over gRPC, in the service's event loop.

In one loop with the service, because grpc.aio serves all loops of a process from one queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Protocol

from grpc import aio

from askance_aggregator.server.devices import AggregatorServer
from askance_client.errors import LocalProtocolError
from askance_client.service import NO_PROXY, channel_options

_DIALLING = 64  # devices that dial between two turns of the loop
_STOP_S = 30.0


class Runtime(Protocol):
    """Running device."""

    async def participate(self) -> None:
        """Hold a stream open for ever."""
        ...


MakeRuntime = Callable[[int, aio.Channel], Runtime]
"""Maker of a runtime from an ordinal and a connection, which many share."""


class Runners:
    """Devices of a fleet, of which the present ones hold a stream open.

    Args:
      make: makes a device's runtime, once.
      server: what they connect to.
      connections: over how many connections their streams are spread.
      order: of ordinals, in which they connect.

    No device connects before `attend` sets which ones are present.
    """

    def __init__(
        self,
        make: MakeRuntime,
        server: AggregatorServer,
        connections: int,
        order: Sequence[int],
    ) -> None:
        self._make = make
        self._server = server
        self._connections = connections
        self._order = order
        self._channels: list[aio.Channel] = []
        self._runtimes: dict[int, Runtime] = {}
        self._streaming: dict[int, asyncio.Task[None]] = {}
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
            for _ in range(self._connections)
        ]
        try:
            await asyncio.Event().wait()
        finally:
            self._over = True
            await self._hang_up(list(self._streaming))
            for channel in self._channels:
                await channel.close()

    async def _attend(self, away: frozenset[int]) -> None:
        await self._hang_up([ordinal for ordinal in self._streaming if ordinal in away])
        for place, ordinal in enumerate(self._order):
            if ordinal in away or ordinal in self._streaming:
                continue
            channel = self._channels[place % len(self._channels)]
            participating = self._participate(ordinal, channel)
            self._streaming[ordinal] = asyncio.ensure_future(participating)
            if place % _DIALLING == 0:
                await asyncio.sleep(0)  # lets a stop take effect while they connect
                if self._over:
                    return

    async def _hang_up(self, ordinals: Sequence[int]) -> None:
        leaving = [self._streaming.pop(ordinal) for ordinal in ordinals]
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)

    async def _participate(self, ordinal: int, channel: aio.Channel) -> None:
        try:
            if ordinal not in self._runtimes:
                self._runtimes[ordinal] = self._make(ordinal, channel)
            await self._runtimes[ordinal].participate()
        except Exception as error:
            self._failure = error
            await self._server.hub.stop()  # a caller that waits for a round would wait for ever
