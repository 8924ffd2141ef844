"""Statistical query for the likelihood of a user's reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from math import prod

from askance_aggregator.learners import Question
from askance_aggregator.queries import cross, dot, real
from askance_client.errors import InvalidAnswer, InvalidParameter
from askance_client.exact_laws import probability
from askance_client.queries import Query
from askance_papers.reductions.local_algorithms import LocalCall

_GRID = 28  # g lies in [-1, 1] and is rounded to multiples of 2^-28
_ROUNDED = Fraction(1, 1 << (_GRID + 1))


@dataclass(frozen=True, slots=True)
class Factor:
    """A report that a user gave, as a function of the user's level.

    Args:
        chances: Pr[report | level], one a level.
        ratio: e^eps, or a little more: no two chances are further apart.
    """

    query: Query
    chances: tuple[Fraction, ...]
    ratio: Fraction

    @classmethod
    def of(cls, call: LocalCall, report: bytes) -> Factor:
        """The factor of one answered call."""
        randomizer = call.randomizer
        chances = tuple(probability(randomizer, level, report) for level in range(call.query.cells))
        loss = randomizer.loss
        return cls(call.query, chances, Fraction(loss.numerator, loss.denominator))


@dataclass(frozen=True)
class Product:
    """r(z): the probability of all reports of one user, if its record is z.

    What is asked is g(z) = (r(z) - r(0)) / (r(0) (E - 1/E)), which lies in [-1, 1]; E is the
    product of the factors' ratios, and "0" a record at level 0 of every query. (A record that lacks
    a field which any of the queries uses counts as if all of them had their public defaults.)

    Source: KLNRS08 Lemmas 4.4 and 4.5.
    """

    factors: tuple[Factor, ...]

    @cached_property
    def ratio(self) -> Fraction:
        """E."""
        return prod((factor.ratio for factor in self.factors), start=Fraction(1))

    @cached_property
    def base(self) -> Fraction:
        """r(0)."""
        return self.at([0] * len(self.factors))

    def at(self, levels: Sequence[int]) -> Fraction:
        """Return r of a record at these levels."""
        pairs = zip(self.factors, levels, strict=True)
        return prod((factor.chances[level] for factor, level in pairs), start=Fraction(1))

    def question(self, relative: Fraction) -> Question:
        """E[g], so exactly that E[r] is known to a factor within 1 -+ relative."""
        # An answer within tau moves E[r] by less than tau r(0) (E - 1/E) <= tau E[r] (E^2 - 1).
        tau = relative / (self.ratio**2 - 1) - _ROUNDED
        if tau <= 0:
            raise InvalidParameter("a tolerance expects more than 2^-29 of [-1, 1], found less")
        return Question(self._query, min(tau, Fraction(1)))

    def estimate(self, value: float, question: Question) -> Fraction:
        """E[r] by the answer."""
        tau = question.working_tau + _ROUNDED
        low, high = self._reach
        if not low - tau < Fraction(value) < high + tau:
            raise InvalidAnswer(
                f"question 0: expected a value within {float(tau):g} of {float(low):g} .."
                f" {float(high):g}, found {value:g}"
            )
        return self.base * (1 + Fraction(value) * self._scale)

    @cached_property
    def _scale(self) -> Fraction:
        return self.ratio - 1 / self.ratio

    @cached_property
    def _cells(self) -> tuple[Fraction, ...]:
        """Return g by joint level, the last query's varying fastest."""
        joint = product(*(range(len(factor.chances)) for factor in self.factors))
        return tuple((self.at(levels) / self.base - 1) / self._scale for levels in joint)

    @cached_property
    def _reach(self) -> tuple[Fraction, Fraction]:
        return min(self._cells), max(self._cells)

    @cached_property
    def _query(self) -> Query:
        index = cross(*(factor.query.expression for factor in self.factors))
        g = dot(self._cells, [index == cell for cell in range(len(self._cells))], frac_bits=_GRID)
        missing = self.at([factor.query.default for factor in self.factors])
        return real(g, -1, 1, (missing / self.base - 1) / self._scale)


@lru_cache(maxsize=1024)
def product_of(factors: tuple[Factor, ...]) -> Product:
    """The product of these factors, built once: users who gave the same reports are alike."""
    return Product(factors)
