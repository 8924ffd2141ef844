"""Documents run as a reader would run them: in order, in a clean clone, with no other file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import CommandServer
from tests.examples.documents import (
    BY_ANOTHER_TEST,
    BY_CI,
    LONG,
    ROOT,
    Mention,
    Python,
    Reader,
    Shell,
    clone,
    documents,
    steps,
)
from tests.ports import free_address

# Ten thousand devices, a deployment, the papers; medians over gRPC; sweeps; faults; boosting;
# all learners; plans at every epsilon of a grid.
LONG_DOCUMENTS = {
    "README.md", "CONTRIBUTING.md", "docs/simulation.md", "docs/faults.md", "docs/curator.md",
    "docs/operating.md", "docs/learners.md", "docs/explanations/epsilon.md",
    "docs/deployment.md", "docs/papers.md",
    "docs/tutorials/first_result.md", "docs/tutorials/plan_a_study.md",
    "docs/tutorials/repeated_study.md",
}  # fmt: skip
# An epoch of a week that began on a Thursday, as the day 0 of 1970, must not end meanwhile.
WEEKLY_DOCUMENTS = {"docs/tutorials/repeated_study.md"}
WEEK_S, LONGEST_S = 7 * 86_400, 600
# Parts of what some commands print, so that a command that does nothing is noticed.
PRINTED = {
    "README.md": {
        "askance simulate frequency --data census": "Secondary   32.4 %  +- 3.3  true 32.4 %",
        "askance simulate frequency --data survey.csv": "car      45 %  +- 14  true 45 %",
        "askance study submit examples/schooling.toml": "Each of 500 users answered once",
        "askance aggregator status": "500",
        "askance device status gateway": "500 answers to 1 study",
        "askance device verify gateway": "500 answers checked, 0 violations",
    },
    "docs/deployment.md": {
        "askance study submit examples/masked_parity.toml": "1,869 of 4,000 users answered",
    },
    "docs/curator.md": {"askance curate --list": "parity"},
    "docs/operating.md": {
        "askance aggregator doctor": "ok    schema",
        "askance study submit examples/schooling.toml": "Each of 500 users answered once",
        "askance aggregator status": "devices: 500",  # also after the store was restored
    },
    "docs/tutorials/repeated_study.md": {
        "askance study result ID --epoch 1 --wait": "epoch 1 of 4 from",
        "askance study show": "epoch 2 of 4 begins on",
        "askance study result ID --epochs --plot": "1 of 4 epochs of 7 days",
        "askance study verify": "The export holds together",
    },
    "docs/reference/conformance.md": {
        "python tests/conformance/run.py": "all                5       0"
    },
}


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """A process with the modules of a clean clone, of which all documents' commands are forks."""
    folder = tmp_path_factory.mktemp("clone")
    clone(folder)
    server = CommandServer(folder)
    yield server
    server.close()


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG_DOCUMENTS else [])
        for name in documents()
    ],
)
@pytest.mark.timeout(1_800)
def test_a_document_runs_from_top_to_bottom_in_a_clean_clone(
    document: str, tmp_path: Path, commands: CommandServer
) -> None:
    if document in WEEKLY_DOCUMENTS and (left_s := WEEK_S - time.time() % WEEK_S) < LONGEST_S:
        time.sleep(left_s)
    wanted = list(steps(document))
    folder = ROOT  # commands that are only named print their help, and write nothing
    if not all(isinstance(step, Mention) for step in wanted):
        clone(folder := tmp_path)
    reader = Reader(folder, free_address(), commands)
    try:
        for step in wanted:
            reader.run(step)
    finally:
        reader.close()
    for command, part in PRINTED.get(document, {}).items():
        printed = [text for run, text in reader.printed.items() if run.startswith(command)]
        assert printed, f"{command} was not run"
        assert any(part in text for text in printed), f"{command}\n{printed}"


def test_the_documents_have_what_is_run() -> None:
    """A parser that finds nothing would pass every document."""
    found = [step for document in documents() for step in steps(document)]
    commands = [step.command for step in found if isinstance(step, Shell)]
    assert len(commands) > 50
    assert sum(isinstance(step, Python) for step in found) > 15
    assert any(isinstance(step, Mention) for step in found)
    assert "askance curate --list" in commands  # it stands within a sentence
    assert "askance demo" in [part for line in commands for part in line.split(" && ")] or any(
        "&& askance demo" in line for line in commands
    )


def test_what_a_test_leaves_out_is_run_by_ci_or_another_or_called_long_by_its_document() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "pip install" in script
    assert "\npytest -q\n" in script
    assert "pytest -q -m slow" in script
    assert "pip wheel" in script
    assert BY_CI
    commands = [
        step.command for name in documents() for step in steps(name) if isinstance(step, Shell)
    ]
    for name, file in BY_ANOTHER_TEST.items():
        assert name in (ROOT / file).read_text(encoding="utf-8")
        assert any(command.startswith(name) for command in commands), name
    for command, words in LONG.items():
        pages = [(ROOT / name).read_text(encoding="utf-8") for name in documents()]
        (page,) = [page for page in pages if command in page]
        after = " ".join(page.partition(command)[2].split())
        assert after.lstrip("`, ").startswith(words)
