"""Epsilons, deltas and other numbers as text or numbers, read exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np

from askance_aggregator.numbers import Rational, rational
from askance_client.accounting import NANO_NATS_PER_NAT, parse_epsilon
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text


def read_epsilon(value: Rational, name: str = "epsilon") -> Fraction:
    """An epsilon above 0, in nats, exactly; in whole nano-nats, rounded down.

    Raises:
      InvalidParameter: no number, or one that is not above 0 and at most 10^6.
    """
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | Fraction):
        raise InvalidParameter(f"{name}: expected a number of nats, got {value_text(value)}")
    exact = Decimal(repr(float(value))) if isinstance(value, float) else value
    nano = parse_epsilon(exact, name)
    return Fraction(nano, NANO_NATS_PER_NAT)


def read_probability(value: Rational, name: str) -> Fraction:
    """A probability strictly between 0 and 1, exactly (a delta, a beta).

    Raises:
      InvalidParameter: it is not.
    """
    found = read_number(value, name)
    if not 0 < found < 1:
        raise InvalidParameter(
            f"{name}: expected a number between 0 and 1, got {value_text(value)}"
        )
    return found


def read_number(value: Rational, name: str) -> Fraction:
    """A finite number, exactly.

    Raises:
      InvalidParameter: it is not one.
    """
    return rational(_plain(value), name)


def _plain(value: Rational) -> Rational:
    """A number of numpy's (of an `arange`, say) as Python's; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value
