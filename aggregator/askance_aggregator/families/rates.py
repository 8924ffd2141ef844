"""Rates: probabilities of inclusion in a report, and estimates from counts of inclusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from askance_client.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class InclusionRates:
    """Probabilities that cell v is in the report of cell x: `own` for v = x, `other` for v != x.

    Utility: share_v = (c_v / n - other) / (own - other) is unbiased, for
    E[c_v / n] = other + share_v (own - other).
    """

    own: Fraction
    other: Fraction

    def frequencies(self, counts: Sequence[int], n: int) -> tuple[Fraction, ...]:
        """The unbiased shares from how many of n reports contain each cell."""
        gap = self._gap()
        # Many cells have few different counts.
        shares = {count: Fraction(Fraction(count, n) - self.other, gap) for count in set(counts)}
        return tuple(shares[count] for count in counts)

    def variance(self, cells: int) -> Fraction:
        """Return n times the conditional variance, averaged over cells."""
        # Each user is own to one cell and other to the remaining ones, so that the average is the
        # same for every truth.
        spread = self.own * (1 - self.own) + (cells - 1) * self.other * (1 - self.other)
        gap = self._gap()
        return Fraction(spread, cells * gap * gap)

    def _gap(self) -> Fraction:
        if self.own == self.other:
            raise InvalidParameter(
                "a cell is reported equally often by all: shares cannot be estimated"
            )
        return self.own - self.other


class JointRates(NamedTuple):
    """Probabilities that two given cells are both in a report.

    Args:
        own: one of them is the user's own cell.
        others: neither is.
    """

    own: Fraction
    others: Fraction


class VectorRates(NamedTuple):
    """Second moments of the estimate Z that one report makes of its user's vector v, E[Z | v] = v.

    E[Z_i^2 | v] = own + square v_i^2, and E[Z_i Z_j | v] = pair v_i v_j for i other than j.

    Args:
        reach: the most that a sum w Z can be over the sum of the sizes of the weights w.
    """

    own: float
    square: float
    pair: float
    reach: float


class SignRates(NamedTuple):
    """Probabilities that a report points to + at a given value.

    By symmetry also P[it points to -], with + and - exchanged for the user.

    Args:
        hit: the user is at + of that value.
        miss: the user is at - of it.
        stray: the user is elsewhere; where that is two chances, the greater one.
    """

    hit: Fraction
    miss: Fraction
    stray: Fraction
