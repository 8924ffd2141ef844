"""A category with Zipf's law: cell v with probability proportional to 1 / (v + 1)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from askance.client.errors import InvalidParameter
from askance.client.queries import Category, Schema
from askance.simulation.populations.population import Population, columns_of, draws
from askance.simulation.seeds import Seed


def categories(size: int, seed: Seed, cells: int = 16) -> Population:
    """`size` users, each in one of `cells` cells, named "0" .. "cells-1", by Zipf's law.

    Args:
      cells: 2 .. 65536.
    """
    if not 2 <= cells <= 65_536:
        raise InvalidParameter(f"categories: expected 2 to 65536 cells, found {cells}")
    schema = Schema("categories", 1, category=Category(tuple(str(v) for v in range(cells))))
    ranks = zipf(seed / "people", cells)
    return Population(
        "categories", schema, size, lambda start, stop: columns_of({"category": ranks(start, stop)})
    )


def zipf(people: Seed, cells: int) -> Callable[[int, int], NDArray[np.int64]]:
    """The cells of users start .. stop-1 by random access: v in proportion to 1 / (v + 1)."""
    weights = [(1 << 64) // (v + 1) for v in range(cells)]
    total = sum(weights)
    edges = np.array(
        [int(Fraction(part, total) * (1 << 64)) for part in accumulate(weights[:-1])], np.uint64
    )

    def ranks(start: int, stop: int) -> NDArray[np.int64]:
        drawn = draws(people, start, stop, 1)[:, 0]
        return np.searchsorted(edges, drawn, side="right").astype(np.int64)

    return ranks
