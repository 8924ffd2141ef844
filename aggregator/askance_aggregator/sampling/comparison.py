"""Exact comparison of a uniform number in [0, 1) with a probability."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling.words import Words
from askance_client.errors import InvalidParameter

Bounds = Callable[[int], tuple[int, int]]
"""Of a number p: for a number of bits, integers (low, high) with low <= p 2^bits <= high that come
within a few units of each other."""

_WORD_BITS = 64
_MARGIN = 2.0**-36
"""How far a guess may be from its probability: far more than the errors of a dozen operations on
floats in 0 .. 1, and met by a uniform number once in 2^35 draws."""


def happens_each(
    words: Words, guesses: NDArray[np.float64], bounds: Callable[[int], Bounds]
) -> NDArray[np.bool_]:
    """Independent events, one word each where no guess is too close.

    The guesses, shape (count,), are floats within 2^-40 of the probabilities; `bounds` is a place's
    exact probability, asked for only where floats cannot decide.
    """
    drawn = words.take(len(guesses))
    uniform = drawn * 2.0**-_WORD_BITS
    found = uniform < guesses
    for place in np.flatnonzero(np.abs(uniform - guesses) <= _MARGIN):
        found[place] = _decide(words, int(drawn[place]), bounds(int(place)))
    return np.asarray(found, dtype=np.bool_)


def happens(words: Words, probability: Fraction, count: int) -> NDArray[np.bool_]:
    """`count` independent events of one rational probability, shape (count,).

    Raises:
      InvalidParameter: a probability outside 0 .. 1.
    """
    if not 0 <= probability <= 1:
        raise InvalidParameter(f"probability: expected 0 .. 1, found {float(probability):g}")

    def bounds(bits: int) -> tuple[int, int]:
        scaled = probability.numerator << bits
        return scaled // probability.denominator, -(-scaled // probability.denominator)

    return happens_each(words, np.full(count, float(probability)), lambda _: bounds)


def _decide(words: Words, value: int, bounds: Bounds) -> bool:
    """Decide whether a number that starts with the bits `value` is below p; draw more on a tie."""
    bits = _WORD_BITS
    while True:
        low, high = bounds(bits)
        if value + 1 <= low:
            return True
        if value >= high:
            return False
        value = value << _WORD_BITS | int(words.take(1)[0])
        bits += _WORD_BITS
