"""What the documents show works as shown: their Python runs, and so do the README's commands."""

import random
import re
import shlex
from pathlib import Path

import pytest

from askance.simulation.cli import main

ROOT = Path(__file__).resolve().parents[2]


def blocks(document: str, language: str) -> list[str]:
    """All but those of the README's deployment, which `tests/deployment` runs as processes."""
    text = (ROOT / document).read_text(encoding="utf-8")
    text = re.sub(r"^## A deployment.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_the_python_of_a_document_runs_from_top_to_bottom(
    document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = blocks(document, "python")
    assert shown
    names: dict[str, object] = {"__name__": document}
    for block in shown:
        exec(compile(block, document, "exec"), names)
    assert "sha256:" in capsys.readouterr().out


def test_the_curator_s_page_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "curator"}
    for block in blocks("docs/curator.md", "python"):
        exec(compile(block, "docs/curator.md", "exec"), names)
    assert "differentially private" in capsys.readouterr().out


def commands() -> list[str]:
    lines = [
        line.partition("#")[0].strip()
        for block in blocks("README.md", "sh")
        for line in block.splitlines()
    ]
    return [line for line in lines if line.startswith("askance ")]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(3)
    rows = [f"{generator.randint(17, 90)},{generator.choice('ABC?')}" for _ in range(3_000)]
    (tmp_path / "people.csv").write_text("age,education\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 0


def test_the_page_about_simulation_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "simulation"}
    for block in blocks("docs/simulation.md", "python"):
        exec(compile(block, "docs/simulation.md", "exec"), names)
    assert "success" in capsys.readouterr().out
    for block in blocks("docs/simulation.md", "sh"):
        for line in block.splitlines():
            assert main(shlex.split(line)[1:]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"mean.jsonl", "mean.png", "d.svg"}
