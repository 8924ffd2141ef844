"""Samples of the endurance runs' mutants and planted defects: the tests find them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ENDURANCE = Path(__file__).resolve().parents[1] / "endurance"
TRUSTED = ENDURANCE.parents[1] / "client" / "askance_client"
PLANTED = [sys.executable, str(ENDURANCE / "planted_defects.py")]
SAMPLE = (  # about a tenth of the lists: defects of each kind whose first tests are short
    "coins of a seeded generator",
    "the hypercube's ratio rounded down",
    "a budget rounded up",
    "a search that begins below the ratio",
    "an order in which no report keeps its place",
    "a mark that failed is not tried again",
    "a new file whose name is not synced",
    "an approval for whoever signed the bytes",
    "the first decision in force after a restart",
    "an operator may export",
    "results deleted without an entry",
    "an audience as a part of a text",
    "a token valid in the second of its end",
    "a noted digest must be the last",
    "a revoked token for devices that are known",
)


def test_every_listed_mutant_changes_a_line_of_its_file() -> None:
    """A line of `mutants.md` is "- FILE: `before` -> `after`"; it goes with the code."""
    for entry in (ENDURANCE / "mutants.md").read_text("utf-8").splitlines():
        if entry.startswith("- "):
            file, _, change = entry[2:].partition(": `")
            before = change.partition("` -> `")[0]
            lines = (TRUSTED / file).read_text("utf-8").splitlines()
            assert before in {line.strip() for line in lines}, entry


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sample_of_mutants_is_killed() -> None:
    """None survives of the same 40 mutants of `accounting`, less those that are listed."""
    pytest.importorskip("cosmic_ray", reason="needs the extra `mutation`")
    command = [sys.executable, str(ENDURANCE / "mutate.py"), "accounting", "--sample", "40"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("area")


def test_every_planted_defect_can_be_planted() -> None:
    """A list goes with the code: state a defect anew whose text is gone, or take it out."""
    run = subprocess.run([*PLANTED, "--check"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sample_of_the_planted_defects_is_killed() -> None:
    only = [word for name in SAMPLE for word in ("--only", name)]
    run = subprocess.run(
        [*PLANTED, "--json", *only], capture_output=True, text=True, check=False, timeout=900
    )
    assert run.returncode == 0, run.stdout + run.stderr
    counts = json.loads(run.stdout)["lists"]
    assert sum(each.get("killed", 0) for each in counts.values()) == len(SAMPLE)
