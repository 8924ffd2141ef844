"""The minimiser of a regularised mean of losses, to a tight tolerance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter
from askance_papers.curator.logistic.examples import Examples
from askance_papers.curator.logistic.losses import LOGISTIC, MarginLoss

GRADIENT = 1e-10
"""The norm of the gradient at what is returned."""

_STEPS = 40  # of Newton's method; from a good start it takes ten
_SOFTENING = 8.0
_HARDEST = 1e12  # a strength at which Newton's method takes two steps
_ARMIJO = 1e-4
_ROUNDING = 1e-13  # of a loss: what it may seem to grow by although it shrinks
_STRENGTHS = (1e-12, 1e12)


def minimise(
    examples: Examples,
    strength: float,
    tilt: NDArray[np.float64] | None = None,
    loss: MarginLoss = LOGISTIC,
) -> NDArray[np.float64]:
    """The w that minimises strength/2 ||w||^2 + tilt.w / n + (1/n) sum_i l(y_i w.x_i).

    Newton's method with a line search. The sum is strongly convex, so the gradient's norm bounds
    the distance to the minimiser: ||w - w*|| <= GRADIENT / strength. Where coefficients are so
    large that the losses are all but piecewise linear, Newton's method finds its way from one piece
    to the next only slowly; there a sum of more strength is minimised first.

    `strength` is 1e-12 .. 1e12 and `tilt` of the shape (d,); None: no tilt.

    Raises:
      InvalidParameter: a strength outside its range.
      ArithmeticError: floats do not reach the tolerance. They do wherever coefficients stay below
        some 10^6, which those of private releases do.
    """
    if not _STRENGTHS[0] <= strength <= _STRENGTHS[1]:
        raise InvalidParameter(f"strength: expected 1e-12 .. 1e12, found {strength:g}")
    linear = np.zeros(examples.dimension) if tilt is None else tilt / examples.count
    found = _Objective(examples.signed, strength, linear, loss).followed()
    if found is None:
        raise ArithmeticError(f"the minimiser: expected a gradient of at most {GRADIENT:g}")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    signed: NDArray[np.float64]
    strength: float
    linear: NDArray[np.float64]
    loss: MarginLoss

    def followed(self) -> NDArray[np.float64] | None:
        """From 0, or from the minimiser of a softer objective.

        With w = T v the objective is T times that of v with T times the strength, of a loss that is
        T times as soft: so the softer objective's v, T-fold, is where to start.
        """
        found = self.minimiser(np.zeros(len(self.linear)))
        if found is not None or self.strength > _HARDEST:
            return found
        softer = _Objective(
            self.signed, self.strength * _SOFTENING, self.linear, self.loss
        ).followed()
        return None if softer is None else self.minimiser(softer * _SOFTENING)

    def minimiser(self, point: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """By Newton's method; None if it takes too many steps."""
        count, dimension = self.signed.shape
        margins = self.signed @ point
        value = self.value(point, margins)
        for _ in range(_STEPS):
            slopes = self.loss.slopes(margins)
            gradient = self.strength * point + self.linear - self.signed.T @ slopes / count
            if np.linalg.norm(gradient) <= GRADIENT:
                return point
            weights = self.loss.curvatures(margins) / count
            curvature = (self.signed * weights[:, None]).T @ self.signed
            curvature += self.strength * np.eye(dimension)
            step = -np.linalg.solve(curvature, gradient)
            point, margins, value = self.searched(point, margins, value, step, gradient @ step)
        return None

    def searched(
        self,
        point: NDArray[np.float64],
        margins: NDArray[np.float64],
        value: float,
        step: NDArray[np.float64],
        slope: float,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """The first of the step's halvings that lessens the objective enough."""
        along, length = self.signed @ step, 1.0
        while True:
            moved, moved_margins = point + length * step, margins + length * along
            reached = self.value(moved, moved_margins)
            allowed = value + _ARMIJO * length * slope + _ROUNDING * (1 + abs(value))
            if reached <= allowed or length < 2.0**-60:
                return moved, self.signed @ moved, reached
            length /= 2

    def value(self, point: NDArray[np.float64], margins: NDArray[np.float64]) -> float:
        """The objective."""
        ridge = self.strength / 2 * (point @ point)
        return float(ridge + self.linear @ point + self.loss.values(margins).mean())
