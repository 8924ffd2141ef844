"""The gateways' benchmark: it runs, loses no member, and reports both ways in one run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_both_ways_are_measured_with_few_members() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gateway.py"), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [row["questions"] for row in told["throughput"]] == [1, 7]
    for row in told["throughput"]:
        assert row["members"] == 80
        assert row["ratio"] > 0
        streams, gateways = row["ways"].values()
        assert gateways["connected_mb"] < streams["connected_mb"]
