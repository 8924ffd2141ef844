"""Families of signed values, without the shares of their cells."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, NoReturn

from askance_aggregator.families.family import Counts, Family, R
from askance_aggregator.families.rates import SignRates
from askance_client.errors import InvalidParameter


class SignedFamily(Family[R]):
    """Family for d disjoint signed values: level 2j is + at value j, 2j + 1 is - at it.

    Level 2d is neutral: at no value. The estimate of value j is E[sign 1[at j]], the scaled
    difference of two counts: reports that point to + at j and reports that point to - at j. The
    separate shares of + and of - cannot be estimated, since a report carries fewer numbers.
    """

    __slots__ = ()

    complementary: ClassVar[bool] = False
    """True if every report that does not point to + at a value points to - there."""

    @property
    def signed(self) -> SignedFamily[R]:
        """The family itself."""
        return self

    def pair_rates(self) -> SignRates:
        """Rates of a signed value."""
        return self.sign_rates

    @property
    @abstractmethod
    def sign_rates(self) -> SignRates:
        """Rates of a report's pointing to + at a value."""

    @abstractmethod
    def pointing(
        self, counts: Sequence[int] | Counts, n: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Count the reports that point to + at each value, and those that point to -.

        Raises:
            InvalidParameter: the counts are no tally of n > 0 reports.
        """

    @abstractmethod
    def value_variance(self) -> Fraction:
        """Compute n x conditional variance of a value, averaged over values.

        For users each of whom is at a value; whichever, it is the same.
        """

    def signed_values(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Estimate the signed value at each j from a tally of n reports.

        Utility: unbiased, exactly; not clipped to [-1, 1].

        Raises:
            InvalidParameter: the tally is not one of n > 0 reports, or + and - are reported alike.
        """
        plus, minus = self.pointing(counts, n)
        scale = n * self.sign_gap
        return tuple(Fraction(more - less, scale) for more, less in zip(plus, minus, strict=True))

    @property
    def sign_gap(self) -> Fraction:
        """Mean difference of pointing to + and to - that a value of 1 adds."""
        rates = self.sign_rates
        if rates.hit == rates.miss:
            raise InvalidParameter("+ and - are reported equally often: no value can be estimated")
        return rates.hit - rates.miss

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> NoReturn:
        """Refuse the call.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(
            f"{self.randomizer.name} estimates signed values, not the shares of their cells"
        )

    def frequency_variance(self) -> NoReturn:
        """Refuse the call.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(
            f"{self.randomizer.name} estimates signed values, not the shares of their cells"
        )
