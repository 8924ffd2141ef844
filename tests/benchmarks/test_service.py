"""The service's benchmark: it runs, loses no call, and reports both sides of each ratio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_it_runs() -> None:
    rooms = [str(ROOT / folder) for folder in FOLDERS]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "service.py"), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(rooms)},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for part in ("rounds", "check_ins_idle", "check_ins_deliver"):
        one = told[part]
        assert one["ratio"] == pytest.approx(one["durable"] / one["raw"])
    for kind in ("raw", "durable"):
        many = told["connections"][kind]
        assert many["connections"] == 100
        assert many["lost"] == {}
