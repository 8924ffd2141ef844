"""Distributions over a universe that fit given answers: entropic mirror descent."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_papers.curator.synopsis.queries import QueryFamily

_GROWTH = 1.5  # of a step that has led down
_LEAST_STEP = 1e-9
_LEAST_LOG = -60.0  # of a weight beside the largest: no cell is lost, and no float is denormal
_STALLED = 1e-12  # of the loss where it began: from here on nothing is gained


class Operator(Protocol):
    """Answers that are linear in a distribution, and their transpose."""

    def forward(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The answers, shape (answers,), in [0, 1] for a distribution."""
        ...

    def adjoint(self, residuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum residual times value for each cell, shape (cells,)."""
        ...


class Rows:
    """Some queries' values, kept as a sparse matrix.

    Most queries are 0 on most cells. And a sparse product stays on one core: a fit is thousands of
    small products, which a BLAS of several threads slows down by far more than it helps whenever
    the machine has other work.

    Args:
      values: shape (answers, cells), in units of 1/scale.
    """

    def __init__(self, values: NDArray[np.int32], scale: int) -> None:
        from scipy.sparse import csr_array

        self._rows = csr_array(values, dtype=np.float64) / scale
        self._columns = self._rows.T.tocsr()

    def forward(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows times weights."""
        return np.asarray(self._rows @ weights)

    def adjoint(self, residuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Residuals times rows."""
        return np.asarray(self._columns @ residuals)


class WholeFamily:
    """All queries of a family, without its matrix."""

    def __init__(self, family: QueryFamily) -> None:
        self._family = family

    def forward(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The family's answers."""
        return self._family.sums(weights) / self._family.scale

    def adjoint(self, residuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """The family's transpose."""
        return self._family.spread(residuals) / self._family.scale


def mirror_descent(
    operator: Operator, answers: NDArray[np.float64], start: NDArray[np.float64], steps: int
) -> NDArray[np.float64]:
    """The distribution whose answers are near the given ones in squared distance.

    Entropic mirror descent, which is multiplicative weights: each step multiplies every cell by
    e^(-step gradient). Of all distributions that fit, few steps from the uniform one lead to one of
    high entropy, which is what keeps a fit to noisy answers from following their noise. A step that
    would lead up is halved, and one that led down is longer the next time.

    It uses nothing but noisy answers, so it costs no privacy.

    `start` is a distribution above 0 everywhere where the result may be; it and the result have the
    shape (cells,), and `answers` has the shape (answers,).

    Source: Beck, Teboulle, "Mirror descent and nonlinear projected subgradient methods" (2003);
      DRV10 V-B asks for any synopsis that fits. The rule for steps is ours.
    """
    weights = start / start.sum()
    logs = np.log(np.maximum(weights, np.exp(_LEAST_LOG)))
    residuals = operator.forward(weights) - answers
    loss = beginning = float(residuals @ residuals)
    step = 1.0 / max(len(answers), 1)  # 1 / the smoothness of half the loss in L1
    for _ in range(steps):
        if loss <= _STALLED * beginning:
            break
        slopes = operator.adjoint(residuals)
        while True:
            moved = logs - step * slopes
            moved = np.maximum(moved - moved.max(), _LEAST_LOG)
            candidate = np.exp(moved)
            candidate /= candidate.sum()
            ahead = operator.forward(candidate) - answers
            reached = float(ahead @ ahead)
            if reached <= loss:
                break
            step /= 2
            if step < _LEAST_STEP:
                return np.asarray(weights)
        logs, weights, residuals, loss = moved, candidate, ahead, reached
        step *= _GROWTH
    return np.asarray(weights)
