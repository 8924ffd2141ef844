"""The notebooks are kept with their outputs, and give the same ones when they run again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import notebooks as tool

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 300_000
NAMES = {
    "central_against_local",
    "deployment_on_loopback",
    "error_against_users_and_epsilon",
    "own_learner",
    "reading_a_transcript",
    "real_data",
}
# A path of a machine, a host's address with a port, a date, a time of day, seconds, an object's
# address, an error.
OF_A_MACHINE = re.compile(
    r"(?:^|[\s\"'(=])/(?:home|root|tmp|usr|work|var|opt|Users)\b|localhost|127\.0\.0\.1"
    r"|\b20\d\d-\d\d-\d\d|\b\d\d:\d\d:\d\d|\b\d+(?:\.\d+)? (?:s|ms|seconds?)\b| at 0x[0-9a-f]"
    r"|\ss$|Traceback|Error\b(?! \d)|Warning\b",  # a verdict begins "Error 1.6 %"
    re.MULTILINE,  # `s` at a line's end heads a column of seconds
)


@pytest.fixture(params=tool.notebooks(), ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    kept = json.loads(notebook.read_text(encoding="utf-8"))
    return [cell for cell in kept["cells"] if cell["cell_type"] == "code"]


def kept_texts(cells: list[dict[str, Any]]) -> Iterator[str]:
    for cell in cells:
        for output in cell["outputs"]:
            yield "".join(output.get("text", ()))
            for kind, text in output.get("data", {}).items():
                if kind.startswith("text/"):
                    yield "".join(text)


def test_there_are_six() -> None:
    assert {path.stem for path in tool.notebooks()} == NAMES


def test_it_is_kept_as_it_ran_from_top_to_bottom(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(bool(cell["outputs"]) for cell in cells) >= 5
    assert notebook.stat().st_size < MOST_BYTES


def test_no_output_is_an_error_or_shows_a_machine_or_a_time(notebook: Path) -> None:
    cells = code_cells(notebook)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    assert all(output.get("name", "stdout") == "stdout" for output in outputs)
    for text in kept_texts(cells):
        assert not OF_A_MACHINE.search(text), text


@pytest.mark.parametrize(
    "text",
    [
        "written to /tmp/askance-x",
        "serving at 127.0.0.1:7443",
        "2026-01-01T00:00:00Z",
        "done in 3.2 s",
        "<object at 0x7f00>",
        "ValueError: x",
        "epsilon  error    s\n      1    0.2  3.1",
    ],
)
def test_what_is_of_a_machine_would_be_found(text: str) -> None:
    assert OF_A_MACHINE.search(text)


def test_its_metadata_says_nothing_of_a_machine_or_a_time(notebook: Path) -> None:
    kept = json.loads(notebook.read_text(encoding="utf-8"))
    assert kept["metadata"] == tool.METADATA
    assert all(cell["metadata"] == {} for cell in kept["cells"])


def test_its_links_lead_to_files(notebook: Path) -> None:
    kept = json.loads(notebook.read_text(encoding="utf-8"))
    text = "".join(
        "".join(cell["source"]) for cell in kept["cells"] if cell["cell_type"] == "markdown"
    )
    links = re.findall(r"\]\(([^)#:\s]+)\)", text)
    for link in links:
        assert (notebook.parent / link).exists(), link


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_puts_out_the_same_text_when_it_runs_again(notebook: Path) -> None:
    pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    kept = nbformat.read(notebook, as_version=4)
    nbformat.validate(kept)
    again = tool.executed(notebook)
    assert tool.texts(again) == tool.texts(kept)
    pictures = [
        [sorted(output.data) for output in tool.outputs(one) if "data" in output]
        for one in (kept, again)
    ]
    assert pictures[0] == pictures[1]
