"""The benchmarks of enrolled devices run, and report what they are about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.postgresql import missing
from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


def run(*words: str) -> dict[str, Any]:
    folders = [str(ROOT / name) for name in FOLDERS]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / words[0]), *words[1:], "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_rounds_are_opened_on_both_stores() -> None:
    found = run("enrolled.py", "--quick")
    for kind in ("sqlite", "postgresql"):
        rounds = found[kind]["rounds"]
        assert rounds["frequency"]["asked"] == found["devices"]
        assert 0 < rounds["masked-parity"]["asked"] < found["devices"]
        assert found[kind]["register_ms"]["page, first"] < 1_000
    assert found["postgresql"]["sizes_mb"]["devices"] > 1


def test_a_revoked_device_loses_its_stream_at_either_replica() -> None:
    found = run("revocation.py", "--devices", "6")
    assert found["revocations"] == 6
    assert 0 < found["ms"]["median"] <= found["ms"]["max"] < 5_000
