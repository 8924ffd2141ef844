"""The gradient of a generalised linear model as one vector question to all users of a round.

A record's gradient is residual x, x = (1, features). Its length is bounded by clipping the
residual: |x|^2 falls into one of some ranges, and in a range up to u the residual is clipped to
[-c / sqrt(u), c / sqrt(u)], so the length is at most the clip c for every record. A score's
features that one field fills with one 1 (a category's cells) have the same length in every record.

**One report for all components.** The clip is promised as the vector's length, so the planner can
ask for it by directions (`families.random_codebook`), as soon as that has less variance than
components one by one: a report then tells all components, and n x E||error||^2 is PrivUnit's,
within 5 %. The mean is unbiased but for the clipping of residuals.

A record without one of the fields has residual and gradient 0: the gradient is that of complete
records, scaled by their share, which changes its length and not its direction.

A loss is convex in the score s = w . x; its derivative is the residual of a record.

| loss | derivative in s | curvature, at most |
|---|---|---|
| logistic | sigmoid(s) - y, y in {0, 1} | 1/4 |
| squared, halved | s - y, y in [-1, 1] | 1 |
| Huber | s - y, clipped to [-width, width] | 1 |
| hinge, smoothed | -y max(0, min(1, 1 - y s)), y = +-1 | 1 |

Sources: Bhowmick et al. 2018 (gradients by PrivUnit); McCullagh and Nelder 1989 (generalised
    linear models); Huber 1964; Rennie and Srebro 2005 (the smooth hinge: half of the squared
    distance below margin 1, linear below margin 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners.encodings import Cells, Number
from askance_aggregator.learners.learning import Question
from askance_aggregator.learners.linear_classifiers import WEIGHT_BITS, Coordinates
from askance_aggregator.queries import clip, dot, maximum, minimum, round_to, sigmoid, vector, where
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.queries import MAX_COMPONENTS, Expression, Kind, constant

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


RANGES = 8  # of |x|^2, each up to 1.19 times as long as it begins where lengths vary fourfold
_NORM_BITS = 10
_GRID = 1 << RESIDUAL_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of a score beside the constant 1.

    Args:
        expressions: truths and numbers in [-1, 1].
        fixed: number of fields whose features are one 1 and else 0.
        varying: the features of all other fields, a tuple per field; of a field with several at
            most one is 1.
    """

    expressions: tuple[Expression, ...]
    fixed: int
    varying: tuple[tuple[Expression, ...], ...]

    @classmethod
    def of_coordinates(cls, coordinates: Sequence[Coordinates]) -> Features:
        """Return the features of a linear classifier: one per cell of a category."""
        cells = [item for item in coordinates if isinstance(item.part, Cells)]
        others = [item.expressions for item in coordinates if isinstance(item.part, Number)]
        every = [expression for item in coordinates for expression in item.expressions]
        return cls(tuple(every), len(cells), tuple(others))

    @classmethod
    def of_numbers(cls, numbers: Sequence[Number]) -> Features:
        """Return the features of a linear model: one per label of a category but the first."""
        fields: dict[str, list[Expression]] = {}
        for number in numbers:
            key = number.name.partition("=")[0]
            fields.setdefault(key, []).append(number.expression)
        every = tuple(number.expression for number in numbers)
        return cls(every, 0, tuple(map(tuple, fields.values())))

    @property
    def count(self) -> int:
        """Number of weights: of the constant and of every feature."""
        return 1 + len(self.expressions)

    @property
    def shortest(self) -> int:
        """The least |x|^2."""
        return 1 + self.fixed

    @property
    def longest(self) -> int:
        """The greatest |x|^2."""
        return self.shortest + len(self.varying)

    @property
    def typical(self) -> float:
        """The mean of |x|^2 if the features that vary were uniform in their ranges."""
        return self.shortest + len(self.varying) / 3

    def score(self, weights: NDArray[np.float64]) -> Expression:
        """Return w . x as an expression; the weights lie on their grid."""
        return dot(weights.tolist(), [constant(1), *self.expressions], WEIGHT_BITS)

    def limit(self, clip: Fraction) -> Expression:
        """Return the most that a residual may be, so that residual x is no longer than the clip."""
        edges = self._edges()
        bounds = [_below(clip, upper) for upper in edges[1:]]
        limit: Expression = constant(bounds[-1], RESIDUAL_BITS)
        if len(bounds) == 1:
            return limit
        squares = [_square(part) for field in self.varying for part in field]
        terms = [constant(self.shortest), *squares]
        length = round_to(dot([1] * len(terms), terms, 0), _NORM_BITS)
        inner = list(zip(edges[1:-1], bounds[:-1], strict=True))
        for edge, bound in reversed(inner):
            limit = where(
                length < constant(edge, _NORM_BITS), constant(bound, RESIDUAL_BITS), limit
            )
        return limit

    def _edges(self) -> list[Fraction]:
        """Return the ends of the ranges of |x|^2, each the same times as great as the one below."""
        low, high = self.shortest, self.longest
        if low == high:
            return [Fraction(low), Fraction(high)]
        ratio = (high / low) ** (1 / RANGES)
        inner = [Fraction(round(low * ratio**place * 1024), 1024) for place in range(1, RANGES)]
        edges = [Fraction(low), *inner, Fraction(high)]
        return [edges[0], *(upper for lower, upper in pairwise(edges) if upper > lower)]


@dataclass(frozen=True, slots=True, eq=False)
class GradientQuestion:
    """Question for the mean gradient at some weights, of records whose gradients are clipped."""

    features: Features
    loss: Loss
    clip: Fraction

    def at(self, weights: NDArray[np.float64], tau: Fraction | None = None) -> Question:
        """Return the question at some weights, on their grid, for the mean gradient, (weights,)."""
        limit = self.features.limit(self.clip)
        residual = self.loss.residual(self.features.score(weights))
        bounded = minimum(maximum(residual, -limit), limit)
        parts = [bounded, *(_times(bounded, part) for part in self.features.expressions)]
        return Question(vector(parts, -self.clip, self.clip, 0), tau, length=self.clip)


def check_width(features: Features) -> Features:
    """Check that the gradient has no more components than a vector question."""
    if features.count > MAX_COMPONENTS:
        raise InvalidParameter(
            f"columns expects fields of at most {MAX_COMPONENTS - 1} features,"
            f" got {value_text(features.count - 1)}"
        )
    return features


def _below(clip: Fraction, upper: Fraction) -> Fraction:
    """Round clip / sqrt(upper) down; |x|^2 was rounded, by half a step of its grid at most."""
    greatest = float(upper) + 2.0 ** -(_NORM_BITS + 1)
    return Fraction(max(int(float(clip) / sqrt(greatest) * _GRID), 1), _GRID)


def _square(part: Expression) -> Expression:
    return part if part.kind is Kind.BOOLEAN else part * part


def _times(residual: Expression, part: Expression) -> Expression:
    return where(part, residual, 0) if part.kind is Kind.BOOLEAN else residual * part
