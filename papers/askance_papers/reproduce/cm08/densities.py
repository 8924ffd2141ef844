"""Densities of what objective perturbation releases, in closed form, and their worst ratio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator.logistic import Examples, MarginLoss, minimise

Floats = NDArray[np.float64]

_ANGLES = (-1.55, -1.2, -0.6, 0.0, 0.6, 1.2, 1.55, 2.5, np.pi)
_INSIDE = 1 - 1e-12
_SIZES = np.concatenate((np.geomspace(1e-5, 5e-4, 20), np.linspace(1 / 40, 1, 40) ** 2))
"""Distances from a minimiser, in parts of the reach: steep losses bend close to it."""


@dataclass(frozen=True, slots=True)
class TiltedLaw:
    """Law of the minimiser of a randomly tilted objective.

    Args:
      loss: of a row's margin.
      strength: lambda + Delta.
      scale: of the tilt's length.
      laplace: the length is exponential, as printed; else Gamma(d).
    """

    loss: MarginLoss
    strength: float
    scale: float
    laplace: bool

    def tilts(self, data: Examples, points: Floats) -> Floats:
        """Compute the tilt of which each point is the minimiser, shape (m, d)."""
        pulls = self.loss.slopes(points @ data.signed.T) @ data.signed
        found: Floats = pulls - data.count * self.strength * points
        return found

    def log_densities(self, data: Examples, points: Floats) -> Floats:
        """Compute log densities at points, but for a constant; shape (m,)."""
        lengths = np.linalg.norm(self.tilts(data, points), axis=1)
        weights = self.loss.curvatures(points @ data.signed.T)
        hessians = np.einsum("mn,ni,nj->mij", weights, data.signed, data.signed)
        hessians += data.count * self.strength * np.eye(data.dimension)
        found = np.linalg.slogdet(hessians)[1] - lengths / self.scale
        if self.laplace:
            found -= (data.dimension - 1) * np.log(lengths)
        return np.asarray(found)

    def worst_loss(self, dimension: int, common: int) -> float:
        """Search the greatest log-ratio over neighbours and outputs; a lower bound of the loss.

        Args:
          dimension: 1 or 2.
          common: number of rows that both neighbours have.
        """
        worst = -np.inf
        for one, other in neighbours(dimension, common):
            points = self._outputs(one, other)
            ratio = self.log_densities(one, points) - self.log_densities(other, points)
            worst = max(worst, float(ratio.max()))
        return worst

    def _outputs(self, one: Examples, other: Examples) -> Floats:
        """Make a grid around both minimisers, with a point beside each, where a pole may lie."""
        parts = []
        for data in (one, other):
            centre = minimise(data, self.strength, None, self.loss)
            reach = 12 * self.scale / (data.count * self.strength)
            sizes = reach * _SIZES
            parts += [centre + sizes[:, None, None] * _directions(data.dimension)]
            parts += [(centre + 1e-6 * _directions(data.dimension)[:1])[None]]
        return np.concatenate([part.reshape(-1, one.dimension) for part in parts])


def neighbours(dimension: int, common: int) -> Iterator[tuple[Examples, Examples]]:
    """Generate pairs that differ in their last row; others are zeros, or pull on the last axis.

    Tilts differ most where w misclassifies both rows, determinants where one row is zero.
    """
    rows = [np.zeros(dimension)]
    if dimension == 1:
        rows += [np.array([size]) for size in (1.0, -1.0, 0.5)]
    else:
        rows += [np.array([np.sin(angle), -np.cos(angle)]) for angle in _ANGLES]
    for others in (np.zeros((common, dimension)), np.tile(np.eye(dimension)[-1], (common, 1))):
        data = [Examples(np.vstack([others, row]) * _INSIDE) for row in rows]
        yield from ((one, other) for one in data for other in data if one is not other)


def _directions(dimension: int) -> Floats:
    """Make unit vectors, shape (count, dimension)."""
    if dimension == 1:
        return np.array([[1.0], [-1.0]])
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    return np.column_stack([np.sin(angles), np.cos(angles)])
