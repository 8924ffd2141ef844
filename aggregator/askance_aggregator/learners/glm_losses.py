"""Losses of generalised linear models: derivatives in the score, as query expressions.

A loss is convex in the score s = w . x. Its derivative is the residual of a record; the gradient
of the mean loss is E[residual x].

| loss | derivative in s | curvature, at most |
|---|---|---|
| logistic | sigmoid(s) - y, y in {0, 1} | 1/4 |
| squared, halved | s - y, y in [-1, 1] | 1 |
| Huber | s - y, clipped to [-width, width] | 1 |
| hinge, smoothed | -y max(0, min(1, 1 - y s)), y = +-1 | 1 |

Sources: McCullagh and Nelder 1989 (generalised linear models); Huber 1964; Rennie and Srebro 2005
    (the smooth hinge: half of the squared distance below margin 1, linear below margin 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from askance_aggregator.queries import clip, round_to, sigmoid, where
from askance_client.queries import Expression

RESIDUAL_BITS = 12  # residuals lie on multiples of 2^-12, far below what noise leaves of them


class Loss(Protocol):
    """Interface of a loss: its derivative, and a bound of its second one."""

    @property
    def curvature(self) -> float:
        """The most that the residual changes per unit of the score."""

    def residual(self, score: Expression) -> Expression:
        """Return the derivative at a score, on multiples of 2^-12."""


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    """Loss of logistic regression; `positive` is the predicate of the second class."""

    positive: Expression
    curvature: float = 0.25

    def residual(self, score: Expression) -> Expression:
        """Return P[second class] less 1 for that class; the probability is the table's."""
        likely = round_to(sigmoid(score), RESIDUAL_BITS)
        return where(self.positive, likely - 1, likely)


@dataclass(frozen=True, slots=True, eq=False)
class SmoothHinge:
    """Loss of a linear support vector machine."""

    positive: Expression
    curvature: float = 1.0

    def residual(self, score: Expression) -> Expression:
        """Return the distance of the margin below 1, at most 1, against the class's sign."""
        coarse = _coarse(score)
        return where(self.positive, -clip(1 - coarse, 0, 1), clip(1 + coarse, 0, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Squared:
    """Half of the squared error of an outcome, which is a number in [-1, 1] or a truth."""

    outcome: Expression
    curvature: float = 1.0

    def residual(self, score: Expression) -> Expression:
        """Return the score less the outcome."""
        return _coarse(score) - self.outcome


@dataclass(frozen=True, slots=True, eq=False)
class Huber:
    """Squared near zero, linear beyond a width: outliers pull by no more than that.

    Args:
        width: > 0, on the scale of the outcome.
    """

    outcome: Expression
    width: Fraction
    curvature: float = 1.0

    def residual(self, score: Expression) -> Expression:
        """Return the score less the outcome, clipped to the width."""
        return _coarse(clip(_coarse(score) - self.outcome, -self.width, self.width))


def _coarse(score: Expression) -> Expression:
    return round_to(score, RESIDUAL_BITS)
