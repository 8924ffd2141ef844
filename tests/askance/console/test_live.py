"""Live pages of one console look at the same times, and share what they read."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from askance.console.live import EVERY_S
from askance.console.pages import study as study_page
from askance_aggregator.analyst import StudyEvent
from askance_aggregator.operators import OperatorClient
from askance_protos.v1.analyst_pb2 import STUDY_STATE_OPEN
from askance_protos.v1.operator_pb2 import FleetResponse
from tests.aggregator.server.callers.role_server import FIGURES, changed_figures
from tests.askance.console.consoles import console_of

_SPAN_S = 2.4
_PATIENCE_S = 20.0


def read_event(response: http.client.HTTPResponse) -> dict[str, str]:
    """Return the regions of the next event."""
    while not (line := response.readline()).startswith(b"data: "):
        assert line
    found: dict[str, str] = json.loads(line.removeprefix(b"data: "))["regions"]
    return found


def test_a_record_that_is_older_than_its_state_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """State and record are fetched at the same time; the state may be the newer one."""
    asked = [StudyEvent(state=STUDY_STATE_OPEN, round=number, asked=9) for number in (0, 1, 1)]
    statuses = iter(asked)
    read: list[int] = []

    async def call(work: Callable[..., Any], *given: Any) -> Any:
        return work(*given)

    async def view(*_: Any) -> study_page.StudyView:
        read.append(len(read))
        return study_page.StudyView("00" * 32, asked[-1])

    monkeypatch.setattr(study_page, "_view", view)
    monkeypatch.setattr(study_page, "_regions", lambda *_: {})
    monkeypatch.setattr(study_page, "_counts", lambda *_: {})
    visit: Any = SimpleNamespace(call=call, number=lambda *_: 0)
    handle: Any = SimpleNamespace(status=lambda: next(statuses))
    regions, _ = study_page._following(visit, handle, None)

    async def look() -> None:
        for _ in asked:
            await regions()

    asyncio.run(look())
    assert read == [0, 1]


def test_pages_that_are_opened_at_different_times_share_each_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[float] = []

    def fleet(_: OperatorClient) -> FleetResponse:
        times.append(time.monotonic())
        return FIGURES

    monkeypatch.setattr(OperatorClient, "fleet", fleet)
    with console_of() as visitor, ExitStack() as held:
        visitor.log_in()
        for _ in range(3):
            read_event(visitor.open_live(held))
            threading.Event().wait(EVERY_S / 3)
        begun = time.monotonic()
        threading.Event().wait(_SPAN_S)
        span_s = time.monotonic() - begun
        readings = [at_s for at_s in times if at_s > begun]
    # Each on its own would read every period: three times as often.
    assert 1 <= len(readings) <= span_s / EVERY_S + 2


def test_a_change_is_in_the_stream_after_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [FIGURES]
    monkeypatch.setattr(OperatorClient, "fleet", lambda _: figures[0])
    with console_of() as visitor, ExitStack() as held:
        visitor.log_in()
        stream = visitor.open_live(held)
        assert "fleet" in read_event(stream)
        figures[0] = changed_figures(7_654_321)
        changed = time.monotonic()
        while "7,654,321" not in read_event(stream).get("fleet", ""):
            assert time.monotonic() < changed + _PATIENCE_S
