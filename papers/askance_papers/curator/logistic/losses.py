"""Convex losses of a margin m = y w.x: their values, slopes and curvatures, and bounds of both.

A loss never rises, so its slope is stated as -l'(m) >= 0. Two bounds decide what a row can reveal:
the slope's (a row of norm 1 pulls the gradient no further) and the curvature's (it changes the
Hessian by no more, along itself).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_client.errors import InvalidParameter

_WIDTHS = (Fraction(1, 1000), Fraction(1000))


class MarginLoss(Protocol):
    """Convex loss of a margin, with a Lipschitz derivative."""

    @property
    def name(self) -> str:
        """Name of the loss in the literature."""
        ...

    @property
    def slope_bound(self) -> Fraction:
        """Least bound kappa of the slope -l'(m), above 0."""
        ...

    @property
    def curvature_bound(self) -> Fraction:
        """Least bound c of the curvature l''(m), wherever there is one; above 0."""
        ...

    @property
    def fading_curvature(self) -> Fraction | None:
        """Least K with l''(m) <= K (1 - slope / kappa) for every m; None if there is none."""
        ...

    def values(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """The losses at margins, the same shape."""
        ...

    def slopes(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """-l'(m) in 0 .. kappa, the same shape."""
        ...

    def curvatures(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """l''(m) in 0 .. c, the same shape; at a jump either side's value."""
        ...


@dataclass(frozen=True, slots=True)
class LogisticLoss:
    """log(1 + e^-m): slope s = 1 / (1 + e^m), curvature s (1 - s)."""

    name: str = "logistic"
    slope_bound: Fraction = Fraction(1)
    curvature_bound: Fraction = Fraction(1, 4)
    fading_curvature: Fraction | None = Fraction(1)  # s (1 - s) <= 1 - s

    def values(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """log(1 + e^-m), for any margin."""
        return np.logaddexp(0.0, -margins)

    def slopes(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 / (1 + e^m), for any margin."""
        return np.exp(-np.logaddexp(0.0, margins))

    def curvatures(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """The slope s times 1 - s."""
        slopes = self.slopes(margins)
        return slopes * (1 - slopes)


@dataclass(frozen=True, slots=True)
class HuberHinge:
    """Hinge loss with a rounded corner: a support vector machine's.

    0 for m > 1 + h, (1 + h - m)^2 / (4 h) for |1 - m| <= h, and 1 - m below.

    Args:
      width: h, 1/1000 .. 1000; the hinge loss is its limit at 0, whose curvature has no bound.

    Source: Chapelle, "Training a support vector machine in the primal" (2007); Chaudhuri,
      Monteleoni, Sarwate (JMLR 2011), section 3.4.2.
    """

    width: Fraction = Fraction(1, 2)

    def __post_init__(self) -> None:
        if not _WIDTHS[0] <= self.width <= _WIDTHS[1]:
            raise InvalidParameter(
                f"width: expected 0.001 .. 1000, got {float(self.width):g}; a hinge without a"
                " rounded corner has no bounded curvature"
            )

    @property
    def name(self) -> str:
        """Name with the width."""
        return f"huber hinge {float(self.width):g}"

    @property
    def slope_bound(self) -> Fraction:
        """The straight piece's."""
        return Fraction(1)

    @property
    def curvature_bound(self) -> Fraction:
        """The corner's."""
        return 1 / (2 * self.width)

    @property
    def fading_curvature(self) -> Fraction | None:
        """The curvature does not fade: it is the same up to the straight piece."""
        return None

    def values(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """The losses, by their three pieces."""
        width = float(self.width)
        inside = np.clip(1 + width - margins, 0.0, 2 * width)
        return np.asarray(inside**2 / (4 * width) + np.maximum(1 - width - margins, 0.0))

    def slopes(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Linear in the corner, 1 below it."""
        width = float(self.width)
        return np.clip((1 + width - margins) / (2 * width), 0.0, 1.0)

    def curvatures(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """1/(2 h) in the corner, 0 elsewhere."""
        width = float(self.width)
        return np.where(np.abs(1 - margins) <= width, 1 / (2 * width), 0.0)


@dataclass(frozen=True, slots=True)
class ModifiedHuber:
    """Squared hinge loss, continued by a straight line below m = -1: slopes up to 4.

    The squared hinge loss itself has unbounded slopes, so no noise of this kind hides a row of it.

    Source: Zhang, "Solving large scale linear prediction problems using stochastic gradient
      descent algorithms" (ICML 2004).
    """

    name: str = "modified huber"
    slope_bound: Fraction = Fraction(4)
    curvature_bound: Fraction = Fraction(2)
    fading_curvature: Fraction | None = None

    def values(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """max(0, 1 - m)^2, or -4 m below -1."""
        inside = np.clip(1 - margins, 0.0, 2.0)
        return np.asarray(inside**2 + 4 * np.maximum(-1 - margins, 0.0))

    def slopes(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """2 (1 - m), within 0 .. 4."""
        return 2 * np.clip(1 - margins, 0.0, 2.0)

    def curvatures(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """2 for margins of -1 .. 1, 0 elsewhere."""
        return np.where(np.abs(margins) <= 1, 2.0, 0.0)


LOGISTIC = LogisticLoss()
"""Loss of logistic regression."""
