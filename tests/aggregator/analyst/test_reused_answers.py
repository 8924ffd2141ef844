"""Guarantee towards readers of a result with reused answers: stated, printed and verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import askance as ask
from askance_aggregator.analyst import StudyExport, VerificationFailed, verify
from tests.aggregator.analyst.conftest import serving

SCHEMA = ask.Schema("people", 1, smokes=ask.Bit())
PEOPLE = ask.Population.from_columns(SCHEMA, {"smokes": [0, 1] * 150})


@pytest.fixture(scope="module")
def twice() -> Iterator[tuple[StudyExport, StudyExport, str]]:
    """Exports of two studies that ask one question of the same users, and the second's text."""
    learner = ask.learners.mean("smokes", missing="default")
    with serving(devices=True, population=PEOPLE) as served, served.connected() as aggregator:
        exports, text = [], ""
        for purpose in ("once", "again"):
            study = ask.Study(learner, SCHEMA, epsilon=1, purpose=purpose)
            handle = aggregator.submit(study)
            text = str(handle.result(timeout_s=60))
            exports.append(handle.fetch())
        yield exports[0], exports[1], text


def test_it_costs_once_what_both_tallies_show(
    twice: tuple[StudyExport, StudyExport, str],
) -> None:
    first, again, text = twice
    one, both = (export.result or {} for export in (first, again))
    assert both["reused"] == 300
    assert both["outer"] == {**one["outer"], "other_tallies": 1}
    assert "towards readers of this result and of 1 other tally of its answers: at most" in text


def test_a_verification_says_what_it_cannot_know(
    twice: tuple[StudyExport, StudyExport, str],
) -> None:
    first, again, _ = twice
    line = "that answers given before are in no other tallies than the operator's account has"
    assert line in verify(again).believed
    assert line not in verify(first).believed


@pytest.mark.parametrize(
    "changes", [{"epsilon": 0.1}, {"other_tallies": 0}, {"answers": 301}, {"delta": 0.5}]
)
def test_a_changed_statement_is_found(
    twice: tuple[StudyExport, StudyExport, str], changes: dict[str, Any]
) -> None:
    _, again, _ = twice
    result = again.result or {}
    broken = replace(again, result=result | {"outer": result["outer"] | changes})
    with pytest.raises(VerificationFailed, match="result: expected outer as replayed"):
        verify(broken)


def test_a_fresh_result_has_no_other_tallies(
    twice: tuple[StudyExport, StudyExport, str],
) -> None:
    first, _, _ = twice
    result = first.result or {}
    broken = replace(first, result=result | {"outer": result["outer"] | {"other_tallies": 1}})
    with pytest.raises(VerificationFailed, match="result: expected outer as replayed"):
        verify(broken)


def test_answers_that_a_study_reuses_itself_are_in_no_other_tally() -> None:
    """Both levels are in the last of 16 ages, so that each round asks one question twice."""
    schema = ask.Schema("people", 1, age=ask.Integer(0, 15))
    people = ask.Population.from_columns(schema, {"age": [*range(15), *[15] * 105] * 10})
    study = ask.Study(ask.learners.quantiles("age", levels="0.5,0.55"), schema, epsilon=4)
    with serving(devices=True, population=people) as served, served.connected() as aggregator:
        handle = aggregator.submit(study)
        result = dict(handle.result(timeout_s=60).content)
        export = handle.fetch()
    assert result["reused"] == result["fresh"] == 1200
    assert "other_tallies" not in result["outer"]
    assert verify(export).state == "done"
    broken = replace(export, result=result | {"outer": result["outer"] | {"epsilon": 0.1}})
    with pytest.raises(VerificationFailed, match="result: expected outer as replayed"):
        verify(broken)
