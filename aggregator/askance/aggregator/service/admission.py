"""Who may come in."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Protocol

from askance.aggregator.store import Enrolled, EnrolledDevice, Store
from askance.client.errors import AskanceError, ProtocolError
from askance.client.service import PROTOCOL, CheckIn, token_digest

_NOBODY = EnrolledDevice(-1, bytes(32))  # stands in for an unknown device: the same work is done
_REMEMBERED = 1 << 16


class Unauthenticated(AskanceError):
    """No device of that id and token; which of the two is wrong is not told."""


class UnsupportedProtocol(ProtocolError):
    """The device speaks another version of the exchange."""


class Overloaded(AskanceError):
    """More at one time than the service takes; the caller may come back later."""


class EnrolmentVerifier(Protocol):
    """Says what an enrolment token is worth."""

    def verify(self, token: bytes) -> tuple[bytes, int]:
        """The token's id (16 bytes) and how many devices may use it.

        Raises:
          EnrolmentRefused: it is none, or has expired.
        """
        ...


def check_protocol(version: int) -> None:
    """Refuses another version of the exchange.

    Raises:
      UnsupportedProtocol: it is not this one.
    """
    if version != PROTOCOL:
        raise UnsupportedProtocol(f"expected protocol version {PROTOCOL}, found {version}")


class Admission:
    """Proves devices' identities against the store and remembers the latest of them."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._known: OrderedDict[bytes, EnrolledDevice] = OrderedDict()

    async def ordinal(self, message: CheckIn) -> int:
        """The ordinal of the device that a first message is from.

        Raises:
          UnsupportedProtocol, Unauthenticated: it may not come in.
          StoreError: the store cannot say.
        """
        check_protocol(message.protocol)
        device = await self._device(message.device_id)
        if not hmac.compare_digest(token_digest(message.token), device.token_digest):
            raise Unauthenticated("expected an enrolled device and its token")
        return device.ordinal

    async def enrol(
        self, devices: Sequence[tuple[bytes, bytes]], token_id: bytes, limit: int
    ) -> Enrolled:
        """Takes up devices (see `Store.enrol_with`)."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._executor, self._store.enrol_with, devices, token_id, limit
        )

    async def _device(self, device_id: bytes) -> EnrolledDevice:
        known = self._known.get(device_id)
        if known is not None:
            return known
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._executor, self._store.device, device_id)
        if found is None:
            return _NOBODY
        self._known[device_id] = found
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found
