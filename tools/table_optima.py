"""Optima of table designs on the grid of epsilons, written as the package ships them.

    python tools/table_optima.py              # half an hour of one core
    python tools/table_optima.py present-population

`askance_aggregator.table_design.recorded` reads the files. Set OPENBLAS_NUM_THREADS=1: the matrices
are small, and waiting threads take most of the time else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import exp
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import askance_aggregator.table_design
from askance_aggregator.studies.least_epsilon import GRID
from askance_aggregator.table_design import (
    Conditional,
    PresentPopulation,
    PresentSample,
    integer_table,
    refine,
    sample_levels,
)
from askance_aggregator.table_design.designs import SAMPLE
from askance_aggregator.table_design.presence import (
    MAX_PRESENCE_NANO_NATS,
    PresenceObjective,
    solved_presence,
)
from askance_aggregator.table_design.recorded import line_of
from askance_client.accounting import NANO_NATS_PER_NAT
from askance_client.errors import InvalidParameter

FOLDER = Path(askance_aggregator.table_design.__file__).with_name("recorded")
_SLOW = 2e-4  # part of the figure that a step of the search gains, at least
_HARD_NANO_NATS = 3 * NANO_NATS_PER_NAT  # from here on a search begins at a neighbour's optimum

Solved = tuple[NDArray[np.float64], NDArray[np.float64]]


def sample() -> Iterator[str]:
    """Yield the lines of the mean of a sample."""
    for nano in GRID:
        ratio = exp(nano / NANO_NATS_PER_NAT)
        terms = Conditional().terms(sample_levels(nano), ((ratio + 1) / (ratio - 1)) ** 2)
        found = refine(terms, ratio)
        values = found.solution.values.tolist()
        channel = integer_table(found.solution.table, values, nano)
        yield line_of(nano, channel, [values], found.dual)


def present_population() -> Iterator[str]:
    """Yield the lines of the worst population."""
    for nano in _presence_grid():
        yield presence_line(nano, solved_presence(nano, PresentPopulation()))


def present_sample() -> Iterator[str]:
    """Yield the lines of the users at hand; large budgets are solved from both neighbours."""
    best: dict[int, tuple[float, Solved]] = {}
    hard = [nano for nano in _presence_grid() if nano >= _HARD_NANO_NATS]
    easy = [nano for nano in _presence_grid() if nano < _HARD_NANO_NATS]
    for order in (easy, hard, hard[::-1]):
        near: Sequence[NDArray[np.float64]] = ()
        for nano in order:
            try:
                solved = solved_presence(nano, PresentSample(), near, _SLOW)
            except InvalidParameter:
                continue
            near = [solved[1]]
            figure = figure_of(nano, PresentSample(), solved)
            if nano not in best or figure < best[nano][0]:
                best[nano] = figure, solved
    for nano, (_, solved) in sorted(best.items()):
        yield presence_line(nano, solved)


def figure_of(nano: int, objective: PresenceObjective, solved: Solved) -> float:
    """Return what an objective minimises, of a table of floats."""
    table, scores = solved
    terms = objective.terms(1.0)
    squares = (scores[:, :1] - scores[:, 1:] * terms.slopes) ** 2
    return float((np.einsum("cis,is->c", terms.shares, table @ squares) - terms.caps).max())


def presence_line(nano: int, solved: Solved) -> str:
    """Return the line of a table with "missing"."""
    table, scores = solved
    channel = integer_table(table, scores[:, 0].tolist(), nano)
    return line_of(nano, channel, scores.T.tolist(), None)


def _presence_grid() -> list[int]:
    return [nano for nano in GRID if nano <= MAX_PRESENCE_NANO_NATS]


FILES = {
    SAMPLE: sample,
    PresentPopulation.name: present_population,
    PresentSample.name: present_sample,
}


def write(name: str, lines: Iterable[str]) -> None:
    """Write a file, a line per optimum."""
    FOLDER.mkdir(exist_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    (FOLDER / f"{name}.jsonl").write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Solve, and write the files that are named, or all."""
    for name in arguments or FILES:
        write(name, FILES[name]())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
