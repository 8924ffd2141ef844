"""A tenth of the endurance run: real processes, killed at random points."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgresql import missing

ENDURANCE = Path(__file__).resolve().parents[1] / "endurance"


@pytest.mark.parametrize(
    ("store", "victims"),
    [
        pytest.param("sqlite", ("aggregator", "gateway"), marks=pytest.mark.slow),
        pytest.param(  # `test_kill_replicas.py` kills such a database each time
            "postgresql", ("aggregator", "gateway", "database"), marks=pytest.mark.nightly
        ),
    ],
)
def test_nothing_is_lost_and_nothing_counts_twice(store: str, victims: tuple[str, ...]) -> None:
    needed = missing()
    if store == "postgresql" and needed is not None:
        pytest.skip(needed)
    done = subprocess.run(
        [sys.executable, str(ENDURANCE / "kill.py"), "--points", "20", "--store", store, "--json"],
        capture_output=True,
        text=True,
        timeout=290,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["points"] == 20  # each while the study was open
    for victim in victims:
        assert any(victim in name for name in told["phases"])
    numbers = told["reconciled"]
    assert numbers["stored"] == numbers["counted"] == numbers["charges"]
    assert 0 < numbers["acknowledged"] <= numbers["stored"]
