"""Aims of a question about a number: the mean that its answer estimates.

It says what an estimate is held against, and nothing of how it is reached: which randomizer serves
an aim best is for the planner (`planning.sizing.choices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

from askance_aggregator.numbers import rational
from askance_client.errors import InvalidParameter

MAX_POINTS = 1024  # of a prior
_STEPS = 10  # of a shape, over the range

Points: TypeAlias = tuple[tuple[Fraction, Fraction], ...]
"""Points, in real units, each with its weight."""


@dataclass(frozen=True, slots=True)
class PopulationMean:
    """The mean of the population that users are drawn from, whatever it is: the worst counts."""


@dataclass(frozen=True, slots=True)
class SampleMean:
    """The mean of the users who answer: that they were drawn by chance is no error."""


@dataclass(frozen=True, slots=True)
class PriorMean:
    """The mean of a population about which something is known beforehand, from public sources.

    Utility: estimates hold for every population; they vary the less, the more a population is as
    the prior says.

    Args:
        points: where numbers are expected, in real units, with weights of 0 or more, one above 0.
            They must not be made from the records that are asked about: a study is signed and
            published with them.

    Raises:
        InvalidParameter: they are not, or more than 1,024.
    """

    points: Points

    def __post_init__(self) -> None:
        if not 0 < len(self.points) <= MAX_POINTS:
            raise InvalidParameter(f"a prior has 1..{MAX_POINTS} points, found {len(self.points)}")
        weights = [weight for _, weight in self.points]
        if min(weights) < 0 or not any(weights):
            raise InvalidParameter("a prior expects weights of 0 or more, and one above 0")


Aim: TypeAlias = PopulationMean | SampleMean | PriorMean


def small(low: Fraction, high: Fraction) -> Points:
    """Around the possible number nearest to 0, half as likely with each tenth of the range."""
    return _around(min(max(Fraction(0), low), high), low, high)


def middle(low: Fraction, high: Fraction) -> Points:
    """Around the middle of the range, half as likely with each tenth of it."""
    return _around((low + high) / 2, low, high)


SHAPES: Mapping[str, Callable[[Fraction, Fraction], Points]] = MappingProxyType(
    {"small": small, "middle": middle}
)
"""Priors by name, for a range from its low to its high end."""


def prior_in(text: str, low: Fraction, high: Fraction) -> PriorMean:
    """A prior as text: "0:5, 0.2:3, 1:1" (points with weights), or the name of a shape.

    Raises:
        InvalidParameter: it is neither, or a point is outside the range.
    """
    shape = SHAPES.get(text.strip())
    if shape is not None:
        return PriorMean(shape(low, high))
    points = []
    for place, part in enumerate(text.split(",")):
        point, colon, weight = part.partition(":")
        if not colon:
            known = ", ".join(SHAPES)
            raise InvalidParameter(
                f"prior expects {known}, or POINT:WEIGHT with commas; item {place} is neither"
            )
        at = rational(point.strip(), f"prior, point {place}")
        if not low <= at <= high:
            raise InvalidParameter(
                f"prior, point {place}: expected a number in {low}..{high}, found {at}"
            )
        points.append((at, rational(weight.strip(), f"prior, weight {place}")))
    return PriorMean(tuple(points))


def _around(centre: Fraction, low: Fraction, high: Fraction) -> Points:
    step = (high - low) / _STEPS
    places = ((k, centre + k * step) for k in range(-_STEPS, _STEPS + 1))
    return tuple((at, Fraction(1, 2 ** abs(k))) for k, at in places if low <= at <= high)
