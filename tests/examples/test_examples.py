"""The examples run, each in a process of its own, and both fleets agree."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("own_*.py"))  # people.py: tests/deployment


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_importable_and_runs_nothing_then(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "main" in runpy.run_path(str(example), run_name="imported")
    assert capsys.readouterr().out == ""


@pytest.mark.slow  # thousands of devices over gRPC
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_its_fleets_agree(example: Path) -> None:
    roots = [str(ROOT / folder) for folder in FOLDERS]
    done = subprocess.run(
        [sys.executable, str(example)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    digests = [line.split()[-1] for line in done.stdout.splitlines() if "sha256:" in line]
    assert len(digests) == 2
    assert digests[0] == digests[1]


@pytest.mark.parametrize(("example", "limit"), [("own_learner", 40), ("own_randomizer", 60)])
def test_the_guide_keeps_its_promise_of_few_lines(example: str, limit: int) -> None:
    text = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < limit
