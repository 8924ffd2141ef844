"""The benchmark of intervals: its laws, its counting, and that a false interval is outside."""

from __future__ import annotations

import json
from types import ModuleType

import numpy as np
import pytest


def test_every_law_keeps_its_bounds(intervals: ModuleType) -> None:
    rng = np.random.default_rng(1)
    for name, law in intervals.NUMBERS.items():
        values = law(rng, 2_000)
        assert len(values) == 2_000, name
        assert values.min() >= 0, name
        assert values.max() <= 100, name
    for cells in (2, 3, 257):
        for name, shares in intervals.SHARES.items():
            found = shares(cells)
            assert found.shape == (cells,), name
            assert found.min() >= 0, name
            assert found.sum() > 0, name


@pytest.mark.parametrize(
    ("held", "of", "holds"), [(400, 400, True), (380, 400, True), (300, 400, False)]
)
def test_a_row_is_outside_if_its_rate_is_beyond_doubt(
    intervals: ModuleType, monkeypatch: pytest.MonkeyPatch, held: int, of: int, holds: bool
) -> None:
    monkeypatch.setattr(intervals, "_held", lambda *_: held)
    row = intervals.measured("mean", "1", {"one": None}, of)
    assert row.rate == held / of
    assert row.holds is holds


def test_it_runs(
    intervals: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "EPSILONS", ("2.7",))
    monkeypatch.setattr(intervals, "CELLS", (3,))
    assert intervals.main(["--trials", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["learner"] for row in rows] == ["mean"] * 3 + ["frequency"]
    assert all(row["trials"] == 20 for row in rows)
