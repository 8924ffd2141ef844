"""CM08's algorithms as printed. NOT private: for reproductions, and for tests that find it out.

The noise's length is drawn from a Laplace distribution (its absolute value, that is: exponential)
and its direction uniformly. Where the paper writes "standard deviation" its proofs need the scale,
which is taken here. In one dimension that is Laplace noise. In d > 1 the noise's density is
proportional to e^(-r/s) / r^(d-1) at a distance of r: infinite at 0, so that the ratio between
neighbours has no bound. What is left of the guarantee is a delta: `delta_of_a_shift`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling import FloatDraws, Words
from askance_papers.curator.logistic import Examples, minimise

_POINTS = 1500  # of the quadrature, in each of two directions


@dataclass(frozen=True, slots=True)
class PrintedOutput:
    """CM08, Algorithm 1, as printed. NOT epsilon-differentially private for d > 1."""

    epsilon: float
    regularisation: float

    def scale(self, count: int) -> float:
        """Scale of the length of the noise, for n rows."""
        return 2 / (count * self.regularisation * self.epsilon)

    def release(self, examples: Examples, words: Words) -> NDArray[np.float64]:
        """Return the minimiser and the noise, shape (d,)."""
        point = minimise(examples, self.regularisation)
        return point + _printed_noise(words, examples.dimension, self.scale(examples.count))


@dataclass(frozen=True, slots=True)
class PrintedObjective:
    """CM08, Algorithm 2, as printed: NOT epsilon-differentially private.

    It is not private for d > 1, nor for d = 1 where n lambda is small, since its proof leaves the
    change of variables out.
    """

    epsilon: float
    regularisation: float

    def scale(self) -> float:
        """Scale of the length of the tilt."""
        return 2 / self.epsilon

    def release(self, examples: Examples, words: Words) -> NDArray[np.float64]:
        """Return the minimiser of the tilted loss, shape (d,)."""
        tilt = _printed_noise(words, examples.dimension, self.scale())
        return minimise(examples, self.regularisation, tilt)


def delta_of_a_shift(epsilon: float, dimension: int, shift: float) -> float:
    """Return the least delta for which the printed noise hides a shift by (epsilon, delta)."""
    # The delta is the integral of max(0, f(v) - e^epsilon f(v - shift)), f the density: the mean
    # over v of max(0, 1 - e^epsilon f(v - shift) / f(v)), taken at the midpoints of equal parts of
    # v's length and of its cosine to the shift. `shift` is in units of the scale of the noise's
    # length; the sensitivity is `epsilon` such units. `dimension` is 2 or more.
    from scipy import stats

    parts = (np.arange(_POINTS) + 0.5) / _POINTS
    lengths = -np.log1p(-parts)[:, None]
    half = (dimension - 1) / 2
    cosines = 2 * stats.beta.ppf(parts, half, half)[None, :] - 1
    moved = np.sqrt(lengths**2 - 2 * lengths * shift * cosines + shift**2)
    log_ratio = (dimension - 1) * np.log(lengths / moved) + lengths - moved
    return float(np.maximum(0, -np.expm1(epsilon + log_ratio)).mean())


def _printed_noise(words: Words, dimension: int, scale: float) -> NDArray[np.float64]:
    draws = FloatDraws(words)
    return draws.expovariate(1 / scale) * draws.direction(dimension)
