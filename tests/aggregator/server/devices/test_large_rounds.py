"""Rounds whose requests fill a response: asked at check-ins, and counted if counting fails once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from askance_aggregator.exchange import (
    encode_response,
)
from askance_aggregator.server.devices.connections import next_message
from askance_aggregator.server.devices.hub import Hub
from askance_aggregator.server.devices.observer import Observer
from askance_aggregator.server.devices.open_round import OpenRound
from askance_aggregator.store import SqliteStore
from askance_client.codec import encode_report
from askance_client.errors import StoreError
from askance_client.messages import AckStatus, Report
from askance_client.service import MAX_RESPONSE_BYTES, Response, decode_response
from askance_client.service.exchange import MAX_REPORTS

if TYPE_CHECKING:
    from tests.aggregator.server.devices.conftest import World

Run = Callable[[Any], Any]
GROUPS = 4
_FIRST = Response(
    acks=tuple((bytes([number]) * 32, AckStatus.ACCEPTED) for number in range(MAX_REPORTS)),
    retry_after_ms=(1 << 32) - 1,
    acknowledged_sequence=(1 << 63) - 1,
)


@pytest.mark.parametrize("room", [0, 20, 2_500, 5_000, 300_000])
def test_a_check_in_is_answered_with_requests_however_many_bytes_a_round_has(
    world: World, run: Run, room: int
) -> None:
    """A check-in is answered with one message: a part that did not fit was never sent."""

    async def scenario() -> None:
        round_ = world.broadcast(1)
        group = round_.groups[0]
        frame = len(encode_response(Response(requests=(bytes(1 << 17),)))) - (1 << 17)
        size = (MAX_RESPONSE_BYTES - room) // GROUPS - frame
        groups = [
            replace(group, digest=bytes([number]) * 32, payload=bytes([number]) * size)
            for number in range(GROUPS)
        ]
        opened = OpenRound(replace(round_, groups=tuple(groups)), world.accounts(1))
        opened.begin()
        parts = deque([encode_response(_FIRST), *opened.owed(0, {opened.study_digest})])
        response = decode_response(next_message(parts))
        assert len(response.requests) in (GROUPS - 1, GROUPS)
        assert response.acks == _FIRST.acks

    run(scenario())


class FailingOnce(Observer):
    """Observer that fails when the first charge is counted."""

    def __init__(self) -> None:
        self.failures = 0

    def charged(self, nano_nats: int) -> None:
        self.failures += 1
        if self.failures == 1:
            raise ZeroDivisionError


@pytest.mark.parametrize("together", [False, True])
def test_a_stored_report_whose_counting_failed_is_in_the_tally(
    world: World, store: SqliteStore, run: Run, together: bool
) -> None:
    """The report is not acknowledged, and its device may be away until the round has closed."""

    async def scenario(executor: ThreadPoolExecutor) -> None:
        hub, round_ = Hub(store, executor, FailingOnce()), world.broadcast(2)
        group = round_.groups[0]
        data = encode_report(Report(group.digest, b"\x01", group.nano_nats, group.nano_nats))
        opening = asyncio.ensure_future(hub.open(round_, world.accounts(2)))
        while hub.progress(round_.study_digest) == (0, 0):
            await asyncio.sleep(0.001)
        delivered = hub.deliver_messages([(0, (data,))]) if together else hub.deliver(0, (data,))
        with pytest.raises(StoreError, match="not counted"):
            await delivered
        assert store.report(group.digest, 0) == data
        hub.close_round(round_.study_digest)
        (tally,) = await opening
        assert (tally.answered, sum(tally.counts)) == (1, 1)

    world.enrol(store, 2)
    store.add_study(world.broadcast(2).study_digest, world.study)
    with ThreadPoolExecutor(2) as executor:
        run(scenario(executor))
