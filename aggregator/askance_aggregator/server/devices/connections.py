"""A connected device, seen from the hub: something that bytes can be pushed to."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import lru_cache

import grpc

from askance_aggregator.exchange import encode_response
from askance_aggregator.server.devices.open_round import OpenRound, count_contents
from askance_client.messages import AckStatus
from askance_client.service import MAX_REQUESTS, MAX_RESPONSE_BYTES, Response
from askance_client.service.exchange import MAX_ENTRIES, MAX_REPORTS

Ack = tuple[bytes, AckStatus]
Write = Callable[[bytes], Awaitable[None]]
Abort = Callable[[grpc.StatusCode, str], Awaitable[None]]

_LAST_WRITE_S = 1.0  # how long a stream that is to end may take to write what is under way


class UserConnection(ABC):
    """Open stream over which users are asked: a device's, or a gateway's for its members.

    One write is under way at a time, as gRPC requires, and none at rest.
    """

    __slots__ = ("_abort", "_flushing", "_write")

    def __init__(self, write: Write, abort: Abort) -> None:
        self._write = write
        self._abort = abort
        self._flushing: asyncio.Task[None] | None = None

    @abstractmethod
    def ask(self, opened: OpenRound, ordinal: int) -> None:
        """Send one of its users what the user owes to a round."""

    @abstractmethod
    def withdraw(self, parts: Collection[bytes]) -> None:
        """Send these requests no more, unless they are being written."""

    @abstractmethod
    def displaced(self, ordinal: int) -> bool:
        """Leave a user to a newer stream; return whether this one is to end."""

    @abstractmethod
    def barred(self, ordinal: int) -> bool:
        """Part with a user who may not take part any more; return whether this one is to end."""

    @abstractmethod
    def drop(self) -> None:
        """Send nothing any more, but what is under way."""

    @abstractmethod
    def _next(self) -> bytes | None:
        """Compose the next message; None if there is nothing to be sent now."""

    def flush(self) -> None:
        """Send what is queued."""
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def flushed(self) -> None:
        """Wait until what is being sent is: a peer that does not read is not read either."""
        if self._flushing is not None:
            await asyncio.wait([self._flushing])

    async def last_written(self) -> None:
        """Wait a bounded time for a write that is under way.

        gRPC does not allow a status beside a first message, nor to cancel that message; the
        peer would wait for ever.
        """
        if self._flushing is not None:
            await asyncio.wait([self._flushing], timeout=_LAST_WRITE_S)
        if self._flushing is not None:
            self._flushing.cancel()

    async def end(self, code: grpc.StatusCode, details: str) -> None:
        """Send the peer the reason, end its stream and wake the reader."""
        self.drop()
        await self.last_written()
        try:
            await self._abort(code, details)
        except Exception as error:  # gRPC's AbortError, which it keeps, or the stream has ended
            error.__traceback__ = None

    async def _flush(self) -> None:
        try:
            while (message := self._next()) is not None:
                await self._write(message)
        except Exception:  # the stream has ended: its reader gets the reason
            self.drop()
        finally:
            self._flushing = None


class Connection(UserConnection):
    """Open stream of one device.

    Parts of responses are queued and sent joined: serialised messages concatenate, so a request
    shared by a cohort is never serialised again. Acknowledgements ride on the next message, or
    leave when the hub says so.
    """

    __slots__ = ("_acks", "_parts", "_unsent", "known_studies", "ordinal")

    def __init__(self, ordinal: int, known_studies: set[bytes], write: Write, abort: Abort) -> None:
        super().__init__(write, abort)
        self.ordinal = ordinal
        self.known_studies = known_studies
        self._parts: deque[bytes] = deque()
        self._acks: deque[tuple[Ack, ...]] = deque()  # per message
        self._unsent = 0  # of them

    def echo(self, sequence: int) -> None:
        """Queue the highest acknowledged sequence number, to be sent before any request."""
        if sequence:
            self._parts.append(encode_response(Response(acknowledged_sequence=sequence)))

    def push(self, *parts: bytes) -> None:
        """Queue parts of responses, each with at most one request or study."""
        self._parts.extend(parts)
        self.flush()

    def ask(self, opened: OpenRound, ordinal: int) -> None:
        """Queue what its user owes to a round, the study first unless the device knows it."""
        parts = opened.owed(ordinal, self.known_studies)
        if parts:
            self.known_studies.add(opened.study_digest)
            opened.note_asked(ordinal)
            self.push(*parts)

    def displaced(self, ordinal: int) -> bool:
        return True

    def barred(self, ordinal: int) -> bool:
        return True

    def withdraw(self, parts: Collection[bytes]) -> None:
        if self._parts:
            self._parts = deque(part for part in self._parts if part not in parts)

    def acknowledge(self, acks: Sequence[Ack]) -> None:
        """Queue a message's acknowledgements, which wait for another message, or for `flush`."""
        if acks:
            self._acks.append(tuple(acks))
            self._unsent += len(acks)
            if self._unsent > MAX_REPORTS:
                self.flush()

    def flush(self) -> None:
        if self._parts or self._acks:
            super().flush()

    def drop(self) -> None:
        self._parts.clear()
        self._acks.clear()
        self._unsent = 0

    def _next(self) -> bytes | None:
        taken = 0
        acks: list[bytes] = []
        while self._acks and taken + len(self._acks[0]) <= MAX_REPORTS:
            taken += len(self._acks[0])
            acks.append(_acks_part(self._acks.popleft()))
        if acks:
            self._unsent -= taken
            self._parts.appendleft(b"".join(acks))
        return next_message(self._parts) if self._parts else None


@lru_cache(maxsize=512)  # one of 64 requests that a device made up has 11 KB
def _acks_part(acks: tuple[Ack, ...]) -> bytes:
    """Serialise acknowledgements once for all devices with the same requests and outcomes."""
    return encode_response(Response(acks=acks))


def next_message(parts: deque[bytes]) -> bytes:
    """Take from `parts` as many as fit into one response, in order, joined."""
    if len(parts) == 1:
        return parts.popleft()
    taken: list[bytes] = []
    size = requests = entries = 0
    while parts and len(taken) < MAX_REQUESTS:
        size += len(parts[0])
        more_requests, more_entries = _contents(parts[0])
        requests += more_requests
        entries += more_entries
        over = size > MAX_RESPONSE_BYTES or requests > MAX_REQUESTS or entries > MAX_ENTRIES
        if taken and over:
            break
        taken.append(parts.popleft())
    return b"".join(taken)


@lru_cache(maxsize=64)  # a part has at most MAX_RESPONSE_BYTES
def _contents(part: bytes) -> tuple[int, int]:
    """Count a part's requests and the entries of their tables once for all devices."""
    return count_contents(part)
