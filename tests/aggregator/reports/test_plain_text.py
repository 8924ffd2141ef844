"""Text of a report: what the command line writes to a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import askance as ask
from askance.cli.main import main
from askance.cli.output import print_report
from askance_aggregator.analyst.results import StudyResult
from askance_aggregator.learners import hypothesis_json
from askance_aggregator.reports.plain_text import text_of
from askance_aggregator.reports.report import CommandReport, Grid, MoreRows
from askance_aggregator.store import StudyState

REPORT = CommandReport(
    "frequency of colour, 3 users, epsilon 1",
    [
        "  a line",
        Grid(rows=[("  red", "50.0 %", "+- 1.5"), ("  dark green", "5.0 %", "+- .25", "true 4 %")]),
        Grid(("name", "share"), left=("name",), rows=[("red", "50 %"), ("dark green", "5 %")]),
        MoreRows(1_200),
    ],
    verdict="Both intervals contain the true value.",
    cost="Each of 3 users answered once.",
    warnings=["a label with \x1b in it"],
    details=["not shown"],
)
TEXT = """\
frequency of colour, 3 users, epsilon 1

  a line
  red         50.0 %  +- 1.5
  dark green   5.0 %  +- .25  true 4 %
  name          share
  red            50 %
  dark green      5 %
  and 1,200 more: --all

Both intervals contain the true value.
Each of 3 users answered once.
note: a label with \\x1b in it"""


def stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_a_report_is_written_as_the_command_line_prints_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert text_of(REPORT) == TEXT
    print_report(REPORT, verbose=False)
    assert stripped(capsys.readouterr().out) == TEXT


SCHEMA = ask.Schema("people", age=ask.Integer(0, 120), sex=ask.Label(["female", "male"]))
PEOPLE = ask.Population.from_columns(
    SCHEMA, {"age": [20, 60] * 2_000, "sex": ["female", "male"] * 2_000}
)


def unfetched() -> NoReturn:
    raise AssertionError("nothing is fetched to print a result")


def lived(content: dict[str, Any]) -> StudyResult:
    return StudyResult("00" * 32, StudyState.DONE, "done", "", content, unfetched)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ask.learners.mean("age"),
        lambda: ask.learners.frequency("sex"),
        lambda: ask.learners.difference("age", by="sex"),
        lambda: ask.learners.naive_bayes("sex"),
        lambda: ask.learners.ranges("age", steps=4),
    ],
)
def test_a_hypothesis_prints_the_same_live_and_simulated(make: Callable[[], Any]) -> None:
    result = ask.simulate(make(), PEOPLE, epsilon=4, fleet="columns")
    learner, data = result.study.learner.name, hypothesis_json(result.hypothesis)
    live = lived({"learner": learner, "hypothesis": data}).hypothesis
    assert live == data  # JSON, as before
    assert str(live) == str(result.hypothesis)
    assert str(result.hypothesis) != repr(data)


def test_a_hypothesis_of_a_learner_that_is_not_installed_prints_as_json() -> None:
    live = lived({"learner": "not-installed", "hypothesis": {"share": 0.5}}).hypothesis
    assert str(live) == "{'share': 0.5}"


def test_a_simulation_prints_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    words = "simulate mean --population numbers --users 500 --epsilon 1 --fleet columns --seed 3"
    assert main(words.split()) == 0
    printed = stripped(capsys.readouterr().out)
    named = ask.named("mean", epsilon="1", users=500, population="numbers")
    result = ask.simulate(named.study, named.people, fleet="columns", seed=3)
    seconds = re.compile(r"  \d+\.\d s")
    assert seconds.sub("", str(result)) == seconds.sub("", printed)
    assert str(result).startswith("mean of number, 500 users, epsilon 1\n\n  mean  ")


def test_a_result_of_a_live_study_prints_its_report() -> None:
    content = {
        "learner": "mean",
        "state": "done",
        "study": "ab" * 32,
        "hypothesis": {"estimate": 40.0, "low": 35.0, "high": 45.0, "missing": None},
        "confidence": 0.95,
        "refusals": {},
        "users": 100,
        "users_asked": 100,
        "rounds": 1,
        "queries": 1,
        "answers": 100,
        "epsilon": {"budget": 1.0, "max_spent": 1.0, "mean_spent": 1.0},
        "reconciled": True,
        "privacy": "",
        "fields": ["age"],
        "influence": [],
        "bounds": [],
        "transcript": "",
    }
    title, empty, row, *_ = str(lived(content)).splitlines()
    assert (title, empty) == ("mean of age, 100 users, epsilon 1", "")
    assert row.split() == ["mean", "40.0", "+-", "5.0"]
