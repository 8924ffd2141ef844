"""Decision by enclosure: whether a tail exceeds beta for any population of a family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

_FIRST = 16  # intervals to begin with
_PARTS = 4  # into which an interval is divided
_LEVELS = 8
_MOST = 160  # intervals that are looked into at once: beyond it the answer is the careful one


def exceeds(bound: Callable[[Reals, Reals], Reals], low: float, high: float, beta: float) -> bool:
    """Return whether a quantity was not shown to be at most beta everywhere on [low, high].

    Intervals whose bound is above beta are divided, until none is left, or one point is found where
    the quantity itself is above beta, or the intervals are too many or too short to go on. `bound`
    gives upper bounds on the quantity within intervals [a_i, b_i]; of a point, the quantity itself.
    """
    edges = np.linspace(low, high, _FIRST + 1) if high > low else np.array([low, low])
    left, right = edges[:-1], edges[1:]
    for _ in range(_LEVELS):
        above = bound(left, right) > beta
        if not above.any():
            return False
        left, right = left[above], right[above]
        if len(left) > _MOST or (bound(right, right) > beta).any():
            return True
        steps = np.linspace(left, right, _PARTS + 1)
        left, right = steps[:-1].ravel(), steps[1:].ravel()
    return True
