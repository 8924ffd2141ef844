"""A sample of the endurance run's mutants: the tests find them, or a reason is listed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MUTATE = Path(__file__).resolve().parents[1] / "endurance" / "mutate.py"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sample_of_mutants_is_killed_or_listed() -> None:
    """40 mutants of `accounting`, always the same; the script exits 1 on another survivor."""
    pytest.importorskip("cosmic_ray", reason="needs the extra `mutation`")
    command = [sys.executable, str(MUTATE), "accounting", "--sample", "40"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("area")
