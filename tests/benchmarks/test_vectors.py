"""The benchmark of vectors runs, and what it measures is what theory says."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_errors_are_those_of_theory(
    vectors: ModuleType, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five relative deviations are allowed, of 6 % each, for a mean of 640 squares.

    It is over 40 trials of 16 numbers; blocks deviate more, since their parts are not independent.
    """
    monkeypatch.setattr(vectors, "USERS", 2_000)
    rows = vectors.compared(norm, 16, 3.0, trials=40)
    assert [row.size for row in rows] == ["one", "chosen", "all"]
    assert [row.components for row in rows] == [1, 3, 16]
    for row in rows:
        assert row.measured == pytest.approx(row.theory, rel=0.3)
    assert rows[1].theory < min(rows[0].theory, rows[2].theory)


def test_a_device_is_timed_and_a_picture_drawn(vectors: ModuleType, tmp_path: Path) -> None:
    told = vectors.device_row("l2", 16, 4)
    assert told["request_bytes"] < 40_000
    assert told["again_ms"] > 0
    rows = [
        vectors.Row(norm, 4, eps, size, 1, 2 / eps, 2 / eps, 3 / eps, 0.0)
        for norm in ("linf", "l2")
        for eps in (1.0, 2.0)
        for size in ("one", "chosen", "all")
    ]
    vectors.plot(rows, tmp_path / "vectors.png")
    assert (tmp_path / "vectors.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly
def test_it_runs(vectors: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert vectors.main(["--quick", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) == 2 * 2 * 2 * 3
    assert all(row["request_bytes"] < 40_000 for row in told["devices"])


def test_a_codebook_is_measured_beside_privunit(balls: ModuleType) -> None:
    """At n = 2,000: a variance of 16 components is within 12 %; PrivUnit's limit is known."""
    row = balls.row_of(16, 2.0, 2_000)
    assert row.measured == pytest.approx(row.exact, rel=0.12)
    assert 1 <= row.exact / row.privunit <= 1.05
    assert row.error < 2
    assert balls.privunit(100_000, 4.0) == pytest.approx(0.4355, rel=2e-3)
    assert "| 16 | 2 |" in balls.table([row])
