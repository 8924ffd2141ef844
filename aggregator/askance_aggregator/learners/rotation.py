"""A public random rotation: it spreads a vector of bounded length evenly over its components.

With H the Hadamard matrix of order m, a power of two not below d, and D random signs, the numbers
y_i = sum_j H_ij D_j x_j are sums of x's components with random signs. For a fixed x of length at
most B, Hoeffding's inequality gives P[|y_i| > t B] <= 2 exp(-t^2 / 2) over the signs, so y_i is
clipped to [-tB, tB], where x_j itself would take [-B, B]: t^2 in place of d, in variance. (The
scale 1 / sqrt(m) that would make it a rotation is left to the code that adds up: the weights are 1
and -1.)

**Bias.** Clipping moves y_i by (|y_i| - tB)+. Integrating the tail, E[(|y_i| - tB)+^2] is at most
4 B^2 (e^(-t^2/2) - t sqrt(2 pi) Q(t)), Q the Gaussian tail. Turned back, x is off by a vector whose
squared length is the mean over i of the squares, and averaging over users does not enlarge it
(Jensen). So over the signs, which are drawn without a look at the data, the root of the expected
squared bias is at most `clipping_bias(t)` B.

Source: Ailon and Chazelle 2006 (the randomised Hadamard transform). Deviation: Chen, Kairouz and
    Ozgur 2020 use Kashin's representation to the same end, without bias, by an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from math import erfc, exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.queries import hadamard
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import Expression

_STEP = Fraction(1, 16)  # the grid of t
_MOST = 12  # at which the bias is below 2^-96


@dataclass(frozen=True, slots=True)
class Rotation:
    """D and H for vectors of `size` components.

    Args:
        size: d, 1 or more.
        seed: public text; the signs are a function of it.
    """

    size: int
    seed: str
    signs: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidParameter(f"a rotation expects 1 component or more, found {self.size}")
        object.__setattr__(self, "signs", _signs(self.seed, self.size))

    @property
    def order(self) -> int:
        """m: the least power of two that is not below the size."""
        return 1 << (self.size - 1).bit_length()

    def turned(self, numbers: list[Expression]) -> Expression:
        """y_0 .. y_(m-1) of x's components, as one vector."""
        return hadamard(numbers, self.signs.tolist(), range(self.order))

    def back(self, turned: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return x from y: D H^T y / m, the first d of it, shape (d,). By a fast transform."""
        values = np.array(turned, dtype=np.float64)
        half = 1
        while half < self.order:
            pairs = values.reshape(-1, 2, half)
            values = np.stack(
                [pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1
            ).reshape(-1)
            half *= 2
        return np.asarray(values[: self.size] * self.signs / self.order)


def clipping_bias(t: float) -> float:
    """The most that the root of the expected squared bias is, as a part of B (see above)."""
    tail = erfc(t / sqrt(2)) / 2
    return 2 * sqrt(max(exp(-t * t / 2) - t * sqrt(2 * pi) * tail, 0.0))


def clipping_for(bias: Fraction) -> Fraction:
    """The least t, on a grid of 1/16, at which the bias is at most this part of the bound.

    Raises:
        InvalidParameter: not positive, or none up to 12 does.
    """
    steps = range(1, int(_MOST / _STEP) + 1)
    for step in steps if bias > 0 else ():
        if clipping_bias(float(step * _STEP)) <= bias:
            return step * _STEP
    raise InvalidParameter(f"bias expects a part of the bound above 10^-15, got {value_text(bias)}")


def _signs(seed: str, size: int) -> NDArray[np.int64]:
    blocks = -(-size // 256)
    drawn = b"".join(
        sha256(b"askance rotation v1\0" + block.to_bytes(4, "big") + seed.encode()).digest()
        for block in range(blocks)
    )
    bits = np.unpackbits(np.frombuffer(drawn, dtype=np.uint8))[:size]
    return np.asarray(1 - 2 * bits.astype(np.int64))
