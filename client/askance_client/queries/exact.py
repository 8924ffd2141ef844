"""Numbers as exact ratios of integers, and their rounding to a grid of 2^-frac.

Everything that may be written as a number (an integer, a decimal text, a float, a Fraction)
is first an exact ratio; there is one rounding, and it is stated: half to even.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Integral, Real

Exact = int | str | Decimal | Fraction | float
"""What is accepted as a number."""

_MAX_TEXT = 128
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_FRACTION = re.compile(r"([+-]?\d+)/(\d+)", re.ASCII)
# Outside 10^-100 .. 10^100 a decimal is replaced by that end: on every grid allowed here the
# result is the same, and "1e999999999" cannot make a device build a gigabyte of digits.
_DECADES = 100


def exact_ratio(value: object) -> tuple[int, int] | None:
    """The value as (numerator, denominator > 0), exactly; None where it is not a finite number."""
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, Decimal):
        return _decimal_ratio(value)
    if is_integral(value):
        return int(value), 1  # type: ignore[call-overload]  # a type of integers
    if isinstance(value, Real):
        try:
            numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]  # float, Fraction and numpy's floats all have it
        except (AttributeError, ValueError, OverflowError):  # a type without it; NaN; infinity
            return None
        return int(numerator), int(denominator)
    return None


def is_integral(value: object) -> bool:
    """Return whether the value is of an integer type (it stays on the grid of integers)."""
    # numpy registers its durations as integers, and not its truth values.
    return is_truth(value) or (isinstance(value, Integral) and _numpy(value) != "timedelta64")


def is_truth(value: object) -> bool:
    """Return whether the value is a truth value, of Python or of numpy."""
    return isinstance(value, bool) or _numpy(value) in ("bool", "bool_")


def _numpy(value: object) -> str:
    """The name of a type of numpy, which a device need not have; of another type no text."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "numpy" else ""


def to_grid(ratio: tuple[int, int], frac: int) -> int:
    """The mantissa over 2^frac nearest to the ratio; half to even."""
    numerator, denominator = ratio
    quotient, remainder = divmod(numerator << frac, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient & 1):
        return quotient + 1
    return quotient


def floor_to_grid(ratio: tuple[int, int], frac: int) -> int:
    """The largest mantissa over 2^frac that is not above the ratio."""
    return (ratio[0] << frac) // ratio[1]


def ceil_to_grid(ratio: tuple[int, int], frac: int) -> int:
    """The smallest mantissa over 2^frac that is not below the ratio."""
    return -((-ratio[0] << frac) // ratio[1])


def _parsed(text: str) -> tuple[int, int] | None:
    text = text.strip()
    if len(text) > _MAX_TEXT:
        return None
    if _NUMBER.fullmatch(text):
        try:
            return _decimal_ratio(Decimal(text))
        except InvalidOperation:  # an exponent of twenty digits
            return None
    match = _FRACTION.fullmatch(text)
    if match is None or int(match[2]) == 0:
        return None
    return Fraction(int(match[1]), int(match[2])).as_integer_ratio()


def _decimal_ratio(value: Decimal) -> tuple[int, int] | None:
    if not value.is_finite():
        return None
    if value.is_zero():
        return 0, 1
    sign = -1 if value.is_signed() else 1
    if value.adjusted() > _DECADES:
        return sign * 10**_DECADES, 1
    if value.adjusted() < -_DECADES:
        return sign, 10**_DECADES
    return value.as_integer_ratio()
