"""Points on the two sides of a hyperplane, none too near to it."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners import halfspaces_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.columns import columns_of, draws, weighted
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed

_BITS = 16
_SLACK = 1e-3  # for the grid


@catalogued("halfspaces", "numbers on two sides of a plane, with a margin (hundredths)")
def halfspaces(size: int, seed: Seed, d: int = 3, gap: int = 10) -> Population:
    """Make `size` users with x in [-1, 1]^d and y = "yes" on one side of a plane from the seed.

    Points that lie too near to the plane are moved away from it, so that for a unit vector w, the
    plane's, sign(y) w.(1, x) >= gap/100 sqrt(1 + d) for all users.
    `d` is 1 .. 32; `gap` is in hundredths of the greatest length of (1, x), 0 .. 20.
    """
    if not 0 <= gap <= 20:
        raise InvalidParameter(f"halfspaces: expected a gap of 0 to 20 hundredths, found {gap}")
    schema = halfspaces_schema(d)
    words = keystream((seed / "concept").key[:16], 0, d + 1) >> np.uint64(11)
    plane = words.astype(np.float64) / (1 << 52) - 1
    plane[0] *= 0.25
    plane /= np.linalg.norm(plane)
    normal, offset = plane[1:], plane[0]
    least = gap / 100 * np.sqrt(1 + d) + _SLACK
    length = float(normal @ normal)
    inner = 1 - least / length * float(np.abs(normal).max())  # a moved point stays in the box
    if inner <= 0.1:
        raise InvalidParameter(
            f"halfspaces: expected a gap that leaves space for users, got gap {gap} with d {d}"
        )
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        drawn = draws(people, start, stop, d) >> np.uint64(11)
        x = (drawn.astype(np.float64) / (1 << 52) - 1) * inner
        height = weighted(x, normal) + offset
        side = np.where(height > 0, 1.0, -1.0)
        short = np.clip(least - side * height, 0, None)
        x += (side * short / length)[:, None] * normal[None, :]
        grid = np.rint(np.ldexp(x, _BITS)).astype(np.int64)
        labels = (side > 0).astype(np.int64)
        return columns_of({**{f"x{j}": grid[:, j] for j in range(d)}, "y": labels})

    return Population(
        "halfspaces", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )
