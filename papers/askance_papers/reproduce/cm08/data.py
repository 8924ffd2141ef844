"""CM08's data: points of the sphere with a margin, its own example, and two medical tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidRecord
from askance_papers.curator.logistic import Examples, LongRows
from askance_papers.reproduce.counting import generator
from askance_papers.reproduce.reproduction import Setting
from askance_simulation.randomness import Seed

POINTS, DIMENSION = 1250, 20  # of the simulated data
FOLDS = 5
PIMA = "pima_indians_diabetes.csv"


@dataclass(frozen=True, slots=True)
class Problem:
    """Data to learn, and how.

    Args:
      regularisation: lambda, which the paper tuned without privacy.
      sizes: how many rows are learnt from, at each point of a learning curve.
      draw: the data; tables are the same for every seed.
    """

    name: str
    title: str
    dimension: int
    regularisation: str
    sizes: tuple[int, ...]
    draw: Callable[[Seed], Examples]


Split = tuple[Examples, Examples]
"""Training examples and test examples."""


def problems(setting: Setting) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Return the paper's four, and a note on each that cannot be had."""
    found, notes = [_uniform("0.1", "0.01"), _uniform("0.05", "0.001")], []
    file = None if setting.data is None else setting.data / PIMA
    if file is not None and file.is_file():
        table = _pima(file)
        found.append(Problem("pima", "Pima", 8, "1e-6", tuple(range(50, 601, 50)), lambda _: table))
    else:
        notes.append(f"Pima Indians Diabetes is left out: there is no {PIMA} among the data.")
    found.append(Problem("breast", "Breast", 30, "1e-6", tuple(range(50, 451, 50)), _breast))
    return tuple(found), tuple(notes)


def folds(examples: Examples, seed: Seed) -> Iterator[Split]:
    """Split the rows: each fifth is the test set once, the others in a random order."""
    order = generator(seed).permutation(examples.count)
    parts = np.array_split(order, FOLDS)
    for place, test in enumerate(parts):
        train = np.concatenate(parts[:place] + parts[place + 1 :])
        yield Examples(examples.signed[train]), Examples(examples.signed[test])


def drawn_folds(problem: Problem, seed: Seed, repeats: int) -> list[Split]:
    """Split each of some draws of a problem's rows into its folds."""
    return [
        split
        for repeat in range(repeats)
        for split in folds(problem.draw(seed / "data" / repeat), seed / "folds" / repeat)
    ]


def narrow_split(dimension: int, margin: float, count: int, seed: Seed) -> Split:
    """Make CM08 section 3.1's example: corners of the cube, squeezed to `margin` on the first axis.

    The label is the sign of the first coordinate; every point has norm 1. 1000 points are tested.
    """
    signs = generator(seed).choice([-1.0, 1.0], (count + 1000, dimension))
    scales = np.full(dimension, np.sqrt((1 - margin**2) / (dimension - 1)))
    scales[0] = margin
    found = Examples.of(signs * scales, signs[:, 0])
    return Examples(found.signed[:count]), Examples(found.signed[count:])


def _uniform(margin: str, regularisation: str) -> Problem:
    def draw(seed: Seed) -> Examples:
        return _sphere(float(margin), generator(seed))

    sizes = tuple(range(100, 1001, 100))
    title = f"uniform, margin {margin}"
    return Problem(f"uniform {margin}", title, DIMENSION, regularisation, sizes, draw)


def _sphere(margin: float, chance: np.random.Generator) -> Examples:
    """Draw uniform points of the sphere, no nearer than `margin` to a random hyperplane."""
    normal = chance.standard_normal(DIMENSION)
    normal /= np.linalg.norm(normal)
    kept = np.empty((0, DIMENSION))
    while len(kept) < POINTS:
        points = chance.standard_normal((POINTS, DIMENSION))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        kept = np.vstack([kept, points[np.abs(points @ normal) >= margin]])
    return _table(kept[:POINTS], kept[:POINTS] @ normal > 0)


def _pima(file: Path) -> Examples:
    table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
    if table.shape[1] != 9:
        raise InvalidRecord(f"{PIMA}: expected 9 columns, found {table.shape[1]}")
    return _table(table[:, :-1], table[:, -1] > 0)


def _breast(_: Seed) -> Examples:
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    return _table(table.data, table.target > 0)


def _table(rows: NDArray[np.float64], positive: NDArray[np.bool_]) -> Examples:
    """Return rows clipped to norm 1, in their own units: all medical ones are longer."""
    return Examples.of(rows, np.where(positive, 1, -1), longer=LongRows.CLIP)
