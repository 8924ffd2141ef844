"""The page about devices that stay away, lie or crash works as shown."""

import re
import shlex
from pathlib import Path

import pytest

from askance.cli import main

PAGE = (Path(__file__).resolve().parents[3] / "docs/faults.md").read_text(encoding="utf-8")


def test_its_python_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "faults"}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/faults.md", "exec"), names)
    assert "users lie (mga)" in capsys.readouterr().out


@pytest.mark.parametrize("command", re.findall(r"^askance (.*)$", PAGE, re.MULTILINE))
def test_its_commands_work(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)) == 0
    assert "note: " in capsys.readouterr().out
