"""Prefactor of the exponential in the tail of a sum: the normal law's factor, with its error."""

from __future__ import annotations

from math import pi, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

BERRY_ESSEEN = 0.4748
"""sup |F - Phi| <= 0.4748 E|X|^3 / (sd^3 sqrt(n)) for n equal terms (Shevtsova 2011)."""

BERRY_ESSEEN_UNLIKE = 0.56
"""The same for terms that differ, of their summed moments (Shevtsova 2010)."""

T = TypeVar("T", float, NDArray[np.float64])


def relative_landing(tilt: float | T, deviation: T, reach: T, constant: float = BERRY_ESSEEN) -> T:
    """A: P[S >= a] <= exp(ln E[e^(t S)] - t a) min(1, A / sqrt(n)) for any a, S a sum of n terms.

    Args:
        tilt: t > 0, or an array of them that broadcasts with `deviation`.
        deviation: at most the standard deviation of a term under the tilted law; > 0.
        reach: at least |W - E[W]| of any term, so at least E|X|^3 / sd^2.
        constant: `BERRY_ESSEEN_UNLIKE` where terms have different laws.
    """
    # Under the law tilted by t, E[e^(-t (S - a)); S >= a] is the integral of t e^(-t y)
    # P[0 <= S - a <= y] over y, and by Berry and Esseen no interval of length y holds more than
    # y / (sd sqrt(2 pi n)) + 2 (0.4748 E|X|^3 / sd^3) / sqrt(n). The first part is the normal law's
    # factor.
    return (1 / (tilt * sqrt(2 * pi)) + 2 * constant * reach) / deviation
