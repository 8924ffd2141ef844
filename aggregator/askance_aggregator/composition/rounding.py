"""Floats that are never below what they stand for."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log, log1p, nextafter

_OUTWARD = 1 + 2.0**-40  # the bounds here take some tens of operations, each to 2^-52


def upward(exact: Fraction) -> float:
    """The least float that is not below."""
    try:
        near = float(exact)
    except OverflowError:
        return inf
    return near if near >= exact else nextafter(near, inf)


def outward(computed: float) -> float:
    """A bound of 0 or more that was computed from floats rounded upward, raised by their errors."""
    return computed * _OUTWARD


def log_inverse(probability: Fraction) -> float:
    """ln(1 / p), at least."""
    near = -log1p(float(probability - 1)) if probability > Fraction(1, 2) else _log_of(probability)
    return outward(near)


def _log_of(probability: Fraction) -> float:
    """By integers: a delta may be below every float."""
    return log(probability.denominator) - log(probability.numerator)
