"""Outputs of an aggregator, by role: they show what the documentation says, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.aggregator.server.callers.answered_service import BASE, CHANGES, Shown, shown_of

PAGE = Path(__file__).parents[4] / "docs" / "explanations" / "outputs.md"
BELOW_TALLIES = {"reports", "partial tallies", "order"}


def table() -> dict[tuple[str, str], str]:
    """Return the cells of the page's table by output and reader; empty ones are left out."""
    lines = PAGE.read_text("utf-8").splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("|")]
    (_, *readers), _, *outputs = ([cell.strip() for cell in row] for row in rows)
    return {
        (output, reader): cell
        for output, *cells in outputs
        for reader, cell in zip(readers, cells, strict=True)
        if cell
    }


CELLS = table()


@pytest.fixture(scope="module")
def services() -> tuple[Shown, dict[str, Shown]]:
    """Return what a service shows, and what services with one change each show."""
    return shown_of(BASE), {name: shown_of(said) for name, said in CHANGES.items()}


@pytest.mark.parametrize(("output", "reader"), CELLS)
def test_an_output_depends_on_what_its_cell_names(
    services: tuple[Shown, dict[str, Shown]], output: str, reader: str
) -> None:
    shown, changed = services
    cell, text = CELLS[output, reader], shown[output, reader]
    if cell == "refused":
        assert text is None
        return
    assert text
    seen = {name for name, other in changed.items() if other[output, reader] != text}
    assert seen == ({*cell.split(", ")} - {"nothing"})


def test_the_table_has_every_output_and_reader(services: tuple[Shown, dict[str, Shown]]) -> None:
    assert CELLS.keys() == services[0].keys()


def test_nothing_below_tallies_leaves_the_store() -> None:
    for (output, _), cell in CELLS.items():
        assert output == "store" or not BELOW_TALLIES & {*cell.split(", ")}
