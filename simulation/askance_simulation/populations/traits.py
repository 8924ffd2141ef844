"""Users of two groups, with traits of every kind that a schema knows, depending on the group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import traits_schema
from askance_aggregator.queries import EncodedColumns
from askance_simulation.populations.columns import columns_of, draws
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness import Seed

_YES = 0.3  # the share of the second group
_MEMBER = (0.2, 0.7)  # the share of members in each group
_ANSWERS = ((0.5, 0.1, 0.6), (0.5, 0.4, 0.9))  # the share of "1" for each answer
_COLOUR = ((0.6, 0.9), (0.2, 0.5))  # where red ends, and where green ends


@catalogued("traits", "two groups with traits of every kind")
def traits(size: int, seed: Seed) -> Population:
    """Make `size` users; within a group, drawn 7 to 3, all traits are independent.

    Ages are uniform on 0 .. 79 or 20 .. 99, heights a bell around 1/2 or somewhat more; one of
    three answers says nothing. So Bayes' rule is the best that can be done, and it errs.
    """
    people = seed / "people"

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, 10) >> np.uint64(11)
        u = words.astype(np.float64) / (1 << 53)
        y = (u[:, 0] < _YES).astype(np.int64)
        bell = (u[:, 1] + u[:, 2] + u[:, 3]) / 3
        height = np.floor((0.75 * bell + 0.25 * y) * (1 << 16)).astype(np.int64)
        answers = [_truth(u[:, 4 + j], y, tuple(row[j] for row in _ANSWERS)) for j in range(3)]
        ends = np.array(_COLOUR)[y]
        return columns_of(
            {
                "age": np.floor(80 * u[:, 7]).astype(np.int64) + 20 * y,
                "height": height,
                "colour": (u[:, 8, np.newaxis] >= ends).sum(axis=1).astype(np.int64),
                "member": _truth(u[:, 9], y, _MEMBER),
                "answers": (answers[0] | answers[1] << 1 | answers[2] << 2,),
                "y": y,
            }
        )

    return Population(
        "traits",
        traits_schema(),
        size,
        columns,
        unseen=lambda rows: columns(size, size + rows),
    )


def _truth(
    uniform: NDArray[np.float64], y: NDArray[np.int64], shares: tuple[float, ...]
) -> NDArray[np.int64]:
    return (uniform < np.array(shares)[y]).astype(np.int64)
