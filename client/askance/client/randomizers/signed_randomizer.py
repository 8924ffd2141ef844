"""What a randomizer is that tells signed values, but not the shares of their cells."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, NoReturn

from askance.client.errors import InvalidParameter
from askance.client.randomizers.randomizer import Counts, Randomizer, check_integer

MAX_VALUES = 32767  # 2 d + 1 cells of a query


class SignRates(NamedTuple):
    """P[the report points to + at a given value].

    By symmetry also P[it points to -], with + and - exchanged for the user.

    Args:
        hit: the user is at + of that value.
        miss: the user is at - of it.
        stray: the user is elsewhere; where that is two chances, the greater one.
    """

    hit: Fraction
    miss: Fraction
    stray: Fraction


class SignedRandomizer(Randomizer):
    """A randomizer for d disjoint signed values: level 2j is + at value j, 2j + 1 is - at it.

    Level 2d is neutral: at no value. The estimate of value j is E[sign 1[at j]], which the
    difference of two numbers of reports shows, those that point to + at j and those that point to
    -. The shares of + and of - for themselves are not told: fewer numbers are reported than that
    would take.
    """

    __slots__ = ()

    values: int
    """d: how many values there are."""

    @property
    def levels(self) -> int:
        """Two a value, and the neutral one."""
        return 2 * self.values + 1

    @property
    @abstractmethod
    def sign_rates(self) -> SignRates:
        """How often a report points to + at a value."""

    @abstractmethod
    def pointing(
        self, counts: Sequence[int] | Counts, n: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """How many of n reports point to + at each value, and how many to -.

        Raises:
            InvalidParameter: the counts are no tally of n > 0 reports.
        """

    @abstractmethod
    def value_variance(self) -> Fraction:
        """n x conditional variance of a value, averaged over values.

        For users each of whom is at a value; whichever, it is the same.
        """

    def signed_values(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Estimates from a tally of n reports the signed value at each j.

        Utility: unbiased, exactly; not clipped to [-1, 1].

        Raises:
            InvalidParameter: the tally is not one of n > 0 reports, or + and - are told alike.
        """
        plus, minus = self.pointing(counts, n)
        scale = n * self.sign_gap
        return tuple(Fraction(more - less, scale) for more, less in zip(plus, minus, strict=True))

    @property
    def sign_gap(self) -> Fraction:
        """What a value of 1 adds to the mean difference of pointing to + and to -."""
        rates = self.sign_rates
        if rates.hit == rates.miss:
            raise InvalidParameter("+ and - are reported equally often: no value is told")
        return rates.hit - rates.miss

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> NoReturn:
        """Not told.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(f"{self.name} tells signed values, not the shares of their cells")

    def frequency_variance(self) -> NoReturn:
        """Not told.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(f"{self.name} tells signed values, not the shares of their cells")


def check_values(values: int) -> None:
    """Refuses a number of signed values outside 1..32767."""
    check_integer("values", values)
    if not 1 <= values <= MAX_VALUES:
        raise InvalidParameter(f"there are 1..{MAX_VALUES} signed values, found {values}")
