"""Discounted changes of a path: the code by which `trend` asks about all epochs at once.

A path x_1 .. x_T of numbers in [-1, 1] is coded as

    y_1 = s x_1,    y_t = x_t - r x_(t-1)    for t = 2 .. T,    0 <= r < 1, s^2 <= 1 - r^2,

the inverse of a first-order filter: x_1 = y_1 / s and x_t = r x_(t-1) + y_t.

Length. Let the squared steps of a path sum to at most 4 k: so do any k changes, and k changes from
one end of the range to the other attain it. For every t

    (x_t - r x_(t-1))^2 = r (x_t - x_(t-1))^2 + (1 - r) (x_t^2 - r x_(t-1)^2),

so that |y|^2 is r times the sum of squared steps and a sum of the x_t^2 with factors of at least 0,
which together are s^2 + (1 - r)^2 (T - 1). Hence

    |y|^2 <= s^2 + (T - 1 - k) (1 - r)^2 + k (1 + r)^2,

and every path of -1 and 1 with k changes attains it.

Error. A vector of length L that is asked with a randomizer of directions has errors of variance
c L^2 / n in every direction, where c depends on epsilon. That of x_t is c L^2 / n times its
squared weights, r^(2 (t-1)) / s^2 + r^0 + r^2 + .. + r^(2 (t-2)). These are 1 / (1 - r^2) if s is
exact: the same for all epochs. With z = (1 - r) / (1 + r) the variance is c N / n,

    N = 1 + (T - 1 - k) z + k / z.

It is least at z^2 = k / (T - 1 - k), where N = 1 + 2 sqrt(k (T - 1 - k)). From k = (T - 1) / 2 on
the best r is 0, and N = T: the values themselves.

Source: Edmonds, Nikolov and Ullman 2020 factorize queries in the local model; the code and its
bound for paths of few changes are derived above.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

_BITS = 12  # of r and s; N changes by less than a thousandth
_UNIT = 1 << _BITS
_LENGTH_BITS = 20  # of the length, rounded upward


@dataclass(frozen=True, slots=True)
class DiscountedChanges:
    """Code of paths of T epochs with at most k changes, k above 0.

    Args:
        epochs: T, 2 or more.
        changes: k; the sum of squared steps over the squared range.
        ratio: r, in [0, 1), on a grid of 2^-12.
        first: s, above 0, likewise.
    """

    epochs: int
    changes: Fraction
    ratio: Fraction
    first: Fraction

    @classmethod
    def of(cls, epochs: int, changes: Fraction) -> DiscountedChanges:
        """Return the code with the least error for these paths, but for the grid."""
        others = epochs - 1 - changes
        if changes >= others:
            return cls(epochs, changes, Fraction(0), Fraction(1))
        odds = changes / others
        # z, then r on the grid; at most the greatest number below 1
        root = Fraction(isqrt(odds.numerator * odds.denominator << 4 * _BITS), odds.denominator)
        z = root / (1 << 2 * _BITS)
        ratio = min(int((1 - z) / (1 + z) * _UNIT), _UNIT - 1)
        first = isqrt(_UNIT * _UNIT - ratio * ratio)
        return cls(epochs, changes, Fraction(ratio, _UNIT), Fraction(first, _UNIT))

    @property
    def bits(self) -> int:
        """Grid bits of r and s."""
        return _BITS

    @property
    def length(self) -> Fraction:
        """The greatest length of a coded path, rounded upward."""
        kept = max(self.epochs - 1 - self.changes, Fraction(0))
        changed = self.epochs - 1 - kept
        square = self.first**2 + kept * (1 - self.ratio) ** 2 + changed * (1 + self.ratio) ** 2
        scaled = square * (1 << 2 * _LENGTH_BITS)
        return Fraction(isqrt(int(scaled)) + 1, 1 << _LENGTH_BITS)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights that decode, shape (T, T): x_t = sum over j of weights[t, j] y_j."""
        ages = np.arange(self.epochs)[:, None] - np.arange(self.epochs)[None, :]
        kept = float(self.ratio) ** np.maximum(ages, 0)  # 0 ** 0 is 1
        found = np.where(ages >= 0, kept, 0.0)
        found[:, 0] /= float(self.first)
        return found

    @property
    def spread(self) -> Fraction:
        """The most by which an epoch is off if no component of the code is off by more than 1."""
        ends = (self.ratio**age for age in (0, self.epochs - 1))
        return max(end / self.first + (1 - end) / (1 - self.ratio) for end in ends)
