"""Levels of disjoint signed values: level 2j is + at value j, 2j + 1 is - at it, 2d is neutral."""

from __future__ import annotations

from askance_client.errors import InvalidParameter
from askance_client.randomizers.randomizer import check_integer

MAX_VALUES = 32767  # d values take 2 d + 1 cells: 2 bytes


def signed_levels(values: int) -> int:
    """Return the number of levels of `values` signed values: two per value, and the neutral one."""
    return 2 * values + 1


def check_values(values: int) -> None:
    """Check a number of signed values.

    Raises:
        InvalidParameter: it is outside 1..32767.
    """
    check_integer("values", values)
    if not 1 <= values <= MAX_VALUES:
        raise InvalidParameter(f"there are 1..{MAX_VALUES} signed values, found {values}")
