"""Waits of devices, drawn from randomness that is passed in: a fleet does not come back as one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import grpc
import pytest
from grpc import aio

from askance_client.service import Identity
from askance_client.service.observable import LONGEST_WAIT_MS, Backoff
from askance_simulation.stream_runner import StreamRunner

CAP_MS = 8_000


class Enough(Exception):
    """End of a run: the test has enough waits."""


class Away:
    """A channel to an aggregator that refuses each call, and asks for a wait."""

    def __init__(self, retry_ms: str | None = None) -> None:
        asked = () if retry_ms is None else (("askance-retry-after-ms", retry_ms),)
        self._failure = aio.AioRpcError(
            grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(*asked)
        )

    def unary_unary(self, _: str) -> Callable[..., Any]:
        async def call(*_: object, **__: object) -> bytes:
            raise self._failure

        return call

    stream_stream = unary_unary


def waits(count: int, jitter: Callable[[int], int], channel: Any) -> list[float]:
    """The waits of a device that finds its aggregator away."""
    waited: list[float] = []

    async def sleep(milliseconds: float) -> None:
        waited.append(milliseconds)
        if len(waited) == count:
            raise Enough

    class Nothing:
        """A device that knows no study."""

        known_studies: tuple[bytes, ...] = ()

    device: Any = Nothing()

    async def scenario() -> None:
        runner = StreamRunner(
            device,
            Identity(b"device", bytes(16)),
            channel,
            jitter=jitter,
            sleep=sleep,
            longest_wait_ms=CAP_MS,
        )
        with pytest.raises(Enough):
            await runner.keep_checking_in()

    asyncio.run(scenario())
    return waited


def test_reconnects_wait_for_what_is_drawn_from_a_bound_that_doubles() -> None:
    bounds: list[int] = []

    def jitter(bound: int) -> int:
        bounds.append(bound)
        return bound // 3

    waited = waits(7, jitter, Away())
    assert [bound for bound in bounds if bound] == [500, 1000, 2000, 4000, 8000, 8000, 8000]
    assert waited == [bound // 3 for bound in bounds if bound]


def test_a_wait_that_is_asked_for_is_kept_and_spread() -> None:
    """At least as long as asked for, at most twice that and the device's own bound."""
    least = waits(3, lambda _: 0, Away("900"))
    most = waits(3, lambda bound: bound, Away("900"))
    assert least == [900] * 3
    assert most == [500 + 1800, 1000 + 1800, 2000 + 1800]
    assert waits(1, lambda _: 0, Away("999999999")) == [CAP_MS]


def test_devices_that_lose_one_aggregator_come_back_spread_over_the_bound() -> None:
    """1,000 devices' third waits: each twentieth of the bound has its share."""
    random = Random(7)
    third = [
        waits(3, lambda bound: random.randint(0, bound), Away())[2] for _ in range(1_000)
    ]  # 6 deviations are allowed
    shares = Counter(wait * 20 // 2_001 for wait in third)
    assert set(shares) == set(range(20))
    assert all(abs(share - 50) <= 6 * (50 * 0.95) ** 0.5 for share in shares.values())
    assert len(set(third)) > 700


def test_the_bound_is_forgotten_after_an_exchange_and_never_passes_the_cap() -> None:
    backoff = Backoff(jitter=lambda bound: bound)
    assert [backoff.next_ms() for _ in range(12)][-1] == LONGEST_WAIT_MS
    backoff.reset()
    assert backoff.next_ms() == 500


def test_an_aggregator_that_asks_for_no_pause_is_called_after_a_pause() -> None:
    class There:
        """A channel to an aggregator that has nothing to ask, and wants to be called at once."""

        def unary_unary(self, _: str) -> Callable[..., Any]:
            async def call(*_: object, **__: object) -> bytes:
                return b""

            return call

        stream_stream = unary_unary

    assert waits(3, lambda bound: bound, There()) == [50] * 3
