"""Digits of cells to a prime base."""

from __future__ import annotations

from math import prod


def power(base: int, exponent: int) -> int:
    """A whole power of a whole number."""
    return prod([base] * exponent)


def digits_of(cells: int, modulus: int) -> int:
    """Return t, the least number of digits to base q that distinguish this many cells."""
    digits = 1
    while power(modulus, digits) < cells:
        digits += 1
    return digits
