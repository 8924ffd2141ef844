"""Vectors of numbers with ranges of their own: each is asked on [-1, 1] and decoded in its unit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from askance_aggregator.learners.decisions import RatiosKept
from askance_aggregator.learners.learning import Answer, Question, RatioInterval
from askance_aggregator.learners.missing import MissingShare, RequiredDefault
from askance_aggregator.queries import clip, round_to, vector
from askance_client.errors import InvalidParameter
from askance_client.queries import MAX_COMPONENTS, Expression, constant
from askance_client.queries.limits import MAX_FRAC

_FINE = 12  # bits of a factor: a number fills its range on [-1, 1] but for 2^-11 of it
_GRID = 20  # bits of a component: rounding moves a number by 2^-22 of its range at most
_WIDEST = 1 << 31  # of ranges: factors have grids of at most 2^-40, and fill it but for 2^-10
_COARSE = 24  # bits of a number before it is scaled, so that products stay within 2^62


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A number as factor (x - low) - 1, on [-1, 1].

    Args:
        number: x, clipped to its range.
        low: its least value, in real units.
        high: its greatest.
        factor: at most 2 / (high - low), exact on its grid.
        bits: of that grid.
    """

    number: Expression
    low: Fraction
    high: Fraction
    factor: Fraction
    bits: int

    @classmethod
    def of(cls, number: Expression, bound: Fraction | None = None) -> Scaled:
        """The number on its own range, or on -bound .. bound."""
        if bound is not None:
            number = clip(number, -bound, bound)
        low, high = (Fraction(end, 1 << number.frac) for end in (number.low, number.high))
        if low == high:
            raise InvalidParameter("expected numbers with more than one possible value")
        size = (number.high - number.low).bit_length()
        if size > _COARSE and number.frac:
            number = round_to(number, max(number.frac - (size - _COARSE), 0))
            low, high = (Fraction(end, 1 << number.frac) for end in (number.low, number.high))
        whole = -(-(high - low).numerator // (high - low).denominator)
        if whole > _WIDEST:
            raise InvalidParameter(
                f"expected ranges of at most {_WIDEST}, got {float(low):g} .."
                f" {float(high):g}: give closer bounds, or set bound"
            )
        bits = min(_FINE + whole.bit_length(), MAX_FRAC)
        factor = Fraction(int(2 * (1 << bits) / (high - low)), 1 << bits)
        return cls(number, low, high, factor, bits)

    @property
    def component(self) -> Expression:
        """The scaled number, on a grid of at most 2^-20."""
        if self.low == -1 and self.factor == 1:  # on [-1, 1] already
            return self.number
        above = self.number - constant(self.low, self.number.frac)
        scaled = above * constant(self.factor, self.bits) - 1
        return round_to(scaled, _GRID) if scaled.frac > _GRID else scaled

    def at(self, value: float) -> float:
        """The number in real units."""
        return float(self.low) + (value + 1) / float(self.factor)

    def within(self, value: float) -> float:
        """The number in real units, clipped to its range."""
        return min(max(self.at(value), float(self.low)), float(self.high))


class Decoded(NamedTuple):
    """The mean of one number in real units; its interval and the share of users without it."""

    value: float
    low: float
    high: float
    missing: MissingShare | None


@dataclass(frozen=True, slots=True, eq=False)
class ScaledVector:
    """Numbers asked as one vector on [-1, 1].

    A number whose missing values are excluded is asked as two components, the number and the same
    with the other sign, and users without it answer -1 to both (`RatiosKept`): with A and B the
    means of the two, (A + B + 2) / 2 is the share of users who have the number and
    (A - B) / (A + B + 2) its mean over those. The first components of all such numbers come first,
    then the second ones, then the other numbers.

    Args:
        excluded: for each number, whether users without it are left out of its mean.
        present: the promised share of users who have each number, at least.
    """

    numbers: tuple[Scaled, ...]
    excluded: tuple[bool, ...]
    present: Fraction

    @property
    def default(self) -> int:
        """The value of all components of which a user lacks the number, on [-1, 1]."""
        return -1 if any(self.excluded) else 0

    def question(self, tau: Fraction | None) -> Question:
        """The question; each number within tau in real units, if the promise holds."""
        paired = [each.component for each in self._apart(True)]
        components = [
            *paired,
            *(-component for component in paired),
            *(each.component for each in self._apart(False)),
        ]
        if len(components) > MAX_COMPONENTS:
            raise InvalidParameter(
                f"mean-vector expects at most {MAX_COMPONENTS // 2} fields that may be missing,"
                f" got {len(self.numbers)}: name fewer columns or set missing=default"
            )
        grid = max(each.frac for each in components)
        query = vector(components, -1, 1, self.default, grid)
        tightest = None if tau is None else tau * min(each.factor for each in self.numbers)
        decision = RatiosKept(len(components), len(paired), self.present) if paired else None
        return Question(query, tightest, decision=decision)

    def _apart(self, excluded: bool) -> list[Scaled]:
        """Return the numbers whose missing values are excluded, or the others."""
        pairs = zip(self.numbers, self.excluded, strict=True)
        return [number for number, leaves in pairs if leaves is excluded]

    def required(self) -> tuple[RequiredDefault | None, ...]:
        """Return the default of each number that is required, in real units."""
        return tuple(
            None
            if excluded
            else RequiredDefault.of(
                each.number, each.low + (self.default + 1) / each.factor, each.low, each.high
            )
            for each, excluded in zip(self.numbers, self.excluded, strict=True)
        )

    def decoded(self, answer: Answer) -> tuple[Decoded, ...]:
        """The means in real units. Intervals hold together wherever the answer's do."""
        rows = list(zip(answer.values, answer.lows, answer.highs, strict=True))
        pairs = len(self._apart(True))
        known = None if answer.law is None or not pairs else answer.law.ratios(pairs)
        paired = list(zip(rows[:pairs], rows[pairs : 2 * pairs], strict=True))
        ends = tuple(_enclosed(*each) for each in paired) if known is None else known
        ratios = zip(paired, ends, strict=True)
        others = iter(rows[2 * pairs :])
        found = []
        for number, leaves in zip(self.numbers, self.excluded, strict=True):
            if leaves:
                found.append(_over_present(number, *next(ratios)))
            else:
                value, low, high = next(others)
                found.append(
                    Decoded(number.at(value), number.within(low), number.within(high), None)
                )
        return tuple(found)


Component: TypeAlias = tuple[float, float, float]
"""A component's value, and the low and the high end of its interval."""


def _enclosed(one: Component, two: Component) -> RatioInterval:
    """Enclose the mean and the share by the intervals of the two components."""
    (_, first, last), (_, least, most) = ((1 + part for part in each) for each in (one, two))
    first, least = max(first, 0.0), max(least, 0.0)
    low = (first - most) / (first + most) if first + most > 0 else -1.0
    high = (last - least) / (last + least) if last + least > 0 else 1.0
    share = min((first + least) / 2, 1.0), min((last + most) / 2, 1.0)
    return RatioInterval((low, high), share)


def _over_present(
    number: Scaled, paired: tuple[Component, Component], ends: RatioInterval
) -> Decoded:
    one, two = paired
    above, beside = one[0] + 1, two[0] + 1
    both = above + beside
    mean = (above - beside) / both if both > 0 else 0.0
    return Decoded(
        number.within(mean),
        number.within(ends.mean[0]),
        number.within(ends.mean[1]),
        MissingShare.outside(both / 2, *ends.share),
    )
