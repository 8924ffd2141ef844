"""Certificates of a connection: the device's own, and those of the aggregator's authority."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from askance_client.errors import InvalidParameter

_CLOSING_S = 5  # for calls of a channel that is not connected, which fail by themselves


@dataclass(frozen=True, slots=True)
class DeviceCertificate:
    """Certificate with its key, as PEM.

    Args:
      key: P-256, in PKCS #8.
      chain: the certificate, then those between it and the root.
      address: HOST:PORT of the aggregator's listener for certificates; empty: it has ended, or is
        of another aggregator than the configured one.
      of: HOST:PORT at which the aggregator that has issued it was configured.
    """

    key: str = field(repr=False)
    chain: str
    address: str
    obtained_s: int
    ends_s: int
    of: str

    @property
    def due_s(self) -> int:
        """Time of its renewal: at two thirds of its life."""
        return self.ends_s - (self.ends_s - self.obtained_s) // 3


Authority = Callable[[], bytes]
"""Reads the certificates (PEM) as they are now; raises `InvalidParameter` if there are none."""
OwnCertificate = Callable[[], DeviceCertificate | None]
"""Reads the device's own certificate as it is now; None: there is none."""


def read_authority(path: Path) -> bytes:
    """Read a file of certificates."""
    try:
        found = path.read_bytes()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise InvalidParameter(
            f"ca: expected a certificate (PEM) in {path}, got other bytes"
        ) from None
    except OSError as error:
        raise InvalidParameter(f"ca: {path} cannot be read: {error.strerror}") from None
    return found


class RenewedChannel(aio.Channel):
    """Channel to an aggregator whose authority may be replaced while it is used.

    A call that finds the connection lost, or not yet made, reads the authority again. Other
    certificates than before are used for the next connection. A file that cannot be read, or is
    half written, leaves those in use. A connection that stands is not ended, unless the device's
    own certificate was renewed: the next call is made by the new one.
    """

    def __init__(
        self,
        authority: Authority,
        channel: Callable[[bytes, DeviceCertificate | None], aio.Channel],
        own: OwnCertificate,
    ) -> None:
        self._authority = authority
        self._own = own
        self._open = channel
        self._trusted = (authority(), own())
        self._inner = channel(*self._trusted)
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> RenewedChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """Close the channel; calls have so many seconds to end."""
        await asyncio.gather(self._inner.close(grace), *self._closing)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return the state of the connection."""
        return self._inner.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait until the connection has another state, or is replaced."""
        await self._inner.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until the connection stands."""
        await self._current().channel_ready()

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """Return a callable for a method with one request and one response."""
        return self._calling("unary_unary", method, *args, **options)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """Return a callable for a method with one request and many responses."""
        return self._calling("unary_stream", method, *args, **options)

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        """Return a callable for a method with many requests and one response."""
        return self._calling("stream_unary", method, *args, **options)

    def stream_stream(self, method: str, *args: Any, **options: Any) -> Any:
        """Return a callable for a method with many requests and responses."""
        return self._calling("stream_stream", method, *args, **options)

    def _calling(self, kind: str, *args: Any, **options: Any) -> Callable[..., Any]:
        def call(*values: Any, **rest: Any) -> Any:
            return getattr(self._current(), kind)(*args, **options)(*values, **rest)

        return call

    def _current(self) -> aio.Channel:
        """The channel for a call that begins now."""
        ready = self._inner.get_state() is grpc.ChannelConnectivity.READY
        if ready and self._own() == self._trusted[1]:
            return self._inner
        try:
            found = (self._authority(), self._own())
        except InvalidParameter:
            return self._inner
        if found != self._trusted:
            task = asyncio.ensure_future(self._inner.close(_CLOSING_S))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._trusted, self._inner = found, self._open(*found)
        return self._inner
