"""Finite classes of hypotheses, given as they come: a list, or a scorer of all at once.

A class knows its labels, how many hypotheses it has, and how many examples each gets wrong. All of
that is public but for the examples, which are checked before anything is made of them. There are
thresholds on a line and decision stumps, and conjunctions and parities over few bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_client.printable import value_text
from askance_simulation.populations.labelled_bits import Parity

BITS = (0, 1)
SIGNS = (-1, 1)


def check_labels(y: NDArray[Any], labels: tuple[int, int]) -> None:
    """Check that each of at least one example has one of two labels."""
    if y.ndim != 1 or not y.size or y.dtype.kind not in "buif":
        raise InvalidRecord(f"labels: expected one a record, found {y.dtype} of shape {y.shape}")
    wrong = np.flatnonzero((y != labels[0]) & (y != labels[1]))
    if wrong.size:
        raise InvalidRecord(
            f"labels: expected {labels[0]} or {labels[1]}, found another in {wrong.size} of"
            f" {y.size} rows, row {wrong[0]} the first"
        )


def check_features(x: NDArray[Any], rows: int, columns: int) -> None:
    """Check that each record has a finite number in each column."""
    if x.shape != (rows, columns) or x.dtype.kind not in "buif":
        raise InvalidRecord(
            f"features: expected numbers of shape ({rows}, {columns}), found {x.dtype} of shape"
            f" {x.shape}"
        )
    wrong = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if wrong.size:
        raise InvalidRecord(
            f"features: expected finite numbers, found another in {wrong.size} of {rows} rows, row"
            f" {wrong[0]} the first"
        )


def check_bits(x: NDArray[Any], rows: int, columns: int) -> None:
    """Check that each record has 0 or 1 in each column."""
    check_features(x, rows, columns)
    wrong = np.flatnonzero(((x != 0) & (x != 1)).any(axis=1))
    if wrong.size:
        raise InvalidRecord(
            f"features: expected 0 or 1, found another in {wrong.size} of {rows} rows, row"
            f" {wrong[0]} the first"
        )


Hypothesis = Callable[[NDArray[Any]], NDArray[Any]]
"""Features, shape (n, ...), to labels, shape (n,)."""

Mistakes = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Numbers of hypotheses to what each gets wrong, shape (chosen,)."""

_MAX_WEIGHT = 1 << 52


class FiniteClass(Protocol):
    """A finite class of hypotheses."""

    @property
    def size(self) -> int:
        """Number of hypotheses, 1 or more."""
        ...

    @property
    def labels(self) -> tuple[int, int]:
        """The two labels that its hypotheses give."""
        ...

    def mistakes(self, x: NDArray[Any], y: NDArray[Any]) -> Mistakes:
        """Count the examples that each hypothesis gets wrong; the result is evaluated in parts.

        Raises:
          InvalidRecord: examples that are none of this class.
        """
        ...

    def hypothesis(self, number: int) -> Hypothesis:
        """Return the hypothesis with this number."""
        ...


class WeightedClass(FiniteClass, Protocol):
    """A finite class that can weigh its mistakes, as boosting asks of weak learners."""

    def weighted_mistakes(
        self, x: NDArray[Any], y: NDArray[Any], weights: NDArray[np.int64]
    ) -> Mistakes:
        """The total weight of the examples that each gets wrong.

        `weights`, shape (n,), are whole numbers of 0 or more; their sum is below 2^52.

        Raises:
          InvalidRecord: examples that are none of this class, or weights that are none.
        """
        ...


class Weighs(ABC):
    """Base of classes that weigh their mistakes, and so can count them."""

    @abstractmethod
    def weighted_mistakes(
        self, x: NDArray[Any], y: NDArray[Any], weights: NDArray[np.int64]
    ) -> Mistakes:
        """Implement `WeightedClass`."""

    def mistakes(self, x: NDArray[Any], y: NDArray[Any]) -> Mistakes:
        """Count mistakes as weighted ones, each with weight 1."""
        return self.weighted_mistakes(x, y, np.ones(len(y), dtype=np.int64))


class Listed(Weighs):
    """The hypotheses of an iterable, each a function on arrays.

    Args:
      hypotheses: one or more; evaluated on all examples when they are scored.
      labels: the two that they give.
    """

    def __init__(self, hypotheses: Iterable[Hypothesis], labels: tuple[int, int]) -> None:
        self._all = tuple(hypotheses)
        self.labels = labels
        if not self._all:
            raise InvalidParameter("class: expected one hypothesis or more, got none")

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return len(self._all)

    def hypothesis(self, number: int) -> Hypothesis:
        """Return the hypothesis with this number."""
        return self._all[number]

    def weighted_mistakes(
        self, x: NDArray[Any], y: NDArray[Any], weights: NDArray[np.int64]
    ) -> Mistakes:
        """Implement `WeightedClass`; a hypothesis that gives another label is an error."""
        check_labels(y, self.labels)
        if len(x) != len(y):
            raise InvalidRecord(f"features: expected {len(y)} rows, found {len(x)}")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise InvalidRecord("features: expected finite numbers, found another")
        check_weights(weights, len(y))

        def wrong(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
            found = [int(weights[self._given(h, x) != y].sum()) for h in chosen.tolist()]
            return np.array(found, dtype=np.int64)

        return wrong

    def _given(self, number: int, x: NDArray[Any]) -> NDArray[Any]:
        given = np.asarray(self._all[number](x))
        if given.shape != (len(x),) or not np.isin(given, self.labels).all():
            raise InvalidRecord(
                f"hypothesis {number}: expected {self.labels[0]} or {self.labels[1]} for each"
                f" example, found something else"
            )
        return given


class ScoredAtOnce:
    """A class whose mistakes a function of the examples counts for all hypotheses at once.

    Args:
      size: how many there are.
      scorer: (x, y) to whole numbers of shape (size,): how many of the examples each gets wrong.
        That each example counts for 1 at most, whatever the others are, is its author's promise.
      named: a hypothesis by its number.
      labels: the two that they give.
    """

    def __init__(
        self,
        size: int,
        scorer: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.integer[Any]]],
        named: Callable[[int], Hypothesis],
        labels: tuple[int, int],
    ) -> None:
        if size < 1:
            raise InvalidParameter("class: expected one hypothesis or more, got none")
        self.size = size
        self._scorer, self._named, self.labels = scorer, named, labels

    def hypothesis(self, number: int) -> Hypothesis:
        """Return the hypothesis with this number."""
        return self._named(number)

    def mistakes(self, x: NDArray[Any], y: NDArray[Any]) -> Mistakes:
        """Implement `FiniteClass`."""
        check_labels(y, self.labels)
        found = np.asarray(self._scorer(x, y))
        if found.shape != (self.size,) or found.dtype.kind not in "iu":
            raise InvalidRecord(
                f"scorer: expected {self.size} whole numbers, found {found.dtype} of shape"
                f" {found.shape}"
            )
        if int(found.min()) < 0 or int(found.max()) > len(y):
            raise InvalidRecord(f"scorer: expected counts of 0 .. {len(y)}, found another")
        return lookup(found.astype(np.int64))


