"""e^-x and 1 / (1 + e^x) for rational x >= 0, bounded by integers; and coins of e^-x."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling.comparison import Bounds, happens_each
from askance_aggregator.sampling.words import Words
from askance_client.accounting.exponential import taylor_bounds


def exp_minus(exponent: Fraction) -> Bounds:
    """The bounds of e^-x."""
    return lambda bits: _reciprocal(exponent, bits, add=0)


def logistic(exponent: Fraction) -> Bounds:
    """The bounds of 1 / (1 + e^x)."""
    return lambda bits: _reciprocal(exponent, bits, add=1)


def happens_exp_minus(
    words: Words, guesses: NDArray[np.float64], exponent: Callable[[int], Fraction]
) -> NDArray[np.bool_]:
    """Independent events of probabilities e^-x, shape (count,).

    The guesses, shape (count,), are the exponents as floats, each within 2^-42 of it (or above 40);
    `exponent` is a place's exponent x >= 0, exactly.
    """
    return happens_each(words, np.exp(-guesses), lambda place: exp_minus(exponent(place)))


def _reciprocal(exponent: Fraction, bits: int, *, add: int) -> tuple[int, int]:
    """Bounds of 2^bits / (add + e^x)."""
    whole = exponent.numerator // exponent.denominator
    if whole >= bits:  # e^-x 2^bits < 1 already
        return 0, 1
    # x < 2^bit_length(whole), so halving so often leaves at most 1/16.
    halvings = whole.bit_length() + 4
    places = bits + 2 * whole + halvings + 16
    low, high = taylor_bounds(exponent.numerator, exponent.denominator << halvings, places)
    for _ in range(halvings):
        low = (low * low) >> places
        high = -((-high * high) >> places)
    one = add << places
    return (1 << (places + bits)) // (high + one), -(-(1 << (places + bits)) // (low + one))
