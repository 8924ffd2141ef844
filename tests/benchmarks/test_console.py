"""The console's benchmark runs on a small store, and reports what it is about."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("uvicorn")


@pytest.mark.nightly
def test_pages_changes_and_rates_are_measured_on_a_small_store(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "benchmarks" / "console.py")),
            *("--quick", "--json", "--folder", str(tmp_path / "store")),
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (tmp_path / "store" / "facts.json").exists()
    assert "a study of 4 rounds" in found["pages_ms"]
    for part in ("pages_ms", "busy_pages_ms"):
        assert all(0 < ms["median"] <= ms["p95"] <= ms["max"] for ms in found[part].values())
    assert all(0 < ms["max"] < 10_000 for ms in found["changes_ms"].values())
    assert len(found["reports_per_s"]["with"]) == len(found["reports_per_s"]["without"]) > 0
    assert found["reports_per_s"]["ratio"] > 0
