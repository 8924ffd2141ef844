"""The notebooks run from top to bottom, and are kept without what they print."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
MOST_S = 60  # of a cell; on an idle machine, of a notebook


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_is_one() -> None:
    assert NOTEBOOKS


def test_nothing_that_was_printed_is_kept(notebook: Path) -> None:
    kept = json.loads(notebook.read_text(encoding="utf-8"))
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert all(cell["metadata"] == {} for cell in kept["cells"])


@pytest.mark.slow
def test_it_runs_and_shows_tables_and_pictures(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    roots = [str(ROOT / folder) for folder in ("", "protos", "client", "aggregator", "simulation")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(roots))
    shown: Any = nbformat.read(notebook, as_version=4)
    nbformat.validate(shown)
    nbclient.NotebookClient(shown, timeout=MOST_S, kernel_name="python3").execute()
    outputs = [output for cell in shown.cells for output in cell.get("outputs", [])]
    kinds = [output.output_type for output in outputs]
    assert "error" not in kinds
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= 4
    assert any("success" in output.text for output in outputs if output.output_type == "stream")
