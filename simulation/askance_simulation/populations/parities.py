"""PARITY's world: uniform bits labelled by the parity of some of them (KLNRS08 section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_aggregator.learners import labelled_bits_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter, InvalidRecord
from askance_simulation.populations.columns import columns_of, draws, parity_of, words_of_bits
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.seeds import Seed

_MAX_BITS = 4096


@dataclass(frozen=True, slots=True)
class Parity:
    """The function c_r(x) = <r, x> mod 2.

    Args:
      r: d values {0, 1}.
    """

    r: tuple[int, ...]

    def __call__(self, x: ArrayLike) -> NDArray[np.int64]:
        """The labels of x of shape (n, d), values {0, 1}; shape (n,).

        Raises:
          InvalidRecord: another shape, or a value that is neither 0 nor 1.
        """
        table = np.asarray(x)
        if table.ndim != 2 or table.shape[1] != len(self.r) or not np.isin(table, (0, 1)).all():
            raise InvalidRecord(f"x: expected rows of {len(self.r)} zeros and ones, found others")
        return table.astype(np.int64) @ np.array(self.r, dtype=np.int64) % 2

    def to_json(self) -> dict[str, Any]:
        """{"r": "0110..."}; the leftmost bit is r_0."""
        return {"r": "".join(map(str, self.r))}


@catalogued("parities", "uniform bits labelled by a random parity")
def parities(size: int, seed: Seed, d: int = 8) -> Population:
    """Make `size` users with x uniform on d bits, y = <r, x> mod 2, r uniform by the seed.

    No local learner finds r with few users (section 5); a trusted curator's does. Labels that are
    wrong with some chance are `population.label_noise`.
    `d` is 1 .. 4096.
    """
    if not 1 <= d <= _MAX_BITS:
        raise InvalidParameter(f"parities: expected 1 to {_MAX_BITS} bits, found {d}")
    width = (d + 63) // 64
    secret = words_of_bits(draws(seed / "concept", 0, 1, width), d)
    mask = np.array([int(word[0]) for word in secret], np.int64)
    r = tuple(int(mask[j // 32]) >> (j % 32) & 1 for j in range(d))
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        x = words_of_bits(draws(people, start, stop, width), d)
        return columns_of({"x": x, "y": parity_of(x, mask)})

    return Population("parities", labelled_bits_schema(d), size, columns, target=Parity(r))
