"""The discrete Laplace distribution, exactly.

Source: Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing privacy mechanisms" (STOC
2009) for the distribution; Canonne, Kamath, Steinke, "The discrete Gaussian for differential
privacy" (2020) for drawing it from exact coins. Deviation: the magnitude is drawn by its binary
digits, which are independent, so that columns of draws are made at once.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling.comparison import happens, happens_each
from askance_aggregator.sampling.exponentials import happens_exp_minus, logistic
from askance_aggregator.sampling.words import Words
from askance_client.errors import InvalidParameter

_RARE = 45  # nats: what happens so rarely is left to a loop
MAX_SCALE = 1 << 48
"""Of a draw: so that sums of a few stay far inside int64."""


def discrete_laplace(words: Words, scale: Fraction, count: int) -> NDArray[np.int64]:
    """`count` independent integers, P(k) proportional to e^(-|k| / scale), shape (count,).

    Raises:
      InvalidParameter: a scale that is not above 0, or above 2^48.
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
    """P(k) proportional to q^k, q = e^(-1/scale), k >= 0.

    With k = sum_i 2^i b_i the weight is the product of q^(2^i b_i): the digits are independent, and
    digit i is 1 with probability 1 / (1 + q^-(2^i)). Digits from m on are all 0 except with
    probability q^(2^m); k is then 2^m and another such number, since q^k has no memory.
    """
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
