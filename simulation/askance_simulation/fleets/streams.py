"""Streams between simulated devices and the service: a few that are shared, or one per device.

Between the devices and the service are real connections and the trusted base's own exchange. Only
the coins and the clock of the devices are the simulation's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol, TypeVar

from grpc import aio

from askance_aggregator.store import Store
from askance_client.device import Device
from askance_client.errors import RemoteProtocolError
from askance_client.service import Identity, gateway_metadata, token_digest
from askance_client.service.answering import DeviceAnswers
from askance_client.service.multiplexer import Multiplexer
from askance_simulation.disturbances import Fates, FaultRecorder
from askance_simulation.disturbances.unlucky import DeviceConnection, Unlucky
from askance_simulation.fleets.devices import Devices
from askance_simulation.stream_runner import StreamRunner

T = TypeVar("T")

# Streams of devices over one connection. A fleet's service is its own process's and accepts more
# of them than an aggregator does: 10,000 devices need 20 connections, not 1,250.
STREAMS_PER_CONNECTION = 500
_GATEWAY_ID = b"gateway"  # followed by its number: 15 bytes, where a device's id has 16
_TOKEN_ID = bytes(16)  # of the enrolment token of all gateways


class Runtime(Protocol):
    """Exchange of one or more devices over one stream."""

    async def participate(self) -> None:
        """Hold a stream open for ever."""
        ...


class Streams(Protocol):
    """Interface of the ways in which a fleet's devices share streams."""

    @property
    def connections(self) -> int:
        """Number of connections, over which the streams are spread."""
        ...

    def enrol(self, store: Store) -> None:
        """Make all devices known to the aggregator, ordinals ascending."""
        ...

    def present(self, away: Collection[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield every stream that has a present device, in the order in which they are opened.

        Returns:
          The number of its connection, and the ordinals of the stream's present devices.
        """
        ...

    def runtime(self, ordinals: tuple[int, ...], channel: aio.Channel) -> Runtime:
        """Return the exchange of these devices over one stream of a connection."""
        ...


MakeStreams = Callable[[Devices, int, Sequence[int]], Streams]
"""Maker of a fleet's streams from its devices, the number of connections that is wanted, and the
order of ordinals in which the devices connect."""


class SharedStreams:
    """A few streams, each for all devices of a gateway (see `Multiplexer`).

    A device whose ledger fails ends its gateway's exchange, and so the study: a gateway of a
    deployment would try it again.

    Args:
      connections: at most how many streams, each on a connection of its own.
    """

    def __init__(self, devices: Devices, connections: int, order: Sequence[int]) -> None:
        self._devices = devices
        self._identities = _identities(len(devices))
        size = max(1, -(-len(devices) // connections))
        self._gateways = [
            _identity(_GATEWAY_ID + number.to_bytes(8, "big"))
            for number in range(max(1, -(-len(devices) // size)))
        ]
        self._size = size
        self._orders: list[list[int]] = [[] for _ in self._gateways]
        for ordinal in order:
            self._orders[ordinal // size].append(ordinal)

    @property
    def connections(self) -> int:
        return len(self._gateways)

    def enrol(self, store: Store) -> None:
        for number, gateway in enumerate(self._gateways):
            members = self._identities[number * self._size : (number + 1) * self._size]
            store.enrol_with(
                [(one.device_id, token_digest(one.token)) for one in members],
                _TOKEN_ID,
                len(self._identities),
                (gateway.device_id, token_digest(gateway.token)),
            )

    def present(self, away: Collection[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        for number, order in enumerate(self._orders):
            members = tuple(ordinal for ordinal in order if ordinal not in away)
            if members:
                yield number, members

    def runtime(self, ordinals: tuple[int, ...], channel: aio.Channel) -> Runtime:
        gateway = self._gateways[ordinals[0] // self._size]
        members = [(self._identities[ordinal], self._devices[ordinal]) for ordinal in ordinals]
        return _GatewayRuntime(members, gateway, channel)


class StreamPerDevice:
    """A stream for every device, as if each ran in a process of its own.

    Args:
      connections: least number of connections, over which the streams are spread.
    """

    def __init__(self, devices: Devices, connections: int, order: Sequence[int]) -> None:
        self._devices = devices
        self._identities = _identities(len(devices))
        needed = -(-len(devices) // STREAMS_PER_CONNECTION)
        self._connections = max(1, min(connections, len(devices)), needed)
        self._order = order
        self._runtimes: dict[int, Runtime] = {}  # which an absence does not end

    @property
    def connections(self) -> int:
        return self._connections

    def enrol(self, store: Store) -> None:
        store.enrol((one.device_id, token_digest(one.token)) for one in self._identities)

    def present(self, away: Collection[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        for place, ordinal in enumerate(self._order):
            if ordinal not in away:
                yield place % self._connections, (ordinal,)

    def runtime(self, ordinals: tuple[int, ...], channel: aio.Channel) -> Runtime:
        (ordinal,) = ordinals
        if ordinal not in self._runtimes:
            identity = self._identities[ordinal]
            self._runtimes[ordinal] = self._start(ordinal, identity, channel)
        return self._runtimes[ordinal]

    def _start(self, ordinal: int, identity: Identity, channel: aio.Channel) -> Runtime:
        return StreamRunner(self._devices[ordinal], identity, channel)


class FaultyStreams(StreamPerDevice):
    """A stream for every device, under faults of the device and of the network."""

    def __init__(
        self,
        devices: Devices,
        connections: int,
        order: Sequence[int],
        *,
        fates: Fates,
        recorder: FaultRecorder,
    ) -> None:
        super().__init__(devices, connections, order)
        self._fates = fates
        self._recorder = recorder

    def _start(self, ordinal: int, identity: Identity, channel: aio.Channel) -> Runtime:
        line = DeviceConnection(ordinal, channel, identity, self._fates, self._recorder)
        return Unlucky(line, identity, self._devices.booted, self._devices[ordinal].ledger)


class _GatewayRuntime:
    """Exchange of a gateway's devices, which ends when one of them fails."""

    def __init__(
        self, members: Sequence[tuple[Identity, Device]], gateway: Identity, channel: aio.Channel
    ) -> None:
        self._answers = _WatchedAnswers()
        self._multiplexer = Multiplexer(
            members, gateway_metadata(gateway), channel, answering=self._answers
        )

    async def participate(self) -> None:
        """Hold the stream open."""
        exchange = asyncio.ensure_future(self._multiplexer.participate())
        try:
            raise await self._answers.failure
        finally:
            exchange.cancel()
            await asyncio.gather(exchange, return_exceptions=True)


class _WatchedAnswers(DeviceAnswers):
    """Devices' answers; `failure` becomes the first failure that is a device's own."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def answer(self, device: Device, requests: tuple[bytes, ...]) -> dict[bytes, bytes]:
        try:
            return await super().answer(device, requests)
        except Exception as failure:
            self._note(failure)
            raise

    async def work(self, work: Callable[[], T]) -> T:
        try:
            return await super().work(work)
        except Exception as failure:
            self._note(failure)
            raise

    def _note(self, failure: Exception) -> None:
        """Keep the first failure that is not the aggregator's, whose failures are tried again."""
        if not isinstance(failure, RemoteProtocolError) and not self.failure.done():
            self.failure.set_result(failure)


def _identities(devices: int) -> list[Identity]:
    return [_identity(ordinal.to_bytes(16, "big")) for ordinal in range(devices)]


def _identity(device_id: bytes) -> Identity:
    return Identity(device_id, secrets.token_bytes(32))
