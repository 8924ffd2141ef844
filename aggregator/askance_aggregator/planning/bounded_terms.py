"""Estimates that are means of bounded terms of a known variance."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from askance_aggregator.planning.tails import Failure, Tail


@dataclass(frozen=True, slots=True)
class BoundedTerms(Tail):
    """A term has at most this variance, and is at most `reach` from its mean.

    Args:
        variance: of a term, at most.
        reach: in the unit of its root.

    Source: Bernstein's inequality.
    """

    variance: float
    reach: float

    def exponent(self, tau: float) -> float:
        """Bernstein's exponent."""
        return tau * tau / (2 * (self.variance + self.reach * tau / 3))

    def failure(self, tau: float) -> Failure:
        """Bernstein's bound, on both sides."""
        rate = self.exponent(tau)
        return lambda users: 2 * exp(-users * rate)
