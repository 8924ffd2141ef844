"""Streams do nothing that their peer sees while work on a record may run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from askance_client.service.exchange import PROTOCOL
from askance_client.service.multiplexer import Multiplexer


class Stream:
    """A channel and its one call: the first message breaks the protocol, and comes at once."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.cancels = 0

    def stream_stream(self, _: str) -> Any:
        return lambda metadata: self

    async def initial_metadata(self) -> Any:
        if self.version != PROTOCOL:
            self.opened.set()
        return (("askance-protocol", str(self.version)),)

    async def read(self) -> bytes:
        self.opened.set()
        return b"\xff"

    async def write(self, _: bytes) -> None: ...

    def cancel(self) -> None:
        self.cancels += 1

    @property
    def opened(self) -> asyncio.Event:
        return self.__dict__.setdefault("_opened", asyncio.Event())  # type: ignore[no-any-return]


class Answering:
    """A process whose window opens while the first bad word of its peer is on its way."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.over = asyncio.Event()

    async def quiet(self) -> None:
        if self.stream.opened.is_set():
            await self.over.wait()


@pytest.mark.parametrize("version", [PROTOCOL, PROTOCOL + 1])
def test_a_stream_that_breaks_the_protocol_is_not_ended_within_a_window(version: int) -> None:
    """A stream would end as soon as a thread at work lets the loop run: a clock of the record."""

    async def scenario() -> tuple[int, int]:
        stream: Any = Stream(version)
        answering: Any = Answering(stream)
        told: list[str] = []
        multiplexer = Multiplexer([], (), stream, answering=answering, on_failure=told.append)
        task = asyncio.ensure_future(multiplexer.participate())
        for _ in range(50):
            await asyncio.sleep(0)
        within = stream.cancels
        answering.over.set()
        for _ in range(50):
            await asyncio.sleep(0)
        after = stream.cancels
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert told
        return within, after

    within, after = asyncio.run(scenario())
    assert within == 0
    assert after > 0


class IdleStream(Stream):
    """A channel and its one call, on which the peer says nothing."""

    async def read(self) -> bytes:
        self.opened.set()
        await asyncio.Event().wait()
        raise AssertionError


def test_a_stream_is_not_opened_anew_within_a_window() -> None:
    """For held requests, or a new certificate: its end, too, would be a clock of the record."""

    async def scenario() -> tuple[int, int]:
        stream: Any = IdleStream(PROTOCOL)
        answering: Any = Answering(stream)
        multiplexer = Multiplexer([], (), stream, answering=answering)
        task = asyncio.ensure_future(multiplexer.participate())
        await stream.opened.wait()
        reopening = asyncio.ensure_future(multiplexer.reopen())
        for _ in range(50):
            await asyncio.sleep(0)
        within = stream.cancels
        answering.over.set()
        await reopening
        after = stream.cancels
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return within, after

    assert asyncio.run(scenario()) == (0, 1)
