"""Finite classes of hypotheses, given as they come: a list, or a scorer of all at once.

A class knows its labels, how many hypotheses it has, and how many examples each gets wrong. All of
that is public but for the examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter, InvalidRecord
from askance_papers.curator.mechanisms.examples import check_labels

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

    Raises:
      InvalidParameter: there is none.
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

    Raises:
      InvalidParameter: there is none.
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
