"""A few kills of the endurance run with two replicas: real processes behind haproxy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgresql import missing

PROGRAM = Path(__file__).resolve().parents[1] / "endurance" / "replicas.py"
HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"


@pytest.mark.slow
def test_killed_replicas_and_databases_change_no_result() -> None:
    needed = missing()
    if needed is not None:
        pytest.skip(needed)
    if not Path(HAPROXY).is_file():
        pytest.skip("haproxy is not installed (apt-get install haproxy)")
    words = [sys.executable, str(PROGRAM), "--points", "6", "--database", "2", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sum(told["kills"].values()) == 8
    assert told["kills"]["database"] == 2
    numbers = told["reconciled"]
    assert numbers["stored"] == numbers["counted"] == numbers["charges"]
    assert 0 < numbers["acknowledged"] <= numbers["stored"]
