"""Law of the greatest inner products of a unit vector with the codes of even rotations.

The inner products with one basis are, in size, the coordinates of an even point of the sphere of
its order m. Let N(t) be how many of all sizes exceed t: the mean sum of the k greatest is the
integral of E[min(N(t), k)], that of their squares the integral of 2 t E[min(N(t), k)].

A Gaussian vector's direction and length are independent. So of one basis the sums are those of m
Gaussian sizes, whose N(t) is binomial, over the mean length, and over m.

Of several bases N(t) is a sum, and P[N(t) = j] of each is a share of the sphere. With A(z) and B(z)
the Laplace transforms of s^(-1/2) below and above t^2, it is C(m, j) times the inverse transform at
1 of A^(m-j) B^j, over that of (A + B)^m; A = sqrt(pi / z) erf(t sqrt(z)) and B = sqrt(pi / z)
erfc(t sqrt(z)). The inverse is an integral on the line Re z = m / 2, by the trapezoid rule after
w = sqrt(m/2) sinh(v).
"""

from __future__ import annotations

from functools import lru_cache
from math import asinh, exp, lgamma, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

_HEIGHTS = 256  # values of t
_WIDEST = 8.0  # t past which no coordinate is, in standard deviations
_SMALL = 1e-13  # of the integrand, where the line ends
_TINY = 1e-300  # so that a logarithm is finite


@lru_cache(maxsize=64)
def greatest_sums(order: int, bases: int) -> tuple[Reals, Reals]:
    """Compute the mean sums of the k greatest inner products, and of their squares, by k.

    Args:
        order: m, 8 or more.
        bases: 1 or more.

    Returns:
        Two arrays of shape (order x bases + 1,), k = 0 first; off by less than 10^-6 of themselves.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_HEIGHTS)
    if bases == 1:
        heights, weights = (nodes + 1) * _WIDEST / 2, weights * _WIDEST / 2
        length = sqrt(2) * exp(lgamma((order + 1) / 2) - lgamma(order / 2))
        sums, squares = _integrals(_gaussian(order, heights), heights, weights)
        return sums / length, squares / order
    reach = min(1.0, _WIDEST / sqrt(order))
    heights, weights = (nodes + 1) * reach / 2, weights * reach / 2
    size = order * bases
    spectrum = np.fft.rfft(_spherical(order, reach), size + 1, axis=1)
    return _integrals(np.fft.irfft(spectrum**bases, size + 1, axis=1), heights, weights)


def _integrals(counts: Reals, heights: Reals, weights: Reals) -> tuple[Reals, Reals]:
    """Integrate E[min(N(t), k)] and 2 t E[min(N(t), k)], given P[N(t) = j]."""
    above = 1 - np.cumsum(counts, axis=1)[:, :-1]  # P[N > j], whose sums below k are E[min(N, k)]
    parts = (weights @ above, (2 * weights * heights) @ above)
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in parts)
    return sums, squares


def _gaussian(order: int, heights: Reals) -> Reals:
    """Compute P[N(t) = j] of Gaussian sizes, shape (heights, order + 1)."""
    from askance_aggregator.special_functions import erf, erfc

    j = np.arange(order + 1)
    binomials = np.array([_log_binomial(order, each) for each in range(order + 1)])
    below, above = (np.log(part(heights[:, np.newaxis] / sqrt(2))) for part in (erf, erfc))
    return np.asarray(np.exp(binomials + (order - j) * below + j * above))


def _log_binomial(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


@lru_cache(maxsize=16)
def _spherical(order: int, reach: float) -> Reals:
    """Compute P[N(t) = j] of one basis, shape (heights, order + 1), on nodes of (0, reach)."""
    from askance_aggregator.special_functions import erf, erfc

    heights = (np.polynomial.legendre.leggauss(_HEIGHTS)[0] + 1) * reach / 2
    line, weights = _line(order)
    roots = heights[:, np.newaxis] * np.sqrt(line)
    below, over = erf(roots), erfc(roots)
    found = np.empty((len(heights), order + 1))
    logs_below, logs_over = np.log(below), np.log(over + _TINY)
    for j in range(order + 1):
        terms = np.exp(_log_binomial(order, j) + (order - j) * logs_below + j * logs_over)
        found[:, j] = (terms @ weights).real
    return np.clip(found, 0.0, 1.0)


def _line(order: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return points on the line, and their weights: of the whole they sum to 1."""
    half = order / 2
    top = half * sqrt(_SMALL ** (-2 / half) - 1)
    points = 64 + 4096 // order
    steps = np.linspace(0, asinh(top / sqrt(half)), points)
    line = half + 1j * sqrt(half) * np.sinh(steps)
    logs = line - half * np.log(line) + lgamma(half) - log(pi)
    weights = np.exp(logs) * np.cosh(steps) * sqrt(half) * (steps[1] - steps[0])
    weights[0] /= 2
    return line, weights
