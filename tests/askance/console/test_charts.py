"""Charts as SVG, numbers as text, and rates of the fleet."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any, cast

import pytest

from askance.console.charts.axes import ChartBar, Series, bar_chart, element, line_chart, nice_ticks
from askance.console.formats import (
    length_text,
    nats_markup,
    nats_text,
    part_text,
    rate_text,
    time_markup,
)
from askance.console.history import SPAN_S, FleetHistory, FleetReading
from askance.console.pages.overview import cost_bars
from askance_protos.v1.operator_pb2 import CostBin, FleetResponse, ReplicaFigures

HOSTILE = "</text><script>alert(1)</script>"


def test_a_chart_is_well_formed_and_its_texts_are_escaped() -> None:
    bars = [ChartBar(HOSTILE, 7), ChartBar("none", 0)]
    for drawn in (
        bar_chart(HOSTILE, bars, HOSTILE),
        line_chart(HOSTILE, [Series("reports", [(10, 3.0), (5, 4.0)])], SPAN_S),
        element("text", HOSTILE, title=HOSTILE + '"'),
    ):
        assert "<script" not in drawn
        assert "style=" not in drawn
        ElementTree.fromstring(drawn)


def test_the_height_of_a_bar_is_its_share_of_the_highest_tick() -> None:
    drawn = ElementTree.fromstring(
        bar_chart("t", [ChartBar("a", 5), ChartBar("b", 10), ChartBar("c", 0)], "x")
    )
    heights = [float(one.attrib["height"]) for one in drawn.iter("rect")]
    assert len(heights) == 2
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.1)


def test_ticks_are_round_and_reach_the_top() -> None:
    assert nice_ticks(0) == [0.0, 1.0]
    assert nice_ticks(9, 3) == [0.0, 5.0, 10.0]
    for top in (0.003, 0.7, 1, 19, 101, 12_345, 10**9):
        ticks = nice_ticks(top, 3)
        assert ticks[-2] < top <= ticks[-1]
        assert 2 <= len(ticks) <= 5


def test_numbers_have_units() -> None:
    assert [length_text(n) for n in (0, 59.9, 61, 3_700, 200_000, 2_000_000)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "1 h 1 min",
        "2 d 7 h",
        "23 d",
    ]
    assert [nats_text(n) for n in (0, 10**9, 1_250_000_000, 400_000, 1)] == [
        "0",
        "1",
        "1.25",
        "0.0004",
        "0.000000001",
    ]
    assert nats_markup(2_004_999_999_999) == '<span title="2004.999999999 nats">2005</span>'
    assert [nats_markup(n).striptags() for n in (0, 10**9, 1_250_400_000, 123_456_789)] == [
        "0",
        "1",
        "1.25",
        "0.123",
    ]
    assert [rate_text(n) for n in (0, 12.34, 12_345.6)] == ["0.0", "12.3", "12,346"]
    assert (part_text(1, 3), part_text(0, 0)) == ("33 %", "–")
    assert 'datetime="2027-01-15T08:00:00Z"' in time_markup(1_800_000_000)


def test_bins_of_cost_are_named_by_their_bounds() -> None:
    bins = [
        CostBin(below_nano_nats=10**8, studies=1),
        CostBin(below_nano_nats=2 * 10**8, studies=2),
        CostBin(studies=3),
    ]
    assert cost_bars(bins) == [
        ChartBar("< 0.1", 1, "0"),
        ChartBar("0.1–0.2", 2, "0.1"),
        ChartBar("≥ 0.2", 3, "0.2"),
    ]
    assert cost_bars(()) == []


def test_rates_are_over_some_seconds_of_one_process() -> None:
    now = [0.0]
    history = FleetHistory(cast(Any, None), lambda: now[0])

    def note(at_s: float, reports: int, started: int = 1) -> None:
        now[0] = at_s
        figures = FleetResponse(reports=reports, started_unix_s=started, check_ins=2 * reports)
        history.note(FleetReading(at_s, figures))

    for second in range(9):
        note(second, 10 * second)
    assert [(one.at_s, one.reports, one.check_ins) for one in history.rates()] == [
        (4, 10.0, 20.0),
        (8, 10.0, 20.0),
    ]
    note(12, 3, started=9)  # another process, whose counts begin anew
    note(16, 7, started=9)
    assert [one.reports for one in history.rates()] == [10.0, 10.0, 1.0]
    now[0] = 8 + SPAN_S
    assert [one.at_s for one in history.rates()] == [8, 16]
    note(300, 1_007, started=9)  # the mean over minutes without a page is no rate of now
    note(304, 1_011, started=9)
    assert [(one.at_s, one.reports) for one in history.rates()] == [(304, 1.0)]


def test_rates_of_replicas_are_over_the_times_at_which_each_counted() -> None:
    """A row is up to two seconds old: over the reading's own time its rate would jump."""
    history = FleetHistory(cast(Any, None), lambda: 8.0)

    def note(at_s: float, *rows: tuple[str, float, int]) -> None:
        replicas = [
            ReplicaFigures(name=name, seen_s=seen_s, reports=reports, counted=seen_s < 5)
            for name, seen_s, reports in rows
        ]
        history.note(FleetReading(at_s, FleetResponse(replicas=replicas)))

    note(0, ("a", 0, 100), ("b", 2, 1_000), ("c", 1, 50), ("e", 0, 9))
    note(4, ("a", 0, 140), ("b", 0, 1_060), ("c", 9, 50), ("d", 0, 700), ("e", 0, 1))
    assert [(one.at_s, one.reports) for one in history.rates()] == [(4, 10.0 + 10.0)]
    note(8, ("d", 0, 704), ("f", 0, 9))  # the others have ended
    assert [one.reports for one in history.rates()] == [20.0, 1.0]
