"""The benchmark of PARITY in miniature: that it measures what it says, and not how long."""

from __future__ import annotations

import json
from types import ModuleType

import pytest


def test_it_runs(parity: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert parity.main(["--quick", "--json", "--d", "16"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = told["rows"]
    assert (told["holds"], row["d"], row["right"], row["runs"]) == (True, 16, 5, 5)
    assert 0 < row["best_ms"] <= row["median_ms"]
    assert row["n"] == 2254  # 160 (16 ln 2 + ln 20)
    assert parity.main(["--quick", "--d", "8"]) == 0
    assert "median" in capsys.readouterr().out


def test_a_slow_run_or_a_wrong_answer_breaks_the_claim(parity: ModuleType) -> None:
    row = parity.Row(256, 28871, 3609, 1.0, 10.0, 20.0, 5, 5, 50.0)
    assert parity.story([row])["holds"]
    slow = parity.Row(256, 28871, 3609, 1.0, 10.0, 50.0, 5, 5, 50.0)
    wrong = parity.Row(256, 28871, 3609, 1.0, 10.0, 20.0, 5, 4, 50.0)
    assert not parity.story([row, slow])["holds"]
    assert not parity.story([row, wrong])["holds"]
