"""A study that asks more than it planned ends as that, on record, and says who was charged."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from askance.cli.output import Failure
from askance_aggregator.analyst import StudyExport, VerificationFailed, verify
from askance_aggregator.planning import planner
from askance_aggregator.store import StudyState
from askance_client.errors import PlanExceeded


@pytest.fixture
def exceeded(served: Any, monkeypatch: pytest.MonkeyPatch) -> StudyExport:
    """Two rounds of a study whose rehearsal showed one."""
    rehearse = planner.rehearse
    monkeypatch.setattr(planner, "rehearse", lambda learner: rehearse(learner)[:1])
    with served.connected() as aggregator:
        handle = aggregator.submit(served.study())
        result = handle.result(timeout_s=60)
        assert (result.state, result.reason) == (StudyState.FAILED, "plan-exceeded")
        export: StudyExport = handle.fetch()
    return export


def test_its_result_says_how_many_users_stay_charged(exceeded: StudyExport) -> None:
    result = exceeded.result or {}
    assert result["state"] == "failed"
    assert result["hypothesis"] is None
    assert result["rounds"] == 1
    charged = result["users_asked"]
    assert f"the {charged:,} users asked before it stay charged" in result["message"]
    assert result["epsilon"]["total_spent_nano_nats"] > 0


def test_its_export_has_the_stop_and_verifies(exceeded: StudyExport) -> None:
    stopped = json.loads(exceeded.lines[-1])
    assert (stopped["kind"], stopped["round"]) == ("stopped", 1)
    assert verify(exceeded).state == "failed"


def test_an_export_without_the_stop_or_with_another_is_found_out(exceeded: StudyExport) -> None:
    stopped = json.loads(exceeded.lines[-1])
    other = json.dumps(stopped | {"asked": 1}, sort_keys=True, separators=(",", ":"))
    for lines in (exceeded.lines[:-1], (*exceeded.lines[:-1], other)):
        with pytest.raises(VerificationFailed):
            verify(replace(exceeded, lines=lines))


def test_the_command_line_ends_with_exit_code_1() -> None:
    """3 would say that no user was charged."""
    failure = Failure.of(PlanExceeded("round 1: ..."))
    assert (failure.code, failure.reason) == (1, "plan-exceeded")
