"""Objectives of a table for the mean of a bounded number."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import TableFamily
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Channel

Vector = NDArray[np.float64]
_LEAST_SLACK = Fraction(1, 1000)
_UNITS = 1 << 32  # of a prior's weight, a number


def spaced(levels: int) -> Vector:
    """Return equally spaced points of [-1, 1], mirror images of one another to the last bit."""
    return np.arange(1 - levels, levels, 2) / (levels - 1)


class Terms:
    """An objective as the terms of a linear program over tables on a grid.

    With M_i = E[a_Y^2 | level i] the program is: minimise sum_i weights_i M_i + rise V subject to
    M_i <= caps_i + rise V for every i.

    Args:
        weights: one a level, >= 0.
        caps: one a level.
        rise: 1 where V, how far the caps must be raised, is what is minimised; else 0.
    """

    def __init__(self, weights: Vector, caps: Vector, rise: float) -> None:
        self.weights = weights
        self.caps = caps
        self.rise = rise

    @cached_property
    def grid(self) -> Vector:
        """The inputs: equally spaced points of [-1, 1], one a level."""
        return spaced(len(self.weights))

    @cached_property
    def symmetric(self) -> bool:
        """Return whether level i and its mirror image have the same constraints."""
        return all(np.array_equal(row, row[::-1]) for row in (self.weights, self.caps))


class Objective(Hashable, Protocol):
    """Objective: terms of a linear program, and an exact figure of a finished table."""

    def terms(self, levels: int, duchi: float) -> Terms:
        """The program.

        Args:
            levels: of the grid.
            duchi: C^2, the second moment of Duchi's one bit at this epsilon.
        """
        ...

    def figure(self, channel: Channel, values: Sequence[Fraction]) -> Fraction:
        """Compute the table's exact figure with these decode values."""
        ...


@dataclass(frozen=True, slots=True)
class Minimax:
    """The worst second moment: n x the variance for the worst population, up to its mean squared.

    Utility: the optimum is C^2, that of Duchi's one bit, at every epsilon and on every grid: the
    levels at -1 and 1 alone force it (Cauchy-Schwarz).
    """

    def terms(self, levels: int, duchi: float) -> Terms:
        """Every level is capped at V."""
        return Terms(np.zeros(levels), np.zeros(levels), 1.0)

    def figure(self, channel: Channel, values: Sequence[Fraction]) -> Fraction:
        """The greatest over levels; between two of them it is a mean of theirs."""
        return max(TableFamily(channel).every_second_moment(values))


@dataclass(frozen=True, slots=True)
class Conditional:
    """The worst conditional variance: n x the variance of the mean of the sample at hand.

    Utility: below every published constant (Duchi, piecewise, hybrid, Laplace) at every epsilon.
    Its second moment at -1 and 1 is one more than its figure, so for a population of such values
    `Minimax` is better.
    """

    def terms(self, levels: int, duchi: float) -> Terms:
        """Level x is capped at x^2 + V."""
        return Terms(np.zeros(levels), spaced(levels) ** 2, 1.0)

    def figure(self, channel: Channel, values: Sequence[Fraction]) -> Fraction:
        """The greatest over the whole of [-1, 1], what random rounding adds between levels too."""
        means = TableFamily(channel).moved_grid(values)
        squares = TableFamily(channel).every_second_moment(values)
        return max(_worst_between(*pair) for pair in pairwise(zip(means, squares, strict=True)))


