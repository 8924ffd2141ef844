"""A Gaussian as a table of integers: drawn by a search, the same on every machine."""

from __future__ import annotations

from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from askance_simulation.populations.guided import GuidedEdges

STEPS = 128
"""Table steps per standard deviation."""
REACH = 8
"""Standard deviations to either side; beyond is less than 2^-49 of the probability."""

_BITS = 192  # of the fixed point: what cancels in the series below stays under 2^50


def standard_steps(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Draw Gaussians in steps of 1/128 standard deviation, one per uniform word.

    k is drawn with probability Phi((k + 1/2)/128) - Phi((k - 1/2)/128), a Gaussian rounded to the
    nearest step, each bound exact to 2^-64; what lies beyond 8 standard deviations is put there.
    """
    return _guided().places(words.ravel()).reshape(words.shape).astype(np.int64) - REACH * STEPS


@cache
def _guided() -> GuidedEdges:
    return GuidedEdges(_edges())


@cache
def _edges() -> NDArray[np.uint64]:
    """Compute Phi((k + 1/2)/128) in units of 2^-64, for k = -1024 .. 1023."""
    one = 1 << 64
    upper = [_centre_to(2 * k + 1, 2 * STEPS) for k in range(REACH * STEPS)]
    above = [min(one // 2 + part, one - 1) for part in upper]
    below = [one // 2 - part for part in reversed(upper)]
    return np.array([*below, *above], np.uint64)


def _centre_to(numerator: int, denominator: int) -> int:
    """Return the Gaussian's probability between 0 and a quotient, in units of 2^-64.

    The Taylor series of Phi - 1/2, sum of (-1)^n x^(2n+1) / (2^n n! (2n+1)) over sqrt(2 pi).
    """
    power = (numerator << _BITS) // denominator  # x^(2n+1) / (2^n n!)
    total, n = 0, 0
    while power:
        total += (-power if n % 2 else power) // (2 * n + 1)
        n += 1
        power = power * numerator**2 // (2 * n * denominator**2)
    root = isqrt(2 * _pi() << _BITS)
    return (total << 64) // root


@cache
def _pi() -> int:
    """Compute pi in units of 2^-192, by Machin's formula 16 atan(1/5) - 4 atan(1/239)."""
    return 16 * _arctangent(5) - 4 * _arctangent(239)


def _arctangent(inverse: int) -> int:
    total, n = 0, 0
    power = (1 << _BITS) // inverse
    while power:
        total += (-power if n % 2 else power) // (2 * n + 1)
        n += 1
        power //= inverse**2
    return total
