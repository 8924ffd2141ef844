"""Columns of reports that are sets: which are in the alphabet, and how often each item is in one.

A family whose reports are sets (`SetRandomizer`) has bitmaps, or sorted indices where these are
shorter. Indices are counted as they are: a report of 5 of 40,000 cells is 5 numbers, not 40,000
bits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.family import Counts, Reports
from askance_client.errors import InvalidParameter
from askance_client.randomizers.floyd import ABSENT, PRESENT
from askance_client.randomizers.sets import SetRandomizer

_TALLY_ROWS = 1 << 14  # reports unpacked at a time: bounds memory, changes no count


def set_report(randomizer: SetRandomizer, items: Iterable[int]) -> bytes:
    """Encode `size` different items, in any order, as their one report."""
    members = bytearray([ABSENT]) * randomizer.items
    for item in items:
        members[item] = PRESENT
    return randomizer.encode(members)


def count_items(
    randomizer: SetRandomizer, reports: Reports, signs: int = 1
) -> tuple[Counts, NDArray[np.bool_]]:
    """Count the items of the reports that are in the alphabet.

    Of `signs` consecutive items a set has at most one: 1, or 2 for (j, +) and (j, -).

    Returns:
        The counts, shape (items,), and which reports are in the alphabet, shape (n,).
    """
    counts = np.zeros(randomizer.items, dtype=np.int64)
    valid = np.zeros(len(reports), dtype=np.bool_)
    count = _count_indices if randomizer.index_bytes else _count_bitmaps
    for start in range(0, len(reports), _TALLY_ROWS):
        rows = slice(start, start + _TALLY_ROWS)
        more, valid[rows] = count(randomizer, reports[rows], signs)
        counts += more
    return counts, valid


def tally_sets(randomizer: SetRandomizer, reports: Reports, what: str, signs: int = 1) -> Counts:
    """Count the items of reports that must all be in the alphabet.

    The error describes the alphabet by `what`: "3 of 11 cells".
    """
    counts, valid = count_items(randomizer, reports, signs)
    if not valid.all():
        raise InvalidParameter(
            f"reports are sets of {what}, found {np.count_nonzero(~valid)} others,"
            f" the first in row {np.argmin(valid)}"
        )
    return counts


def _count_bitmaps(
    randomizer: SetRandomizer, reports: Reports, signs: int
) -> tuple[Counts, NDArray[np.bool_]]:
    items = randomizer.items
    bits = np.unpackbits(reports, axis=1)
    valid: NDArray[np.bool_] = bits.sum(axis=1, dtype=np.int64) == randomizer.size
    valid &= ~bits[:, items:].any(axis=1)
    if signs == 2:
        valid &= ~(bits[:, 0:items:2] & bits[:, 1:items:2]).any(axis=1)
    rows = bits if valid.all() else bits[valid]
    return rows[:, :items].sum(axis=0, dtype=np.int64), valid


def _count_indices(
    randomizer: SetRandomizer, reports: Reports, signs: int
) -> tuple[Counts, NDArray[np.bool_]]:
    octets = reports.reshape(len(reports), randomizer.size, randomizer.index_bytes)
    indices = octets[:, :, 0].astype(np.int64)
    for byte in range(1, randomizer.index_bytes):
        indices = (indices << 8) | octets[:, :, byte]
    valid: NDArray[np.bool_] = indices[:, -1] < randomizer.items
    valid &= (np.diff(indices // signs, axis=1) > 0).all(axis=1)
    return np.bincount(indices[valid].ravel(), minlength=randomizer.items), valid
