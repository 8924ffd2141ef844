"""Admission of devices: enrolled ids and tokens."""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from askance_aggregator.exchange import LEAST_PROTOCOL
from askance_aggregator.server.devices.commits import GroupedReads
from askance_aggregator.server.devices.credentials import Credentials
from askance_aggregator.server.devices.peers import Peers
from askance_aggregator.server.devices.standings import Standings
from askance_aggregator.server.loops import InExecutor
from askance_aggregator.store import Enrolled, EnrolledDevice, EnrolledGateway, Store
from askance_client.errors import AskanceError, ProtocolError
from askance_client.service import token_digest
from askance_client.service.exchange import PROTOCOL, Enrol
from askance_client.service.gateway_exchange import MAX_MEMBERS, Join

_NOBODY = EnrolledDevice(-1, bytes(32))  # stands in for an unknown device: the same work is done
_NO_GATEWAY = EnrolledGateway(0, bytes(32))
_REMEMBERED = 1 << 16


class Unauthenticated(AskanceError):
    """No device has that id and token; the error does not say which of the two is wrong."""


class UnsupportedProtocol(ProtocolError):
    """The device speaks another version of the exchange."""


class EnrolmentVerifier(Protocol):
    """Says what an enrolment token is worth."""

    def verify(self, token: bytes) -> tuple[bytes, int]:
        """The token's id (16 bytes) and how many devices may use it.

        Raises:
          EnrolmentRefused: it is none, or has expired.
        """
        ...


def check_protocol(version: int) -> None:
    """Refuse a version of the exchange that this aggregator does not speak; 0: none was named."""
    if version < LEAST_PROTOCOL:
        raise UnsupportedProtocol(
            f"expected a device of protocol version {LEAST_PROTOCOL} or later, got version"
            f" {version} (install a newer askance-client)"
        )
    if version > PROTOCOL:
        raise UnsupportedProtocol(
            f"expected a device of protocol version {PROTOCOL} or earlier, got version {version}"
            " (the aggregator is older than the device's askance-client)"
        )


@dataclass(frozen=True, slots=True)
class RelayCaller:
    """Caller of a Relay, whose identity is proven: a gateway, or a device for itself.

    Args:
      gateway: the gateway's number; 0: it is a device.
      ordinal: the device's; -1: it is a gateway.
    """

    gateway: int
    ordinal: int = -1

    @property
    def most_members(self) -> int:
        """Number of members that may have a number on its stream, refused ones included."""
        return MAX_MEMBERS if self.gateway else 1

    def has(self, device: EnrolledDevice) -> bool:
        """Return whether the device is a member of the caller."""
        if self.gateway:
            return device.gateway == self.gateway
        return device.ordinal == self.ordinal


class Admission:
    """Proves devices' identities against the store and remembers the latest of them.

    Devices that are not remembered are looked up together (see `GroupedReads`).
    """

    def __init__(
        self, store: Store, executor: Executor, peers: Peers, standings: Standings
    ) -> None:
        self.standings = standings
        self._store = store
        self._run = InExecutor(executor)
        self._peers = peers
        self._known: OrderedDict[bytes, EnrolledDevice] = OrderedDict()
        self._devices = GroupedReads(store.find_devices, executor)

    async def ordinal(self, credentials: Credentials, peer: str) -> int:
        """Return the ordinal of the device that these credentials prove."""
        check_protocol(credentials.protocol)
        device = self._known.get(credentials.device_id)
        if device is None:
            device = await self._device(credentials.device_id, peer)
        if not _has_token(device, credentials.token):
            raise Unauthenticated("expected an enrolled device and its token (see `device enroll`)")
        self.standings.check_device(device.ordinal)
        self.standings.saw(device.ordinal, credentials.software)
        return device.ordinal

    async def relay_caller(self, credentials: Credentials, peer: str) -> RelayCaller:
        """Return the gateway, or the device, that these credentials prove."""
        if not credentials.gateway_id:
            return RelayCaller(0, await self.ordinal(credentials, peer))
        check_protocol(credentials.protocol)
        with self._peers.unproven(peer):
            found = await self._run(self._store.gateway, credentials.gateway_id)
        gateway = found or _NO_GATEWAY
        if not _has_token(gateway, credentials.token):
            raise Unauthenticated("expected an enrolled gateway and its token (see device enroll)")
        self.standings.check_gateway(gateway.number)
        return RelayCaller(gateway.number)

    async def members(self, joins: Sequence[Join], software: str) -> list[EnrolledDevice | None]:
        """Look up the devices that a gateway proves by their tokens; they are not remembered.

        Returns:
          Per join the device; None if no device has that id and token, or it may not take part.
        """

        def find() -> list[EnrolledDevice | None]:
            found = self._store.find_devices([join.device_id for join in joins])
            return [
                device if _has_token(device or _NOBODY, join.token) else None
                for join, device in zip(joins, found, strict=True)
            ]

        devices = await self._run(find)
        admitted = [
            None if device is None or self.standings.bars(device.ordinal) else device
            for device in devices
        ]
        for device in admitted:
            if device is not None:
                self.standings.saw(device.ordinal, software)
        return admitted

    def forget(self, ordinals: Collection[int]) -> None:
        """Look devices up again that have changed: a forgotten id may be another user's now."""
        for device_id in [one for one, known in self._known.items() if known.ordinal in ordinals]:
            del self._known[device_id]

    async def enrol(self, message: Enrol, token_id: bytes, limit: int) -> Enrolled:
        """Enrol devices, and their gateway (see `Store.enrol_with`)."""
        return await self._run(
            self._store.enrol_with,
            message.devices,
            token_id,
            limit,
            message.gateway,
        )

    async def _device(self, device_id: bytes, peer: str) -> EnrolledDevice:
        if not device_id:
            return _NOBODY
        with self._peers.unproven(peer):
            found = await self._devices.get(device_id)
        if found is None:
            return _NOBODY
        if not self.standings.bars(found.ordinal):  # it may have been forgotten meanwhile
            self._known[device_id] = found
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found


def _has_token(known: EnrolledDevice | EnrolledGateway, token: bytes) -> bool:
    return hmac.compare_digest(token_digest(token), known.token_digest)
