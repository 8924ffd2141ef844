"""The discrete Gaussian distribution, exactly.

Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy" (2020), Algorithm
3: a discrete Laplace draw, kept with the probability that makes it Gaussian.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling.discrete_laplace import discrete_laplace
from askance_aggregator.sampling.exponentials import happens_exp_minus
from askance_aggregator.sampling.words import Words
from askance_client.errors import InvalidParameter

MAX_VARIANCE = 1 << 80


def discrete_gaussian(words: Words, variance: Fraction, count: int) -> NDArray[np.int64]:
    """`count` independent integers, P(k) proportional to e^(-k^2 / (2 variance)), shape (count,).

    Privacy: of an integer-valued statistic of L2 sensitivity D it is D^2 / (2 variance)-zCDP
    (Canonne, Kamath, Steinke, Theorem 4).

    Raises:
      InvalidParameter: a variance that is not above 0, or above 2^80.
    """
    if not 0 < variance <= MAX_VARIANCE:
        raise InvalidParameter(
            f"variance: expected above 0 and at most 2^80, found {float(variance):g}"
        )
    scale = isqrt(variance.numerator // variance.denominator) + 1
    centre = variance / scale
    found = np.zeros(count, dtype=np.int64)
    left = np.arange(count)
    while left.size:
        drawn = discrete_laplace(words, Fraction(scale), left.size)
        kept = _kept(words, drawn, centre, variance)
        found[left[kept]] = drawn[kept]
        left = left[~kept]
    return found


def _kept(
    words: Words, drawn: NDArray[np.int64], centre: Fraction, variance: Fraction
) -> NDArray[np.bool_]:
    """With probability e^(-(|k| - variance/scale)^2 / (2 variance))."""
    guesses = (np.abs(drawn) - float(centre)) ** 2 / (2 * float(variance))

    def exponent(place: int) -> Fraction:
        return (abs(int(drawn[place])) - centre) ** 2 / (2 * variance)

    return happens_exp_minus(words, guesses, exponent)
