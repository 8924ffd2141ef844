"""The benchmark of boosting in miniature: that it measures what it says, and not how long."""

from __future__ import annotations

import json
from types import ModuleType

import pytest


def test_it_runs(
    boosting: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosting, "QUICK", (boosting.Case(5, 2, 2, None),))
    monkeypatch.setattr(boosting, "ALLOWED_MIB", 2**20)  # this process holds what tests have left
    assert boosting.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (row,) = told["rows"]
    assert (told["holds"], row["cells"], row["queries"], row["runs"]) == (True, 32, 40, 2)
    assert row["rounds"] == 13  # floor(2 ln 40 / ln(9/5)) + 1
    assert 0 < row["best_s"] <= row["median_s"]
    assert row["error"] < 0.02
    assert boosting.main(["--quick"]) == 0
    assert "maximal error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("best_s", "error", "peak_mib", "holds"),
    [
        (2.9, 0.01, 100.0, True),
        (3.0, 0.01, 100.0, False),
        (2.9, 0.5, 100.0, False),
        (2.9, 0.01, 1024.0, False),
    ],
)
def test_what_is_slow_wrong_or_large_breaks_the_claim(
    boosting: ModuleType, best_s: float, error: float, peak_mib: float, holds: bool
) -> None:
    row = boosting.Row(4096, 1760, 26, 3, best_s, 3.5, error, peak_mib, 3.0)
    assert boosting.story([row])["holds"] is holds
