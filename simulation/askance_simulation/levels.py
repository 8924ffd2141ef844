"""Levels: the values on an axis of a sweep, parsed and formatted."""

from __future__ import annotations

from fractions import Fraction

Level = str | float | None
"""A value on an axis: a number wherever it can be read as one."""


def level(value: object) -> Level:
    """Parse a number, if the text is one; else return the text."""
    if value is None:
        return None
    try:
        exact = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        return str(value)
    return int(exact) if exact.denominator == 1 else float(exact)


def sort_key(value: Level) -> tuple[int, float, str]:
    """Return a sort key: None first, numbers by size, then text."""
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, value, "")


def level_text(value: Level) -> str:
    """Format a level for tables and plots: numbers with separators, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
