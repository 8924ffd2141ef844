"""The minimiser of the regularised logistic loss, to a tight tolerance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance.aggregator.curator.logistic.examples import Examples
from askance.client.errors import InvalidParameter

GRADIENT = 1e-10
"""The norm of the gradient at what is returned."""

_STEPS = 1000
_ARMIJO = 1e-4
_ROUNDING = 1e-13  # of a loss: what it may seem to grow by although it shrinks
_STRENGTHS = (1e-12, 1e12)


def minimise(
    examples: Examples, strength: float, tilt: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """The w that minimises strength/2 ||w||^2 + tilt.w / n + (1/n) sum_i log(1 + e^(-y_i w.x_i)).

    Newton's method with a line search. The loss is strongly convex, so the gradient's norm bounds
    the distance to the minimiser: ||w - w*|| <= GRADIENT / strength.

    Args:
      strength: 1e-12 .. 1e12.
      tilt: shape (d,); None: no tilt.

    Returns:
      Shape (d,).

    Raises:
      InvalidParameter: a strength outside its range.
      ArithmeticError: floats do not reach the tolerance.
    """
    if not _STRENGTHS[0] <= strength <= _STRENGTHS[1]:
        raise InvalidParameter(f"strength: expected 1e-12 .. 1e12, found {strength:g}")
    signed, count = examples.signed, examples.count
    linear = np.zeros(examples.dimension) if tilt is None else tilt / count
    ridge = strength * np.eye(examples.dimension)
    point = np.zeros(examples.dimension)
    margins = np.zeros(count)
    value = _value(point, margins, strength, linear)
    for _ in range(_STEPS):
        missing = np.exp(-np.logaddexp(0.0, margins))  # 1 / (1 + e^margin), for any margin
        gradient = strength * point + linear - signed.T @ missing / count
        if np.linalg.norm(gradient) <= GRADIENT:
            return point
        curvature = (signed * (missing * (1 - missing))[:, None]).T @ signed / count + ridge
        step = -np.linalg.solve(curvature, gradient)
        along, slope, length = signed @ step, float(gradient @ step), 1.0
        while length > 2.0**-60:
            moved, moved_margins = point + length * step, margins + length * along
            reached = _value(moved, moved_margins, strength, linear)
            if reached <= value + _ARMIJO * length * slope + _ROUNDING * (1 + abs(value)):
                break
            length /= 2
        point, margins, value = moved, signed @ moved, reached
    raise ArithmeticError(
        f"the minimiser: expected a gradient of at most {GRADIENT:g} after {_STEPS} steps, "
        f"found {np.linalg.norm(gradient):.1g}"
    )


def _value(
    point: NDArray[np.float64],
    margins: NDArray[np.float64],
    strength: float,
    linear: NDArray[np.float64],
) -> float:
    return float(
        strength / 2 * (point @ point) + linear @ point + np.logaddexp(0.0, -margins).mean()
    )
