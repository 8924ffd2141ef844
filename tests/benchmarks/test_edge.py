"""The benchmark of one device on an edge machine: it installs, starts and measures this tree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_device_alone_keeps_the_limits_of_install_and_memory() -> None:
    """The limits are those of the project: 120 MB installed, 60 MB resident at rest.

    The start's own limit, 1 s, is of a machine without other work and is not tested.
    """
    folders = [str(ROOT / name) for name in FOLDERS]
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "benchmarks" / "edge.py"), "--json"),
            *("--starts", "2", "--idle-s", "2"),
        ],
        capture_output=True,
        text=True,
        timeout=380,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (figures,) = json.loads(done.stdout).values()
    assert 0 < figures["install_mb"] <= 120
    assert 0 < figures["private_mb"] < figures["resident_mb"] <= 60
    assert figures["resident_mb"] < figures["after_round_mb"] + 1
    assert len(figures["start_s"]) == 2
    assert "numpy" not in dict(figures["largest"])
