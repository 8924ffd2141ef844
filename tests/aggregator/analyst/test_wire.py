"""Messages between an analyst and an aggregator: round trips, parts, and arbitrary bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.analyst import wire
from askance_aggregator.analyst.calls import CALL_KEY, read_call
from askance_aggregator.store import (
    MAX_STUDIES,
    ListedState,
    StudyExtent,
    StudyList,
    StudyQuery,
    StudyState,
)
from askance_client.errors import RemoteProtocolError
from askance_client.messages import SignedStudy

SIGNED = SignedStudy(b"study", bytes(32), bytes(64))
DECODERS: list[Callable[[bytes], Any]] = [
    lambda data: read_call(((CALL_KEY, data),)),
    wire.decode_submission,
    wire.decode_submitted,
    wire.decode_listing,
    wire.decode_summaries,
    wire.decode_event,
    wire.decode_ending,
    wire.decode_state,
    wire.decode_export_part,
]


def test_values_survive_the_wire() -> None:
    event = wire.StudyEvent(StudyState.FAILED, 2, 5, 3, "failed", "a line")
    ending = wire.Ending(StudyState.DONE, "done", "", "{}")
    summaries = (
        wire.StudySummary(bytes(32), "mean", StudyState.OPEN, 1, None, "paused", bytes(32)),
    )
    extent = StudyExtent(7, 9, more=True)
    queries = [StudyQuery(state, limit=1) for state in ListedState]
    queries.append(StudyQuery(None, "a0", "b1", bytes(32), newer=True, limit=MAX_STUDIES))
    for query in queries:
        assert wire.decode_listing(wire.encode_listing(query)) == wire.ListRequest(True, query)
    assert wire.decode_listing(b"") == wire.ListRequest(False, None)
    assert wire.decode_event(wire.encode_event(event)) == event
    assert wire.decode_ending(wire.encode_ending(ending)) == ending
    part = StudyList(summaries, extent)
    assert wire.decode_summaries(wire.encode_summaries(summaries, extent)) == part
    assert wire.decode_submission(wire.encode_submission(SIGNED)) == SIGNED
    assert wire.decode_submitted(wire.encode_submitted(bytes(32))) == bytes(32)
    for state in StudyState:
        assert wire.decode_state(wire.encode_state(state)) is state


@pytest.mark.parametrize("sizes", [[], [10], [300_000] * 5, [2_000_000, 1], [1, 2_000_000]])
def test_an_export_travels_in_parts(sizes: list[int]) -> None:
    lines = [str(place) * size for place, size in enumerate(sizes)]
    sent = list(wire.encode_export(SIGNED, lines, "{}"))
    parts = [wire.decode_export_part(part) for part in sent]
    assert [line for part in parts for line in part.lines] == lines
    assert [part.study for part in parts] == [SIGNED] + [None] * (len(parts) - 1)
    assert [part.result_json for part in parts] == [""] * (len(parts) - 1) + ["{}"]
    assert all(
        len(data) < 600_000 or len(part.lines) == 1 for data, part in zip(sent, parts, strict=True)
    )


@pytest.mark.parametrize("decode", DECODERS, ids=lambda decode: decode.__name__)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(decode: Callable[[bytes], Any], data: bytes) -> None:
    with suppress(RemoteProtocolError):  # and nothing else
        decode(data)
