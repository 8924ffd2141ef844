"""Calls whose refusal keeps nothing of the caller's messages alive.

Every method is served as a stream, also those with one message each way: the handler then starts
when a call's metadata has arrived, and reads the message once the caller is known. On the wire a
call with one message is the same either way.

A refused call sets its status and returns. An exception that gRPC keeps for a call, or a frame in
its traceback, would keep the message until the garbage collector finds the cycle.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import grpc
from grpc import aio

from askance_aggregator.server.outer.addresses import FORWARDED_KEY, peer_name
from askance_aggregator.server.outer.valve import Passage
from askance_client.errors import RemoteProtocolError
from askance_client.service import Metadata
from askance_client.service.credentials import Received


class Context(Protocol):
    """Methods used of gRPC's own context; at the end of a stream `read` returns no bytes object."""

    def peer(self) -> str:
        """Return the peer's address, as gRPC names it."""
        ...

    def invocation_metadata(self) -> Received:
        """Return the metadata that the call began with."""
        ...

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return what the connection has proven of the peer, by gRPC's names."""
        ...

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Send the metadata that precedes the first message."""
        ...

    async def read(self) -> object:
        """Read the next message."""
        ...

    async def write(self, message: bytes) -> None:
        """Write one message."""
        ...

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End the call with this status."""
        ...

    def code(self) -> grpc.StatusCode:
        """Return the status that was set."""
        ...

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status with which the call will end."""
        ...

    def set_details(self, details: str) -> None:
        """Set the text of the status."""
        ...

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Set the metadata that follows the last message."""
        ...


@dataclass(frozen=True, slots=True)
class CallStatus:
    """Status with which a failed call ends."""

    code: grpc.StatusCode
    details: str  # one line of text
    metadata: Metadata = ()  # trailing metadata, for programs


Method = Callable[[Context], Awaitable[None]]
Handler = Callable[[object, Context], Awaitable[None]]


def served(
    method: Method, status_for: Callable[[Exception], CallStatus]
) -> grpc.RpcMethodHandler[Any, Any]:
    """Return the handler that serves a method without serializers (see `serving`)."""
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
        serving(method, status_for)
    )
    return handler


def serving(method: Method, status_for: Callable[[Exception], CallStatus]) -> Handler:
    """Return a method as gRPC calls it.

    `status_for` returns the status to end a call with that failed; it may log the error.
    """

    async def serve(_: object, context: Context) -> None:
        refused: CallStatus | None = None
        gone = False
        try:
            await method(context)
        except aio.AbortError as error:  # the stream was ended elsewhere, and gRPC keeps the error
            _forget(error)
            raise
        except aio.InternalError as error:  # the caller has gone, and gRPC does not know it yet
            gone = True
            _forget(error)
        except Exception as error:
            refused = status_for(error)
            _forget(error)
        if gone:
            raise asyncio.CancelledError  # gRPC ends such a call without a word in its log
        if refused is not None:
            context.set_code(refused.code)
            context.set_details(refused.details)
            context.set_trailing_metadata(refused.metadata)

    return serve


def caller_of(context: Context) -> str:
    """Return the address of a call's caller, as gRPC names peers.

    The outer process, which alone calls over a Unix socket, says whom it calls for.
    """
    peer = context.peer()
    if not peer.startswith("unix:"):
        return peer
    if (passage := Passage.of_peer(peer)) is not None:
        return passage.peer()
    forwarded = dict(context.invocation_metadata() or ()).get(FORWARDED_KEY)
    return peer_name(forwarded) if isinstance(forwarded, str) else peer


async def read_message(context: Context, within_s: float) -> bytes:
    """Read a call's first message, which may take `within_s` seconds to arrive."""
    async with asyncio.timeout(within_s):
        data = await context.read()
    if not isinstance(data, bytes):
        raise RemoteProtocolError("call: expected a message, got none")
    return data


def _forget(error: BaseException) -> None:
    """Clear what an exception and those before it hold: messages, in the frames they passed."""
    earlier: BaseException | None = error
    while (current := earlier) is not None:
        traceback.clear_frames(current.__traceback__)
        earlier = current.__context__
        current.__traceback__ = current.__context__ = current.__cause__ = None
