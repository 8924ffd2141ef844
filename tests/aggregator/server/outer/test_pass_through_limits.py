"""Answers that a caller does not read are bounded in the outer process too."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from grpc import aio

from askance_aggregator.server.outer.pass_through import MAX_UNREAD_BYTES, PassThrough, _Unread


class Deaf:
    """Context of a caller that reads nothing."""

    async def write(self, _: bytes) -> None:
        await asyncio.Event().wait()


def test_one_caller_that_reads_nothing_is_refused_and_another_is_not() -> None:
    async def whole() -> None:
        passed = PassThrough(cast(aio.Channel, None), lambda peer, _: peer, devices=False)
        part, deaf = bytes(MAX_UNREAD_BYTES // 2), Deaf()
        held = [asyncio.ensure_future(passed._write(deaf, b"one", part)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(_Unread):
            await passed._write(deaf, b"one", b"x")
        other: Any = asyncio.ensure_future(passed._write(deaf, b"other", part))
        await asyncio.sleep(0)
        assert not other.done()
        for one in (*held, other):
            one.cancel()
        await asyncio.gather(*held, other, return_exceptions=True)
        assert (passed._unread_calls, passed._unread_bytes) == ({}, {})

    asyncio.run(whole())
