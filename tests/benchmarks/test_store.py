"""The benchmark of stores: it runs, and reports each ratio to raw gRPC."""

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


@pytest.mark.nightly
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_it_runs() -> None:
    folders = [str(ROOT / name) for name in FOLDERS]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "store.py"), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    kinds = told["kinds"]
    assert set(kinds) == {"raw", "sqlite", "postgresql", "replicas"}
    for kind in kinds.values():
        assert kind["ratio"] == pytest.approx(kind["reports_per_s"] / kinds["raw"]["reports_per_s"])
        assert kind["ratios"] == [kind["ratio"], kind["ratio"]]
        assert kind["processor_us_per_report"]["aggregators"] > 0
    for name, kind in kinds.items():
        works = kind["processor_us_per_report"]["database"] > 0
        assert works == (name in ("postgresql", "replicas"))
