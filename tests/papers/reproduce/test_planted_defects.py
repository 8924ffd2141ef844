"""Mutation tests: each reproduction holds, and does not once its mechanism is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from askance_papers.reproduce import REPRODUCTIONS
from tests.papers.reproduce.planted.defect import Defect
from tests.papers.reproduce.planted.promises import PROMISES
from tests.papers.reproduce.planted_defects import DEFECTS, NOT_COVERED, holds, reproduced

CASES = [
    pytest.param(name, defect, id=f"{name}: {defect.summary}")
    for name, defects in DEFECTS.items()
    for defect in defects
]
BY_PROMISE = [
    (name, defect)
    for by_name in PROMISES.values()
    for name, defects in by_name.items()
    for defect in defects
]
"""Those that `promises.py` lists: the others wait for the night."""
# Held by the modules of their own, with more than is asked of all here.
OWN = {"composition", "theorem-3.7", *(f"logistic-figure-{number}" for number in (1, 2, 3, 4))}
# The axes of pictures of those whose rows all claim something.
AXES = {
    "theorem-3": 1,
    "theorem-5": 2,
    "theorem-6": 1,
    "local-vs-central": 1,
    "lemma-4.2": 3,
    "lemma-4.3": 1,
    "parity": 2,
}


def test_each_reproduction_has_three_planted_defects() -> None:
    assert set(DEFECTS) | set(NOT_COVERED) == set(REPRODUCTIONS), (
        "add two defects for a new reproduction to its source's module in"
        " tests/papers/reproduce/planted, and one to promises.py"
    )
    assert all(
        len({defect.summary for defect in defects}) == len(defects) >= 3
        for defects in DEFECTS.values()
    ), "two for its source, and one for a kind of promise"


def test_the_page_of_papers_has_a_row_for_each_planted_defect() -> None:
    page = (Path(__file__).parents[3] / "docs" / "papers.md").read_text(encoding="utf-8")
    for name, defects in DEFECTS.items():
        for defect in defects:
            assert f"| `{name}` | {defect.summary} | no |" in page, (
                "docs/papers.md has what planted_defects.py prints: run it again"
            )


@pytest.mark.parametrize(("name", "defect"), CASES)
def test_a_planted_defect_has_its_place(name: str, defect: Defect) -> None:
    owner, attribute = defect.owner
    assert hasattr(owner, attribute), f"{name}: {defect.place}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DEFECTS if name not in OWN])
def test_it_holds_without_a_defect(name: str) -> None:
    found = reproduced(name)
    assert found.holds, [row for row in found.rows if row["holds"] is False]
    assert len({tuple(row) for row in found.rows}) == 1, "all rows have the same columns"
    json.dumps(found.to_json(), allow_nan=False)
    figure = Figure()
    found.draw(figure)
    assert figure.axes[0].lines or name == "theorem-4.8"  # which has bars
    if name in AXES:
        assert all(row["holds"] is True for row in found.rows)
        assert len(figure.axes) == AXES[name]


@pytest.mark.parametrize(
    ("name", "defect"),
    [
        pytest.param(*case.values, id=case.id, marks=mark)
        for case in CASES
        for mark in [pytest.mark.slow if case.values in BY_PROMISE else pytest.mark.nightly]
    ],
)
def test_it_does_not_hold_with_a_planted_defect(name: str, defect: Defect) -> None:
    assert not holds(name, defect)
