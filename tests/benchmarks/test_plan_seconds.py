"""Seconds of plans: every learner is planned, in a process of its own, and refusals are shown."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from askance_aggregator.learners import learners


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was written to stderr; gRPC logs forks of a process in which it runs."""
    lines = capfd.readouterr().err.splitlines()
    return [line for line in lines if "fork_posix.cc" not in line]


def test_a_plan_is_timed_in_a_process_of_its_own(
    plan_seconds: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    assert plan_seconds.seconds("mean", {"tau": "0.1", "missing": "default"}, "1") > 0
    assert told(capfd) == []
    assert plan_seconds.seconds("mean", {"tau": "0.1"}, "0.0001") > 0
    assert "mean, 0.0001 nats: epsilon" in capfd.readouterr().err


def test_the_rows_of_a_learner_have_its_settings(
    plan_seconds: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--learners", "frequency", "--epsilons", "1", "2", "--json"]
    assert plan_seconds.main(words) in (0, 1)  # by the machine
    rows = json.loads(capfd.readouterr().out)["rows"]
    assert [row["plan"] for row in rows] == ["frequency", "frequency cells=1000 tau=0.05"]
    assert [list(row["seconds"]) for row in rows] == [["1", "2"], ["1", "2"]]


@pytest.mark.slow
def test_every_learner_is_planned(
    plan_seconds: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    assert plan_seconds.main(["--quick", "--json"]) in (0, 1)
    rows = json.loads(capfd.readouterr().out)["rows"]
    names = {row["plan"].split()[0] for row in rows}
    assert names == {entry.name for entry in learners()}
