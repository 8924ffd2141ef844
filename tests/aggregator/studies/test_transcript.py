"""The transcript: integers, text and bytes, one line an event, never changed once written."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_aggregator.studies import MemoryLog, Tally, Transcript
from askance_aggregator.studies.transcript import (
    FORMAT,
    Asked,
    AskedGroup,
    Closed,
    Event,
    Header,
)
from askance_client.errors import StoreError
from askance_client.messages import Reason

HEADER = Header(b"s" * 32, "parity", 1, 10, b"cohorts", Fraction(1, 100), Fraction(19, 20))
ASKED = Asked(0, (b"question",), "fresh", (AskedGroup(b"payload", 0, 2, 5, 10**9),))
CLOSED = Closed(0, (Tally((2, 1), 3, 3, b"r" * 32),))

whole = st.integers(0, 1 << 62)
chances = st.fractions(0, 1)
data = st.binary(max_size=40)
tallies = st.builds(
    Tally,
    counts=st.lists(whole, max_size=4).map(tuple),
    answered=whole,
    asked=whole,
    root=st.binary(min_size=32, max_size=32),
    refusals=st.dictionaries(st.sampled_from(Reason), whole).map(
        lambda d: tuple(sorted(d.items()))
    ),
)
decodes = st.none() | st.lists(st.fractions(), min_size=1, max_size=3).map(tuple)
groups = st.builds(AskedGroup, data, whole, whole, whole, whole, decodes)
events = st.one_of(
    st.builds(Header, data, st.text(max_size=20), whole, whole, data, chances, chances),
    st.builds(
        Asked,
        whole,
        st.lists(data, max_size=3).map(tuple),
        st.sampled_from(["fresh", "split"]),
        st.lists(groups, max_size=3).map(tuple),
    ),
    st.builds(Closed, whole, st.lists(tallies, max_size=3).map(tuple)),
)


def written(*recorded: Event) -> MemoryLog:
    log = MemoryLog()
    transcript = Transcript(log)
    for event in recorded:
        transcript.append(event)
    return log


@given(st.lists(events, max_size=6))
def test_what_is_written_is_read_back(recorded: list[Event]) -> None:
    log = MemoryLog()
    transcript = Transcript(log)
    for event in recorded:
        transcript.append(event)
    again = Transcript(log)
    assert transcript.recorded == again.recorded == tuple(recorded)
    assert transcript.digest == again.digest


@given(events)
def test_a_line_holds_no_float_and_no_line_break(event: Event) -> None:
    (line,) = written(event).lines()
    assert "\n" not in line
    json.loads(line, parse_float=pytest.fail)
    assert line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":"))


def test_the_digest_is_that_of_the_lines() -> None:
    log = written(HEADER, ASKED, CLOSED)
    lines = "".join(line + "\n" for line in log.lines())
    assert Transcript(log).digest == "sha256:" + hashlib.sha256(lines.encode()).hexdigest()
    assert Transcript(MemoryLog()).digest == "sha256:" + hashlib.sha256().hexdigest()


def test_a_digest_covers_every_event_in_order() -> None:
    histories = [(), (HEADER,), (HEADER, ASKED), (ASKED, HEADER), (HEADER, ASKED, CLOSED)]
    digests = {Transcript(written(*history)).digest for history in histories}
    assert len(digests) == len(histories)


def test_the_format_is_the_same_in_every_version() -> None:
    """Transcripts of finished studies are read, and interrupted ones continued, after upgrades."""
    refused = Closed(1, (Tally((0,), 0, 3, b"", ((Reason.MALFORMED, 1), (Reason.EXPIRED, 2))),))
    assert list(written(HEADER, ASKED, refused).lines()) == [
        '{"beta":"1/100","cohort_seed":"636f686f727473","confidence":"19/20",'
        '"format":"askance transcript v2","kind":"header",'
        '"learner":"parity","learner_version":1,"population":10,"study":"' + "73" * 32 + '"}',
        '{"allocation":"fresh","groups":[{"nano_nats":1000000000,"payload":"7061796c6f6164",'
        '"question":0,"start":2,"stop":5}],"kind":"asked","questions":["7175657374696f6e"],'
        '"round":0}',
        '{"kind":"closed","round":1,"tallies":[{"answered":0,"asked":3,"counts":[0],'
        '"refusals":{"1":1,"5":2},"root":""}]}',
    ]


def test_refusals_are_read_back_by_number() -> None:
    """If sorted as text, "10" would come before "2"."""
    refusals = ((Reason.UNKNOWN_STUDY, 1), (Reason.LEVELS_MISMATCH, 2))
    closed = Closed(0, (Tally((0,), 0, 3, b"", refusals),))
    assert Transcript(written(closed)).recorded == (closed,)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no json",
        "[]",
        "3",
        "null",
        "{}",
        '{"kind":"header"}',
        '{"kind":"asked","round":0}',
        '{"kind":"gossip"}',
        json.dumps({"kind": "header", "format": "askance transcript v3"}),
        json.dumps({"kind": "header", "format": FORMAT, "study": "not hexadecimal"}),
        json.dumps({"kind": "closed", "round": 0, "tallies": [{"counts": 3}]}),
        '{"kind":"closed","round":0,"tallies":[{"answered":0,"asked":3,"counts":[0],'
        '"refusals":{"99":1},"root":""}]}',
    ],
)
def test_a_line_that_is_no_event_is_refused_by_its_number(line: str) -> None:
    log = written(HEADER)
    log.append(line)
    with pytest.raises(StoreError, match="at line 2") as caught:
        Transcript(log)
    assert "\n" not in str(caught.value)


def test_a_newer_format_is_named() -> None:
    log = MemoryLog()
    log.append(json.dumps({"kind": "header", "format": "askance transcript v3"}))
    with pytest.raises(StoreError, match=f"expected .*{FORMAT}.*found .*transcript v3"):
        Transcript(log)


@pytest.mark.parametrize("event", [HEADER, ASKED, CLOSED])
def test_half_a_line_is_refused(event: Event) -> None:
    (line,) = written(event).lines()
    log = MemoryLog()
    log.append(line[: len(line) // 2])
    with pytest.raises(StoreError, match="at line 1"):
        Transcript(log)


def test_a_group_without_decode_values_is_written_as_it_always_was() -> None:
    (line,) = written(ASKED).lines()
    assert line == (
        '{"allocation":"fresh","groups":[{"nano_nats":1000000000,"payload":"7061796c6f6164",'
        '"question":0,"start":2,"stop":5}],"kind":"asked","questions":["7175657374696f6e"],'
        '"round":0}'
    )
