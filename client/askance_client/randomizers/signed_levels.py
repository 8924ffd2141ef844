"""Levels of disjoint signed values: level 2j is + at value j, 2j + 1 is - at it, 2d is neutral."""

from __future__ import annotations

MAX_VALUES = 32767  # d values take 2 d + 1 cells: 2 bytes


def signed_levels(values: int) -> int:
    """Return the number of levels of `values` signed values: two per value, and the neutral one."""
    return 2 * values + 1
