"""The benchmark of hostile callers: what each attack gets, with few exports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_shares_hold_and_other_callers_are_answered() -> None:
    script = str(ROOT / "benchmarks" / "hostile_callers.py")
    done = subprocess.run(
        [sys.executable, script, "--exports", "300", "--json"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    # Four by the aggregator, and what the outer process holds of small ones: 16 MiB of 300 kB.
    assert 4 <= told["exports"]["held"] <= 4 + 56
    assert told["exports"]["own export"] == "answered"
    assert (told["watches"]["held"], told["watches"]["RESOURCE_EXHAUSTED"]) == (32, 224)
    assert told["watches"]["own watch"] == "answered"
    assert told["studies"] == {"answered": 7, "over-quota": 63, "other's": "answered"}
    assert told["log"] == {"error lines": 0}
