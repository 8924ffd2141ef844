"""Admission of devices: enrolled ids and tokens."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Protocol

from askance_aggregator.server.devices.peers import Peers
from askance_aggregator.store import Enrolled, EnrolledDevice, Store
from askance_client.errors import AskanceError, ProtocolError
from askance_client.service import PROTOCOL, Credentials, token_digest

_NOBODY = EnrolledDevice(-1, bytes(32))  # stands in for an unknown device: the same work is done
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
    """Refuse another version of the exchange.

    Raises:
      UnsupportedProtocol: it is not this one.
    """
    if version != PROTOCOL:
        raise UnsupportedProtocol(f"expected protocol version {PROTOCOL}, found {version}")


Lookups = dict[bytes, "asyncio.Future[EnrolledDevice | None]"]


class Admission:
    """Proves devices' identities against the store and remembers the latest of them.

    Devices that are not remembered are looked up together: those that call during one look-up are
    the next.

    Args:
      store: knows the devices.
      executor: a thread that may wait for the store.
      peers: limits the calls whose device is being looked up.
    """

    def __init__(self, store: Store, executor: Executor, peers: Peers) -> None:
        self._store = store
        self._executor = executor
        self._peers = peers
        self._known: OrderedDict[bytes, EnrolledDevice] = OrderedDict()
        self._waiting: Lookups = {}
        self._lookup: asyncio.Task[None] | None = None

    async def ordinal(self, credentials: Credentials, peer: str) -> int:
        """Return the ordinal of the device that these credentials prove.

        Args:
          credentials: the device's id and token.
          peer: the caller's address, as gRPC names it.

        Raises:
          UnsupportedProtocol, Unauthenticated: it is not admitted.
          Overloaded: too many callers are being looked up.
          StoreError: the store cannot say.
        """
        check_protocol(credentials.protocol)
        device = self._known.get(credentials.device_id)
        if device is None:
            device = await self._device(credentials.device_id, peer)
        if not hmac.compare_digest(token_digest(credentials.token), device.token_digest):
            raise Unauthenticated("expected an enrolled device and its token")
        return device.ordinal

    async def enrol(
        self, devices: Sequence[tuple[bytes, bytes]], token_id: bytes, limit: int
    ) -> Enrolled:
        """Enrol devices (see `Store.enrol_with`)."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._executor, self._store.enrol_with, devices, token_id, limit
        )

    async def _device(self, device_id: bytes, peer: str) -> EnrolledDevice:
        if not device_id:
            return _NOBODY
        with self._peers.unproven(peer):
            future = self._waiting.get(device_id)
            if future is None:
                future = asyncio.get_running_loop().create_future()
                self._waiting[device_id] = future
            if self._lookup is None:
                self._lookup = asyncio.ensure_future(self._look_up())
            found = await asyncio.shield(future)  # which others may wait for
        if found is None:
            return _NOBODY
        self._known[device_id] = found
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found

    async def _look_up(self) -> None:
        """Look up devices until none is waited for."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, {}
                await self._answer(loop, batch)
        finally:
            self._lookup = None

    async def _answer(self, loop: asyncio.AbstractEventLoop, batch: Lookups) -> None:
        def find() -> list[EnrolledDevice | None]:
            return [self._store.device(device_id) for device_id in batch]

        try:
            found = await loop.run_in_executor(self._executor, find)
        except Exception as error:
            for future in batch.values():
                future.set_exception(error)
                future.exception()  # seen: every caller may have left meanwhile
            return
        for future, device in zip(batch.values(), found, strict=True):
            future.set_result(device)
