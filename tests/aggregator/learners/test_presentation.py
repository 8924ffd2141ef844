"""Presentation of hypotheses: every learner's rows and lines, from an object and from its JSON."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from askance_aggregator.learners import (
    EstimateRow,
    FrequencyEstimate,
    HeavyHitters,
    MeanEstimate,
    assess,
    hypothesis_json,
    learners,
    presentation_of,
    presentation_of_json,
)
from askance_aggregator.learners.learning import Answer
from askance_aggregator.learners.missing import MissingShare
from askance_aggregator.oracles import learn
from askance_aggregator.reports.figures import estimate_texts, nats_text
from tests.worlds import ORACLES, world

NAMES = [entry.name for entry in learners()]


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_s_rows_are_in_the_order_of_the_truth(name: str) -> None:
    of = world(name)
    with ORACLES["wrong side"](of) as answers:
        hypothesis = learn(of.learner, answers)
    shown = presentation_of(hypothesis)
    assert shown.rows or shown.lines
    assessed = assess(hypothesis, of.learner, of.people)
    assert len(assessed.truth) in (0, len(shown.rows))
    for row, true in zip(shown.rows, assessed.truth, strict=False):
        assert assessed.error is not None
        # The error of heavy hitters is a distance from the threshold; the oracle is off by .1.
        off = 0.1 if name == "heavy-hitters" else assessed.error
        assert abs(row.estimate - true) <= off + 1e-9
    for row in shown.rows:
        assert row.low <= row.shown <= row.high
    data = json.loads(json.dumps(hypothesis_json(hypothesis)))
    again = presentation_of_json(name, data)
    assert (again.lines, again.notes, again.subject) == (shown.lines, shown.notes, shown.subject)
    assert (again.missing, again.whole) == (shown.missing, shown.whole)
    assert len(assessed.absent) in (0, len(shown.missing))
    assert [row.name for row in again.rows] == [row.name for row in shown.rows]
    for row, before in zip(again.rows, shown.rows, strict=True):
        assert row.shown == pytest.approx(before.shown)


def test_a_negative_share_is_shown_within_its_interval() -> None:
    answer = Answer((-0.01, 1.01), (0.0, 0.97), (0.03, 1.0))
    rows = presentation_of(FrequencyEstimate(("a", "b"), answer)).rows
    assert [row.estimate for row in rows] == [-0.01, 1.01]
    assert [row.shown for row in rows] == [0.0, 1.0]
    assert EstimateRow("without others", -0.2, 0.0, 0.03).shown == 0.0
    assert EstimateRow("far", 0.01, 0.0, 0.03, projected=0.05).shown == 0.03


def test_the_shown_interval_contains_the_row_s_interval() -> None:
    """Half widths are rounded up, from the value as it is shown."""
    rows = [EstimateRow("a", 0.12345, 0.1001, 0.1499), EstimateRow("b", 0.0, 0.0, 0.0261)]
    first, second = estimate_texts(rows, (), shares=True)
    assert (first.estimate, first.half_width, first.truth) == ("12.3 %", "2.7", "")
    assert (second.estimate, second.half_width) == ("0.0 %", "2.7")
    assert (first.low, first.high) == ("10.0 %", "15.0 %")  # outwards from 10.01 and 14.99
    assert (second.low, second.high) == ("0.0 %", "2.7 %")
    (wide,) = estimate_texts([EstimateRow("c", 1077.6, 540.1, 1700.0)], (1000.0,), shares=False)
    assert (wide.estimate, wide.half_width, wide.truth) == ("1,078", "622", "1,000")
    assert (wide.low, wide.high) == ("540", "1,700")
    (below,) = estimate_texts([EstimateRow("e", -0.26, -0.5, -0.02)], (), shares=False)
    assert (below.low, below.high) == ("-0.50", "-0.02")
    (exact,) = estimate_texts([EstimateRow("d", 0.25, 0.25, 0.25)], (0.25,), shares=True)
    assert (exact.estimate, exact.half_width, exact.truth) == ("25.00 %", "0.00", "25.00 %")


def test_a_spending_is_never_rounded_down() -> None:
    assert nats_text(1.0, 1.0) == "1.00 of 1.00 nats"
    assert nats_text(0.9912, 1.0) == "1.00 of 1.00 nats"
    assert nats_text(0.0012, 0.0125) == "0.0012 of 0.0125 nats"
    assert nats_text(0.00121, 0.0125) == "0.0013 of 0.0125 nats"


def test_users_without_a_value_are_part_of_it() -> None:
    data = {"summary": "no for every row", "label": "y"}
    share = {"share": 0.25, "low": 0.2, "high": 0.3}
    shown = presentation_of_json("some-learner", data | {"missing": share})
    assert (shown.subject, shown.lines) == ("y", ("no for every row",))
    assert shown.missing == (("", MissingShare(0.25, 0.2, 0.3)),)
    assert presentation_of_json("some-learner", data).missing == ()


def test_a_hypothesis_of_an_unknown_learner_is_presented_by_its_parts() -> None:
    assert presentation_of_json("unknown", {"variables": [0, 3]}).lines == ("variables = [0, 3]",)
    assert presentation_of_json("unknown", 5).lines == ("5",)
    assert presentation_of_json("mean", {"estimate": "no number"}).lines == (
        "estimate = no number",
    )


def test_no_frequent_value_is_said() -> None:
    shown = presentation_of(HeavyHitters("word", Fraction(1, 10), ()))
    assert shown.lines == ("no value has a share of 1/10 or more",)
    assert shown.subject == "word"


def test_a_mean_of_a_sample_says_so() -> None:
    shown = presentation_of(MeanEstimate(1.0, 0.0, 2.0, of="sample"))
    assert shown.notes == (
        "the interval is for the mean of those who answered, not of a population",
    )
