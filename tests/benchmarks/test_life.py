"""The benchmark of deletion and backups runs, and gives every figure of both stores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgresql import missing
from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_it_measures_both_stores() -> None:
    folders = [str(ROOT / name) for name in FOLDERS]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "life.py"), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for kind in ("sqlite", "postgresql"):
        found = told[kind]
        for name in ("backup_s", "restoration_s", "deletion_s"):
            assert 0 < found[name] < 60
        assert found["batch_ms_during_deletion"]["median"] > 0
        assert found["backup_bytes"] < found["store_bytes"]