@dataclass(frozen=True, slots=True)
class Prior:
    """The expected second moment under a stated prior, with every level's bounded.

    Utility: n x the variance of the estimate, up to the mean squared, if the population is as
    stated; for any other it is at most (1 + slack) C^2, up to the rounding to integers. To cap the
    levels at -1 and 1 alone is hardly another optimum, and would promise nothing in between.

    Args:
        weights: one a level from -1 to 1, >= 0 and not all 0; scaled to sum to 1. A prior is public
            knowledge: it must not be made from the records that are asked about.
        slack: 1/1000 or more; with none at all nothing but Duchi's one bit is left (`Minimax`).
    """

    weights: tuple[Fraction, ...]
    slack: Fraction = Fraction(1, 10)

    def __post_init__(self) -> None:
        weights = tuple(Fraction(weight) for weight in self.weights)
        if any(weight < 0 for weight in weights) or not any(weights):
            raise InvalidParameter("a prior expects weights of 0 or more, and one above 0")
        if self.slack < _LEAST_SLACK:
            raise InvalidParameter(
                f"a prior's slack expects {_LEAST_SLACK} or more, found {self.slack}"
            )
        total = sum(weights, Fraction())
        object.__setattr__(self, "weights", tuple(weight / total for weight in weights))

    def terms(self, levels: int, duchi: float) -> Terms:
        """The weighted sum, every level capped."""
        if len(self.weights) != levels:
            raise InvalidParameter(
                f"a prior has one weight a level, expected {levels}, found {len(self.weights)}"
            )
        weights = np.array([float(weight) for weight in self.weights])
        return Terms(weights, np.full(levels, (1 + float(self.slack)) * duchi), 0.0)

    def figure(self, channel: Channel, values: Sequence[Fraction]) -> Fraction:
        squares = TableFamily(channel).every_second_moment(values)
        return sum(
            (w * square for w, square in zip(self.weights, squares, strict=True)), Fraction()
        )


def prior_of(numbers: Sequence[float] | Vector, levels: int) -> tuple[Fraction, ...]:
    """The weights of a prior: where numbers land on average when rounded at random onto levels.

    A second moment between two levels is the mean of theirs, so the figure under these weights is
    the average over the numbers, to 2^-32.

    Args:
        numbers: in [-1, 1], at least one; public ones, or made up.
        levels: 2 or more.
    """
    points = np.asarray(numbers, dtype=np.float64)
    if levels < 2 or not points.size or not np.all(np.abs(points) <= 1):
        raise InvalidParameter(
            f"a prior is made of numbers in [-1, 1] on 2 levels or more, found {points.size}"
            f" numbers on {levels} levels"
        )
    position = (points + 1) * (levels - 1) / 2
    below = np.minimum(position.astype(np.int64), levels - 2)
    above = position - below
    weights = np.bincount(below, 1 - above, levels) + np.bincount(below + 1, above, levels)
    return tuple(Fraction(round(weight * _UNITS), _UNITS) for weight in weights / points.size)


def prior_at(points: Sequence[tuple[Fraction, Fraction]], levels: int) -> tuple[Fraction, ...]:
    """The weights of a prior that is stated at points, exactly: each is split onto two levels.

    Args:
        points: in [-1, 1], each with its weight of 0 or more; one weight above 0.
        levels: 2 or more.
    """
    if levels < 2 or any(abs(point) > 1 for point, _ in points):
        raise InvalidParameter("a prior is stated at points of [-1, 1], on 2 levels or more")
    weights = [Fraction()] * levels
    for point, weight in points:
        position = (point + 1) * (levels - 1) / 2
        below = min(int(position), levels - 2)
        weights[below] += weight * (1 + below - position)
        weights[below + 1] += weight * (position - below)
    return tuple(weights)


def rounding_variance(points: Sequence[tuple[Fraction, Fraction]], levels: int) -> Fraction:
    """Return what random rounding onto levels adds to the variance of a number of a prior."""
    # A point at part f of a step h between two levels adds f (1 - f) h^2; a point on a level
    # nothing.
    step = Fraction(2, levels - 1)
    total = sum((weight for _, weight in points), Fraction())
    added = Fraction()
    for point, weight in points:
        part = (point + 1) / step % 1
        added += weight * part * (1 - part)
    return added * step * step / total


def _worst_between(one: tuple[Fraction, Fraction], two: tuple[Fraction, Fraction]) -> Fraction:
    """The greatest conditional variance of a number between two levels."""
    # Rounded at random, its mean and its second moment are on the segment from the one level's to
    # the other's, and a linear function less a square is concave.
    (mean, square), (next_mean, next_square) = one, two
    width = next_mean - mean
    if width <= 0:  # levels that are equal, or in the wrong order
        return max(square, next_square)
    slope = (next_square - square) / width
    at = min(max(slope / 2, mean), next_mean)
    return square + slope * (at - mean) - at * at
