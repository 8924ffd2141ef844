"""A mixture of Gaussians: what a clustering by likelihood should find."""

from __future__ import annotations

from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import clusters_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.clusters import apart
from askance_simulation.populations.columns import columns_of, draws
from askance_simulation.populations.guided import GuidedEdges
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.seeds import Seed

STEPS = 128
"""Table steps per standard deviation."""
REACH = 8
"""Standard deviations to either side; beyond is less than 2^-49 of the probability."""

_FIXED_BITS = 192  # of the fixed point: what cancels in the series below stays under 2^50


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
    power = (numerator << _FIXED_BITS) // denominator  # x^(2n+1) / (2^n n!)
    total, n = 0, 0
    while power:
        total += (-power if n % 2 else power) // (2 * n + 1)
        n += 1
        power = power * numerator**2 // (2 * n * denominator**2)
    root = isqrt(2 * _pi() << _FIXED_BITS)
    return (total << 64) // root


@cache
def _pi() -> int:
    """Compute pi in units of 2^-192, by Machin's formula 16 atan(1/5) - 4 atan(1/239)."""
    return 16 * _arctangent(5) - 4 * _arctangent(239)


def _arctangent(inverse: int) -> int:
    total, n = 0, 0
    power = (1 << _FIXED_BITS) // inverse
    while power:
        total += (-power if n % 2 else power) // (2 * n + 1)
        n += 1
        power //= inverse**2
    return total


_BITS = 16
_UNIT = (1 << _BITS) // 512 // STEPS  # of the grid, to a step where the deviation is 1/512


@catalogued(
    "gaussian-mixture", "numbers, Gaussian about centres that lie apart; their deviation in 512ths"
)
def gaussian_mixture(
    size: int, seed: Seed, clumps: int = 3, d: int = 2, spread: int = 20
) -> Population:
    """Make `size` users, each with d numbers that are Gaussian about one of `clumps` centres.

    The centres, equally likely, come from the seed and lie well apart; all numbers have the same
    standard deviation s = spread/512, in integers (`normal.standard_steps`): rounded to s/128 and
    nowhere clipped by the bounds -1 and 1.
    `clumps` and `d` are 1 .. 16; `spread`, the standard deviation in 512ths, is 1 .. 32.
    """
    if not 1 <= clumps <= 16:
        raise InvalidParameter(f"gaussian-mixture: expected 1 to 16 clumps, found {clumps}")
    if not 1 <= spread <= 32:
        raise InvalidParameter(f"gaussian-mixture: expected a spread of 1 to 32, found {spread}")
    schema = clusters_schema(d)
    room = 1 - REACH * spread / 512
    centres = np.rint(np.ldexp(apart(seed / "concept", clumps, d, room), _BITS)).astype(np.int64)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = np.ascontiguousarray(draws(people, start, stop, d + 1).T)
        place = (words[-1] >> np.uint64(32)) * np.uint64(clumps) >> np.uint64(32)
        return columns_of(
            {
                f"x{j}": centres[place, j] + spread * _UNIT * standard_steps(words[j])
                for j in range(d)
            }
        )

    return Population(
        "gaussian-mixture", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )
