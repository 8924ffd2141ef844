"""Exact draws from passed-in randomness.

Theory of operation: a probability p is a real number that can be bounded to any precision. To
decide "is a uniform number below p?" 64 of its bits are drawn and compared with a float near p.
Where the float's error could matter (once in 2^35 draws) integers decide, and where 64 bits do not
suffice more are drawn. So the decision is exact, and nearly always as fast as a comparison of
columns. Everything else (geometric digits, discrete Laplace and Gaussian, the exponential
mechanism's coins) is made of such decisions.

The one exception is `FloatDraws`, for mechanisms that are continuous by nature; their caller states
what is not float-safe.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_client.accounting.exponential import taylor_bounds
from askance_client.errors import InvalidParameter


class Words(Protocol):
    """A source of independent uniform 64-bit words, each given out once."""

    def take(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words, shape (count,), dtype uint64."""
        ...


class SystemWords:
    """The operating system's randomness: what every release uses.

    Example:
        >>> ask.SystemWords().take(3).dtype
        dtype('uint64')
    """

    __slots__ = ()

    def take(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * count), "<u8").astype(np.uint64, copy=False)


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
    """`count` independent events of one rational probability, shape (count,)."""
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


_SPACE = 1 << 64


def integers_below(words: Words, bound: int, count: int) -> NDArray[np.int64]:
    """`count` independent uniform integers in 0 .. bound-1, shape (count,)."""
    if not 1 <= bound <= 1 << 62:
        raise InvalidParameter(f"bound: expected 1 .. 2^62, found {bound}")
    last = np.uint64(_SPACE - _SPACE % bound - 1)  # what is above it would favour small remainders
    drawn = words.take(count)
    while (refused := np.flatnonzero(drawn > last)).size:
        drawn = drawn.copy()
        drawn[refused] = words.take(refused.size)
    return (drawn % np.uint64(bound)).astype(np.int64)


def permutation(words: Words, count: int) -> NDArray[np.int64]:
    """A uniform order of 0 .. count-1: sorted by a word each, drawn anew where two are equal."""
    while True:
        keys = words.take(count)
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        if not (sorted_keys[1:] == sorted_keys[:-1]).any():
            return order.astype(np.int64)


