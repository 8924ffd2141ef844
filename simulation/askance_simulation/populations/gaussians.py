"""A mixture of Gaussians: what a clustering by likelihood should find."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners import clusters_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.clusters import apart
from askance_simulation.populations.columns import columns_of, draws
from askance_simulation.populations.normal import REACH, STEPS, standard_steps
from askance_simulation.populations.population import Population
from askance_simulation.populations.registry import catalogued
from askance_simulation.randomness.seeds import Seed

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

    Args:
      size: number of users.
      seed: root of all randomness.
      clumps: how many, 1 .. 16.
      d: how many numbers, 1 .. 16.
      spread: the standard deviation in 512ths, 1 .. 32.
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
