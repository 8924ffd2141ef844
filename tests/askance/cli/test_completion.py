"""Completion by the shell: what argcomplete's hook is answered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import FOLDERS

pytest.importorskip("argcomplete")

ROOT = Path(__file__).resolve().parents[3]


def completions(line: str, folder: Path) -> list[str]:
    """Return the answer to a shell whose cursor is at the end of a line."""
    answer = folder / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    path = os.pathsep.join([*(str(ROOT / name) for name in FOLDERS), *filter(None, sys.path)])
    subprocess.run(
        [sys.executable, "-c", "from askance.cli import main; main()"],
        env=os.environ | asked | {"PYTHONPATH": path},
        check=True,
        timeout=120,
    )
    return [word.strip() for word in answer.read_text().split("\n")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("askance sim", {"simulate"}),
        ("askance simulate mean-", {"mean-vector"}),
        ("askance simulate heavy-hitters --thr", {"--threshold"}),
        ("askance plan mean-vector --norm ", {"linf", "l2"}),
        ("askance curate logistic --mech", {"--mechanism"}),
    ],
)
def test_commands_learners_and_parameters_are_completed(
    line: str, expected: set[str], tmp_path: Path
) -> None:
    assert set(completions(line, tmp_path)) == expected
