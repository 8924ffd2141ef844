"""Noise that CM08's algorithms drew, recovered from what they released, beside the claimed one.

Output perturbation releases w* + v: v is the release less the minimiser. Objective perturbation
releases the only w at which the gradient of its loss vanishes, so that its tilt is

    b = -n (lambda + Delta) w + sum_i s_i y_i x_i,   s_i = 1 / (1 + e^(y_i w.x_i)).

The claims are written out here; nothing is asked of the mechanisms.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log1p

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator.logistic import Examples, minimise

_CURVATURE = 0.25  # of log(1 + e^-m), at most


@dataclass(frozen=True, slots=True)
class ClaimedNoise:
    """Law of a noise vector's length, and the loss that it stands in.

    Args:
      shape: of the length's Gamma law: d where the algorithm is private, 1 as printed.
      scale: of the length's Gamma law, in the unit of what is perturbed.
      strength: regularisation of the loss that is minimised.
    """

    shape: float
    scale: float
    strength: float


def output_noise(epsilon: float, count: int, regularisation: float, dimension: int) -> ClaimedNoise:
    """Return the noise of Algorithm 1: scale 2 / (n lambda epsilon), the sensitivity over epsilon.

    Args:
      epsilon: nats.
      count: n.
      regularisation: lambda.
      dimension: Gamma shape of the length: d, or 1 as printed.
    """
    return ClaimedNoise(dimension, 2 / (count * regularisation * epsilon), regularisation)


def printed_objective_noise(epsilon: float, regularisation: float) -> ClaimedNoise:
    """Return the tilt of Algorithm 2 as printed: an exponential length of scale 2/epsilon."""
    return ClaimedNoise(1, 2 / epsilon, regularisation)


def rank_one_noise(
    epsilon: float, count: int, regularisation: float, dimension: int
) -> ClaimedNoise:
    """Return the tilt where one factor 1 + 1/(4 n strength) is paid for, by epsilon/2 at most."""
    least = _CURVATURE / (count * expm1(epsilon / 2))
    strength = max(regularisation, least)
    left = epsilon - log1p(_CURVATURE / (count * strength))
    return ClaimedNoise(dimension, 2 / left, strength)


def jmlr_noise(epsilon: float, count: int, regularisation: float, dimension: int) -> ClaimedNoise:
    """Return the tilt of Chaudhuri, Monteleoni, Sarwate (JMLR 2011), Algorithm 2."""
    left = epsilon - 2 * log1p(_CURVATURE / (count * regularisation))
    if left > 0:
        return ClaimedNoise(dimension, 2 / left, regularisation)
    strength = _CURVATURE / (count * expm1(epsilon / 4))
    return ClaimedNoise(dimension, 4 / epsilon, strength)


def joint_noise(epsilon: float, count: int, regularisation: float, dimension: int) -> ClaimedNoise:
    """Return the tilt of scale 2/epsilon, beside a regularisation of 2/(n epsilon) or more."""
    return ClaimedNoise(dimension, 2 / epsilon, max(regularisation, 2 / (count * epsilon)))


def output_length(released: NDArray[np.float64], examples: Examples, strength: float) -> float:
    """Return the distance of a release from the minimiser."""
    return float(np.linalg.norm(released - minimise(examples, strength)))


def tilt_length(released: NDArray[np.float64], examples: Examples, strength: float) -> float:
    """Return the length of the only tilt whose minimiser is the release."""
    missing = np.exp(-np.logaddexp(0.0, examples.signed @ released))
    tilt = examples.signed.T @ missing - examples.count * strength * released
    return float(np.linalg.norm(tilt))