class FloatDraws(random.Random):
    """The standard library's distributions (gamma, Gaussian, ...) over passed-in words.

    Not float-safe: a float has gaps, and which floats can come out may depend on the data (Mironov,
    "On significance of the least significant bits for differential privacy", CCS 2012). Mechanisms
    that use this say so in their docstrings.
    """

    def __new__(cls, words: Words) -> FloatDraws:
        """The base would make a seed of whatever it is given."""
        return super().__new__(cls)

    def __init__(self, words: Words) -> None:
        self._words = words
        super().__init__(0)

    def random(self) -> float:
        """Uniform on the multiples of 2^-53 in [0, 1)."""
        return (int(self._words.take(1)[0]) >> 11) * 2.0**-53

    def getrandbits(self, k: int) -> int:
        """A uniform integer of k bits."""
        count = -(-k // 64)
        return int.from_bytes(self._words.take(count).tobytes(), "little") >> (64 * count - k)

    def seed(self, *_: Any, **__: Any) -> None:
        """There is no state: everything comes from the words."""

    def gaussians(self, count: int) -> NDArray[np.float64]:
        """`count` standard normal draws, shape (count,)."""
        return np.array([self.normalvariate(0.0, 1.0) for _ in range(count)])

    def direction(self, dimension: int) -> NDArray[np.float64]:
        """A uniform point of the unit sphere, shape (dimension,)."""
        while True:
            point = self.gaussians(dimension)
            norm = float(np.linalg.norm(point))
            if norm > 0:
                return point / norm


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


_RARE = 45  # nats: what happens so rarely is left to a loop
MAX_SCALE = 1 << 48
"""Of a draw: so that sums of a few stay far inside int64."""


def discrete_laplace(words: Words, scale: Fraction, count: int) -> NDArray[np.int64]:
    """`count` independent integers, P(k) proportional to e^(-|k| / scale), shape (count,).

    Source: Ghosh, Roughgarden, Sundararajan (STOC 2009) for the distribution; Canonne, Kamath,
    Steinke, "The discrete Gaussian for differential privacy" (2020) for drawing it from exact
    coins. Deviation: the magnitude is drawn by its binary digits, which are independent, so that
    columns of draws are made at once.
    """
    if not 0 < scale <= MAX_SCALE:
        raise InvalidParameter(f"scale: expected above 0 and at most 2^48, found {float(scale):g}")
    found = np.zeros(count, dtype=np.int64)
    left = np.arange(count)
    while left.size:
        magnitudes = _geometric(words, scale, left.size)
        negative = happens(words, Fraction(1, 2), left.size)
        # Zero has one sign only: the negative one is drawn anew.
        kept = ~(negative & (magnitudes == 0))
        found[left[kept]] = np.where(negative, -magnitudes, magnitudes)[kept]
        left = left[~kept]
    return found


def _geometric(words: Words, scale: Fraction, count: int) -> NDArray[np.int64]:
    """P(k) proportional to q^k, q = e^(-1/scale), k >= 0."""
    # With k = sum_i 2^i b_i the weight is the product of q^(2^i b_i): the digits are independent,
    # and digit i is 1 with probability 1 / (1 + q^-(2^i)). Digits from m on are all 0 except with
    # probability q^(2^m); k is then 2^m and another such number, since q^k has no memory.
    digits = max((_RARE * scale.numerator // scale.denominator).bit_length(), 1)
    found = np.zeros(count, dtype=np.int64)
    for digit in range(digits):
        found += _digit(words, Fraction(1 << digit) / scale, count).astype(np.int64) << digit
    beyond = Fraction(1 << digits) / scale
    going = np.arange(count)
    while going.size:
        more = happens_exp_minus(words, np.full(going.size, float(beyond)), lambda _: beyond)
        going = going[more]
        found[going] += 1 << digits
    return found


def _digit(words: Words, exponent: Fraction, count: int) -> NDArray[np.bool_]:
    """Events of probability 1 / (1 + e^x)."""
    guess = 1.0 / (1.0 + np.exp(min(float(exponent), 700.0)))
    return happens_each(words, np.full(count, guess), lambda _: logistic(exponent))


MAX_VARIANCE = 1 << 80


def discrete_gaussian(words: Words, variance: Fraction, count: int) -> NDArray[np.int64]:
    """`count` independent integers, P(k) proportional to e^(-k^2 / (2 variance)), shape (count,).

    Privacy: of an integer-valued statistic of L2 sensitivity D it is D^2 / (2 variance)-zCDP
    (Canonne, Kamath, Steinke, Theorem 4).

    Raises:
      InvalidParameter: a variance that is not above 0, or above 2^80.

    Source: Canonne, Kamath, Steinke (2020), Algorithm 3: a discrete Laplace draw, kept with the
    probability that makes it Gaussian.
    """
    if not 0 < variance <= MAX_VARIANCE:
        raise InvalidParameter(
            f"variance: expected above 0 and at most 2^80, found {float(variance):g}"
        )
    scale = isqrt(variance.numerator // variance.denominator) + 1
    centre = variance / scale
    found = np.zeros(count, dtype=np.int64)
    left = np.arange(count)
    while left.size:
        drawn = discrete_laplace(words, Fraction(scale), left.size)
        kept = _kept(words, drawn, centre, variance)
        found[left[kept]] = drawn[kept]
        left = left[~kept]
    return found


def _kept(
    words: Words, drawn: NDArray[np.int64], centre: Fraction, variance: Fraction
) -> NDArray[np.bool_]:
    """With probability e^(-(|k| - variance/scale)^2 / (2 variance))."""
    guesses = (np.abs(drawn) - float(centre)) ** 2 / (2 * float(variance))

    def exponent(place: int) -> Fraction:
        return (abs(int(drawn[place])) - centre) ** 2 / (2 * variance)

    return happens_exp_minus(words, guesses, exponent)