def lookup(table: NDArray[np.int64]) -> Mistakes:
    """Mistakes that have all been counted."""
    return lambda chosen: table[chosen]


def check_weights(weights: NDArray[Any], rows: int) -> None:
    """Check the weights: whole numbers of 0 or more, one per record, with a sum below 2^52."""
    if weights.shape != (rows,) or weights.dtype.kind not in "iu":
        raise InvalidRecord(f"weights: expected {rows} whole numbers, found {weights.dtype}")
    if int(weights.min()) < 0 or int(weights.max()) * rows >= _MAX_WEIGHT:
        raise InvalidRecord("weights: expected 0 or more, and a sum below 2^52, got others")


@dataclass(frozen=True, slots=True)
class Stump:
    """`sign` where the feature is at or above the cut, else -sign."""

    feature: int
    cut: float
    sign: int

    def __call__(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Labels of 1 and -1, shape (n,)."""
        column = x[:, self.feature].astype(np.float64)
        return np.where(column >= self.cut, self.sign, -self.sign).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """For a result."""
        return {"feature": self.feature, "cut": self.cut, "above": self.sign, "below": -self.sign}


class Stumps(Weighs):
    """Every stump of stated cuts, both signs of each; labels are 1 and -1.

    The cuts are public: from the schema, never from the data.

    Args:
      cuts: for each feature its cuts, finite; at least one cut in all.
    """

    def __init__(self, cuts: Sequence[Sequence[float]]) -> None:
        self.cuts = tuple(tuple(sorted(map(float, of_one))) for of_one in cuts)
        if not any(self.cuts):
            raise InvalidParameter("class: expected one hypothesis or more, got no cuts")
        if not all(np.isfinite(cut) for of_one in self.cuts for cut in of_one):
            raise InvalidParameter(f"cuts: expected finite numbers, got {value_text(self.cuts)}")
        self._all = tuple(
            Stump(feature, cut, sign)
            for feature, of_one in enumerate(self.cuts)
            for cut in of_one
            for sign in SIGNS
        )

    labels = SIGNS

    @property
    def size(self) -> int:
        """Number of stumps."""
        return len(self._all)

    def hypothesis(self, number: int) -> Stump:
        """Return the stump with this number."""
        return self._all[number]

    def weighted_mistakes(
        self, x: NDArray[Any], y: NDArray[Any], weights: NDArray[np.int64]
    ) -> Mistakes:
        """Implement `WeightedClass` in one pass over each column, for any number of cuts."""
        check_labels(y, SIGNS)
        check_features(x, len(y), len(self.cuts))
        check_weights(weights, len(y))
        signed = weights * y.astype(np.int64)
        total, ones = int(weights.sum()), int(weights[y == 1].sum())
        wrong: list[int] = []
        for feature, of_one in enumerate(self.cuts):
            if not of_one:
                continue
            # Of the rows in bin b, b cuts are at or below the value. Sums below 2^52: floats hold.
            bins = np.searchsorted(np.array(of_one), x[:, feature], side="right")
            sums = np.bincount(bins, weights=signed, minlength=len(of_one) + 1)
            above = sums[::-1].cumsum()[::-1][1:].astype(np.int64)  # of the rows at or above a cut
            for lead in above.tolist():
                plus = ones - lead  # ones below the cut, and the others at or above it
                wrong += [total - plus, plus]
        return lookup(np.array(wrong, dtype=np.int64))


def thresholds(cuts: Sequence[float]) -> Stumps:
    """The thresholds on a line: stumps of one feature (x of shape (n, 1))."""
    return Stumps([cuts])


def even_cuts(low: float, high: float, count: int) -> tuple[float, ...]:
    """`count` cuts that divide stated bounds evenly."""
    whole = isinstance(count, int) and not isinstance(count, bool)
    if not -inf < low < high < inf or not whole or count < 1:
        raise InvalidParameter(
            "cuts: expected low < high and one cut or more,"
            f" got {value_text(low)}, {value_text(high)} and {value_text(count)}"
        )
    return tuple(np.linspace(low, high, count + 2)[1:-1].tolist())


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
        """The weight that each hypothesis gets wrong."""
        # `cube`, shape (2, ..., 2), has of each point the weight of its ones less that of its
        # noughts.


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
