"""A table of floats as a table of integers of no greater loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.fitting import greatest
from askance_client.accounting import ratio_within
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, Channel


def integer_table(table: NDArray[np.float64], values: Sequence[float], nano: int) -> Channel:
    """Round table x 2^64 to integers with exact row sums 2^64 and exact column ratios.

    Args:
        table: shape (levels, symbols), >= 0; rows sum to about 1.
        values: decode values, one per symbol.
        nano: > 0, nano-nats.

    Raises:
        InvalidParameter: a row cannot be made whole within its floors and ceilings.
    """
    # A column's least entry is rounded down and is its floor, at least 1; its ceiling is the
    # greatest integer within e^eps of the floor. What a row then lacks of 2^64, or has too much,
    # goes to entries that have room, those of the least decode values first.
    floors = [max(1, int(least * COIN_SPACE)) for least in table.min(axis=0).tolist()]
    ceilings = [_ceiling(floor, nano) for floor in floors]
    ends = list(zip(floors, ceilings, strict=True))
    order = sorted(range(len(values)), key=lambda symbol: abs(values[symbol]))
    near = [
        [
            floor if share <= floor else ceiling if share >= ceiling else int(share)
            for share in shares
        ]
        for shares, (floor, ceiling) in zip((table.T * COIN_SPACE).tolist(), ends, strict=True)
    ]
    rows = zip(*near, strict=True)
    return Channel(tuple(_whole(level, list(row), ends, order) for level, row in enumerate(rows)))


def _ceiling(floor: int, nano: int) -> int:
    found = greatest(floor, COIN_SPACE, lambda entry: ratio_within(entry, floor, nano))
    return floor if found is None else found  # an entry is always within e^eps of itself


def _whole(
    level: int, row: list[int], ends: list[tuple[int, int]], order: list[int]
) -> tuple[int, ...]:
    lacking = COIN_SPACE - sum(row)
    for symbol in order:
        if not lacking:
            break
        floor, ceiling = ends[symbol]
        moved = min(max(row[symbol] + lacking, floor), ceiling)
        lacking -= moved - row[symbol]
        row[symbol] = moved
    if lacking:
        raise InvalidParameter(f"row {level} is no distribution that keeps the ratio in integers")
    return tuple(row)
