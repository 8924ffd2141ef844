"""Hypotheses on the screen, and as JSON that can be loaded again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from askance.cli import main
from askance_aggregator.learners import NaiveBayes, hypothesis_from_json

RUN = ["simulate", "naive-bayes", "--users", "3000", "--epsilon", "4", "--set", "bins=2"]


def test_a_printed_result_is_a_hypothesis_that_predicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--fleet", "columns", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    found = hypothesis_from_json(result["learner"], result["hypothesis"])
    assert isinstance(found, NaiveBayes)
    assert found.predict({"member": [1], "age": [99], "height": [1]}).tolist() == ["yes"]
    assert found.to_json() == result["hypothesis"]
    assert 0 < result["error"]["mean"] < 0.5
    assert np.isfinite(result["error"]["max"])


def test_a_hypothesis_with_a_summary_is_told_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--fleet", "columns"]) == 0
    printed = capsys.readouterr().out
    assert "naive Bayes for y (no 0." in printed
    assert "tables" not in printed
    assert printed.startswith("naive-bayes of y, 3,000 users, epsilon 4\n")


@pytest.mark.parametrize(
    ("learner", "rounds"),
    [
        ("literal-conjunctions", 1),
        ("disjunctions", 1),
        ("decision-lists", 3),
        ("naive-bayes", 1),
        ("linear-regression", 72),
        ("ridge-regression", 72),
        ("pca", 2),
        ("marginals", 1),
        ("quantiles", 6),
        ("heavy-hitters", 1),
        ("ranges", 1),
    ],
)
def test_a_plan_says_how_many_users_before_anybody_is_asked(
    learner: str, rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", learner, "--epsilon", "1", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["feasible"]
    assert len(planned["rounds"]) == rounds
    assert planned["users_needed"] > 1000
