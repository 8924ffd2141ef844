"""The benchmark of intervals under a prior: that it runs, and that too many misses are seen."""

from __future__ import annotations

from types import ModuleType

import pytest


def test_it_runs(prior_intervals: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--draws", "3", "--answers", "20000", "--epsilons", "5"]
    assert prior_intervals.main(few) == 0
    assert capsys.readouterr().out.count(" of 3") == 2


def test_too_many_misses_are_seen(
    prior_intervals: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"prior": "one point", "epsilon": "5", "width": 1.0}
    for held, code in ((360, 1), (375, 0), (400, 0)):
        monkeypatch.setattr(prior_intervals, "rows", lambda *_, held=held: [row | {"held": held}])
        assert prior_intervals.main(["--draws", "400"]) == code
        assert ("BELOW" in capsys.readouterr().out) == bool(code)
