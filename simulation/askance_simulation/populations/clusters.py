"""Points in clumps: what a clustering should find."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners import clusters_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.columns import columns_of, draws
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed

_BITS = 16
_TRIES = 32
_WIDTH = 0.2  # a clump's: its bell ends there, with a standard deviation of a third of that


@catalogued("clusters", "numbers in clumps that lie apart")
def clusters(size: int, seed: Seed, clumps: int = 3, d: int = 2) -> Population:
    """Make `size` users, each near one of `clumps` equally likely centres that lie well apart.

    The centres come from the seed: each is the one of 32 that is farthest from those before it.
    A number is its centre's plus the mean of three uniform ones on [-1/5, 1/5].
    `clumps` and `d`, how many numbers there are, are 1 .. 16.
    """
    if not 1 <= clumps <= 16:
        raise InvalidParameter(f"clusters: expected 1 to 16 clumps, found {clumps}")
    schema = clusters_schema(d)
    centres = apart(seed / "concept", clumps, d, 1 - _WIDTH)
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, 3 * d + 1) >> np.uint64(11)
        uniform = words.astype(np.float64) / (1 << 53)
        place = np.floor(uniform[:, -1] * clumps).astype(np.int64)
        bell = (2 * uniform[:, :-1] - 1).reshape(-1, d, 3).mean(axis=2)
        x = np.rint(np.ldexp(centres[place] + _WIDTH * bell, _BITS)).astype(np.int64)
        return columns_of({f"x{j}": x[:, j] for j in range(d)})

    return Population(
        "clusters", schema, size, columns, unseen=lambda rows: columns(size, size + rows)
    )


def apart(
    seed: Seed, k: int, d: int, room: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Draw k points in [-room, room]^d, each the farthest of 32 from the earlier ones."""
    words = keystream(seed.key[:16], 0, k * _TRIES * d) >> np.uint64(11)
    tries = (words.astype(np.float64) / (1 << 52) - 1).reshape(k, _TRIES, d) * room
    chosen = [tries[0, 0]]
    for candidates in tries[1:]:
        gaps = np.linalg.norm(candidates[:, None, :] - np.array(chosen)[None], axis=2).min(axis=1)
        chosen.append(candidates[gaps.argmax()])
    return np.array(chosen)
