"""Charge of a likelihood ratio in nano-nats, by correctly rounded decimal logarithms."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import lru_cache
from math import ceil

NANO = 10**9


@lru_cache(maxsize=4096)
def charge(numerator: int, denominator: int) -> int:
    """The least N >= 0 with numerator <= e^(N / 10^9) denominator.

    The logarithm of a rational number other than 1 is irrational, so more digits decide in the end
    on which side of a whole number of nano-nats it is.
    """
    if numerator <= denominator:
        return 0
    # A ratio near 1 has a small logarithm: as many digits more as its parts have in common.
    digits = len(str(numerator)) + 40
    while True:
        context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
        logarithm = context.ln(context.divide(Decimal(numerator), Decimal(denominator)))
        nano = context.multiply(logarithm, Decimal(NANO))
        error = Decimal(10) ** (20 - digits)  # far above that of three rounded operations
        low, high = (ceil(context.add(nano, side)) for side in (-error, error))
        if low == high:
            return low
        digits *= 2
