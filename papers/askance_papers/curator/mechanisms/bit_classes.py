"""Conjunctions and parities over few bits, all of them scored at once by a transform."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_papers.curator.mechanisms.examples import BITS, check_bits, check_labels
from askance_papers.curator.mechanisms.hypotheses import Mistakes, Weighs, check_weights, lookup
from askance_papers.curator.parity import Parity

_MAX_CONJUNCTION = 13  # 3^13 is 1.6 million
_MAX_PARITY = 20


@dataclass(frozen=True, slots=True)
class BitConjunction:
    """1 where every literal holds, else 0; the empty one is 1.

    Args:
      literals: (variable, the value that it must have), the variables ascending.
    """

    literals: tuple[tuple[int, int], ...]

    def __call__(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Labels of 0 and 1, shape (n,)."""
        found = np.ones(len(x), dtype=np.int64)
        for variable, value in self.literals:
            found &= x[:, variable] == value
        return found

    def to_json(self) -> dict[str, Any]:
        """For a result."""
        return {"literals": [list(one) for one in self.literals]}


class _OverBits(Weighs):
    """Base of both classes: examples as signed weights of the 2^d points of the cube."""

    labels = BITS

    def __init__(self, d: int, most: int) -> None:
        if not 1 <= d <= most:
            raise InvalidParameter(f"d: expected 1 .. {most}, found {d}")
        self.d = d

    def weighted_mistakes(
        self, x: NDArray[Any], y: NDArray[Any], weights: NDArray[np.int64]
    ) -> Mistakes:
        """Implement `WeightedClass`."""
        check_labels(y, BITS)
        check_bits(x, len(y), self.d)
        check_weights(weights, len(y))
        points = x.astype(np.int64) @ (1 << np.arange(self.d, dtype=np.int64)[::-1])
        signed = np.where(y == 1, weights, -weights)
        cube = np.bincount(points, weights=signed, minlength=1 << self.d).astype(np.int64)
        ones, total = int(weights[y == 1].sum()), int(weights.sum())
        return lookup(self._wrong(cube.reshape((2,) * self.d), ones, total))

    @abstractmethod
    def _wrong(self, cube: NDArray[np.int64], ones: int, total: int) -> NDArray[np.int64]:
        """The weight that each hypothesis gets wrong.

        `cube`, shape (2, ..., 2), has of each point the weight of its ones less that of its
        noughts.
        """


class Conjunctions(_OverBits):
    """The 3^d conjunctions of literals over d bits, d at most 13; labels are 0 and 1."""

    def __init__(self, d: int) -> None:
        super().__init__(d, _MAX_CONJUNCTION)

    @property
    def size(self) -> int:
        """3^d."""
        return int(3**self.d)

    def hypothesis(self, number: int) -> BitConjunction:
        """Return one conjunction: its number's ternary digits mean absent, positive or negated."""
        digits = [number // 3**place % 3 for place in range(self.d)][::-1]
        return BitConjunction(
            tuple((variable, 2 - digit) for variable, digit in enumerate(digits) if digit)
        )

    def _wrong(self, cube: NDArray[np.int64], ones: int, total: int) -> NDArray[np.int64]:
        """Return `ones` less the signed weight of the subcube where it holds, axis by axis."""
        for axis in range(self.d):
            zero, one = np.split(cube, 2, axis=axis)
            cube = np.concatenate([zero + one, one, zero], axis=axis)
        return np.asarray(ones - cube.reshape(-1), dtype=np.int64)


class Parities(_OverBits):
    """The 2^d parities over d bits, d at most 20; labels are 0 and 1.

    (`curator.parity` learns them for any d where one of them fits; here none need fit.)

    Raises:
      InvalidParameter: another d.
    """

    def __init__(self, d: int) -> None:
        super().__init__(d, _MAX_PARITY)

    @property
    def size(self) -> int:
        """2^d."""
        return 1 << self.d

    def hypothesis(self, number: int) -> Parity:
        """Return one parity: r is its number's binary digits, the first bit of x first."""
        return Parity(tuple(number >> place & 1 for place in range(self.d))[::-1])

    def _wrong(self, cube: NDArray[np.int64], ones: int, total: int) -> NDArray[np.int64]:
        """Walsh-Hadamard: the sum of (-1)^<r,x> (w_1 - w_0) is what r gets wrong less the rest."""
        for axis in range(self.d):
            zero, one = np.split(cube, 2, axis=axis)
            cube = np.concatenate([zero + one, zero - one], axis=axis)
        return np.asarray((total + cube.reshape(-1)) // 2, dtype=np.int64)
