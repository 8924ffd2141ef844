"""The density of what is released, in closed form: the noise's, and the change of variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, gammaln, xlogy

from askance_papers.curator.logistic import Examples, minimise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Rotation-symmetric: its length is Gamma(d) as corrected, or exponential as printed."""

    scale: float
    printed: bool

    def log_density(self, points: Floats) -> Floats:
        """Compute the density's logarithm at points of shape (m, d); shape (m,)."""
        dimension = points.shape[1]
        lengths = np.linalg.norm(points, axis=1)
        sphere = np.log(2) + dimension / 2 * np.log(np.pi) - gammaln(dimension / 2)
        if self.printed:
            shape = np.log(self.scale) + xlogy(dimension - 1, lengths)
        else:
            shape = gammaln(dimension) + dimension * np.log(self.scale)
        found: Floats = -lengths / self.scale - shape - sphere
        return found


@dataclass(frozen=True)
class Released:
    """A mechanism's output.

    Args:
        strength: lambda + Delta.
        tilts: whether the noise is in the objective.
    """

    noise: Noise
    strength: float
    tilts: bool

    def tilt(self, data: Examples, points: Floats) -> Floats:
        """Return the b of which each point, shape (m, d), is the minimiser."""
        pulls: Floats = expit(-points @ data.signed.T) @ data.signed
        return pulls - data.count * self.strength * points

    def log_density(self, data: Examples, points: Floats) -> Floats:
        """Compute the density's logarithm at points of shape (m, d); shape (m,)."""
        if not self.tilts:
            return self.noise.log_density(points - minimise(data, self.strength))
        margins = points @ data.signed.T
        weights = expit(margins) * expit(-margins)
        hessians = np.einsum("mn,ni,nj->mij", weights, data.signed, data.signed)
        hessians += data.count * self.strength * np.eye(data.dimension)
        found: Floats = (
            self.noise.log_density(self.tilt(data, points)) + np.linalg.slogdet(hessians)[1]
        )
        return found

    def centre(self, data: Examples) -> Floats:
        """Compute the release without noise: the printed density has its pole there."""
        return minimise(data, self.strength)


def _neighbours(dimension: int, common: int) -> list[tuple[Examples, Examples]]:
    """Return pairs that differ in their last row; others are zeros, or pull on the last axis.

    The tilts of two rows of opposite directions differ most where w misclassifies both; that takes
    rows that are not quite opposite. The determinants differ most where one row is zero.
    """
    rows = [np.zeros(dimension)]
    if dimension == 1:
        rows += [np.array([size]) for size in (1.0, -1.0, 0.5)]
    else:
        rows += [
            np.array([np.sin(angle), -np.cos(angle)])
            for angle in (-1.55, -1.2, -0.6, 0.0, 0.6, 1.2, 1.55, 2.5, np.pi)
        ]
    pairs = []
    for others in (np.zeros((common, dimension)), np.tile(np.eye(dimension)[-1], (common, 1))):
        data = [Examples(np.vstack([others, row])) for row in rows]
        pairs += [(one, other) for one in data for other in data if one is not other]
    return pairs


def _points(dimension: int, reach: float) -> Floats:
    sizes = reach * np.linspace(1 / 60, 1, 60) ** 2  # not 0, where a pole may lie
    if dimension == 1:
        return np.concatenate([sizes, -sizes])[:, None]
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    circle = np.column_stack([np.sin(angles), np.cos(angles)])
    found: Floats = (sizes[:, None, None] * circle).reshape(-1, 2)
    return found


def _worst_loss(released: Released, dimension: int, common: int, reach: float) -> float:
    points = _points(dimension, reach)
    worst = -np.inf
    for one, other in _neighbours(dimension, common):
        beside = released.centre(one) + 1e-6 * np.eye(dimension)[:1]
        both = np.vstack([points, beside])
        ratio = released.log_density(one, both) - released.log_density(other, both)
        worst = max(worst, float(ratio.max()))
    return worst


@pytest.fixture(scope="session")
def worst_loss() -> Callable[[Released, int, int, float], float]:
    """Return the greatest log-ratio of densities at a grid of outputs, over a grid of neighbours.

    Its arguments: what is released, d (1 or 2), the rows in common, the greatest norm of an output.
    """
    return _worst_loss


@pytest.fixture(scope="session")
def released() -> Callable[[float, bool, float, bool], Released]:
    """Return the maker of releases: by the noise's scale, print, strength and tilt."""
    return lambda scale, printed, strength, tilts: Released(Noise(scale, printed), strength, tilts)
