"""Numbers that callers give, checked and exact.

NumPy's scalars are Python's numbers from here on: `plain` converts one, and `plain_arguments` those
of a call. It decorates the public functions that take numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from askance_client.accounting import NANO_NATS_PER_NAT, parse_epsilon, parse_number
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

Rational = int | str | Decimal | Fraction | float
"""What is accepted as a number; a float stands for the decimal that Python prints for it."""

P = ParamSpec("P")
T = TypeVar("T")

_MAX_DECADES = 100  # "1e999999999" is refused before a gigabyte of digits is built


def rational(value: Rational, what: str) -> Fraction:
    """The number, exactly: .05 (a float) is 1/20, because that is what was meant.

    Raises:
        InvalidParameter: it is not a finite number.
    """
    value = plain(value)
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, int | Fraction):
            return Fraction(value)
        if isinstance(value, float | Decimal):
            return _decimal(Decimal(repr(value)) if isinstance(value, float) else value)
        return _parsed(value)
    except (ValueError, ArithmeticError):
        raise InvalidParameter(f"{what} expects a finite number, got {value_text(value)}") from None


def positive(value: Rational, what: str, most: Fraction | int | None = None) -> Fraction:
    """The number, exactly, if it is above 0 and at most `most` (None: any)."""
    number = rational(value, what)
    if number <= 0 or (most is not None and number > most):
        wanted = "positive number" if most is None else f"number in (0, {most}]"
        raise InvalidParameter(f"{what} expects a {wanted}, got {value_text(value)}")
    return number


def read_epsilon(value: Rational, name: str = "epsilon") -> Fraction:
    """An epsilon above 0, in nats, exactly; in whole nano-nats, rounded down.

    Raises:
        InvalidParameter: no number, or one that is not above 0 and at most 10^6.
    """
    return Fraction(read_nano_nats(value, name), NANO_NATS_PER_NAT)


def read_nano_nats(value: Rational, name: str = "epsilon") -> int:
    """Return `read_epsilon` in nano-nats."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | Fraction):
        raise InvalidParameter(f"{name}: expected a number of nats, got {value_text(value)}")
    return parse_epsilon(Decimal(repr(value)) if isinstance(value, float) else value, name)


def read_probability(value: Rational, name: str) -> Fraction:
    """A probability strictly between 0 and 1, exactly (a delta, a beta)."""
    found = rational(value, name)
    if not 0 < found < 1:
        raise InvalidParameter(
            f"{name}: expected a number between 0 and 1, got {value_text(value)}"
        )
    return found


def plain(value: Any) -> Any:
    """Return a scalar of NumPy's as Python's, and anything else as it is.

    A float of any width is the float that has its shortest decimal, so that np.float32(.1) is .1;
    one of more digits than a float has is a Decimal. In a list, a tuple or an array of one
    dimension, which becomes a list, each value is converted.
    """
    if isinstance(value, np.longdouble):
        return Decimal(str(value))
    if isinstance(value, np.floating):
        return float(str(value))
    if isinstance(value, np.number | np.bool_ | np.str_) and not isinstance(value, np.timedelta64):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if isinstance(value, np.ndarray) and value.ndim < 2:
        return plain(list(value) if value.ndim else value[()])
    return value


def plain_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function, so that it gets each argument as `plain` has it."""
    call: Callable[..., T] = function

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        return call(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return called


def _parsed(text: object) -> Fraction:
    if not isinstance(text, str):
        raise ValueError
    number = parse_number(text)
    return number if isinstance(number, Fraction) else _decimal(number)


def _decimal(value: Decimal) -> Fraction:
    if not value.is_finite() or (value and abs(value.adjusted()) > _MAX_DECADES):
        raise ValueError
    return Fraction(value)


def whole_count(value: int | None, name: str) -> int | None:
    """Check that a number is None or `at_least_one`, and return it; the error names it."""
    return None if value is None else named_count(value, name)


def whole_within(value: object, low: int, high: int, name: str, why: str = "") -> int:
    """Check that a number is whole and from `low` to `high`, and return it; the error names it.

    `why` says in the error where the bounds come from: ", as there are 3 columns".
    """
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise InvalidParameter(
            f"{name}: expected a whole number in {low}..{high}{why}, got {value_text(number)}"
        )
    return number


def named_count(value: object, name: str) -> int:
    """Check that a number is `at_least_one`, and return it; the error names it."""
    try:
        return at_least_one(value)
    except InvalidParameter as error:
        raise InvalidParameter(f"{name}: {error}") from None


def at_least_one(value: object) -> int:
    """Check that a value is a whole number of 1 or more, and return it."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidParameter(f"expected a whole number of 1 or more, got {value_text(value)}")
    return value
