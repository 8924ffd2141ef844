"""Vectors of numbers with ranges of their own: each is asked on [-1, 1] and decoded in its unit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from askance_aggregator.learners.learning import Answer, Question
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
        """The number on its own range, or on -bound .. bound.

        Raises:
            InvalidParameter: the number has one possible value only, or a range above 2^31.
        """
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

    @property
    def presence(self) -> Expression:
        """1 for every record that has the number."""
        return self.number <= self.high

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

    Where missing values are excluded, each is followed by its presence, and users without it answer
    -1 to both: with A and S the means of the two, q = (1 + S) / 2 is the share of users who have
    the number and (A + 1) / q - 1 its mean over those.

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
        components = []
        for number, excluded in zip(self.numbers, self.excluded, strict=True):
            components += [number.component, number.presence][: 1 + excluded]
        if len(components) > MAX_COMPONENTS:
            raise InvalidParameter(
                f"mean-vector expects at most {MAX_COMPONENTS // 2} fields with their presences,"
                f" got {len(self.numbers)}: name fewer columns or set missing=default"
            )
        grid = max(each.frac for each in components)
        return Question(vector(components, -1, 1, self.default, grid), self._tolerance(tau))

    def _tolerance(self, tau: Fraction | None) -> Fraction | None:
        """With A and S within t, a mean is off by less than 2 t / (q - t / 2)."""
        if tau is None:
            return None
        tolerances = []
        for number, excluded in zip(self.numbers, self.excluded, strict=True):
            scaled = tau * number.factor
            tolerances.append(scaled * self.present / (2 + scaled / 2) if excluded else scaled)
        return min(tolerances)

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
        rows = iter(zip(answer.values, answer.lows, answer.highs, strict=True))
        found = []
        for number, excluded in zip(self.numbers, self.excluded, strict=True):
            value, low, high = next(rows)
            if excluded:
                found.append(_over_present(number, (value, low, high), next(rows)))
            else:
                found.append(
                    Decoded(number.at(value), number.within(low), number.within(high), None)
                )
        return tuple(found)


def _over_present(
    number: Scaled, scaled: tuple[float, float, float], presence: tuple[float, float, float]
) -> Decoded:
    share, least, most = ((1 + part) / 2 for part in presence)
    value, low, high = (1 + part for part in scaled)
    mean = value / share - 1 if share > 0 else 0.0
    missing = MissingShare(min(max(1 - share, 0.0), 1.0), 1 - most, 1 - least)
    return Decoded(
        number.within(mean),
        number.within(low / most - 1 if most > 0 else -1.0),
        number.within(high / least - 1 if least > 0 else 1.0),
        missing,
    )
