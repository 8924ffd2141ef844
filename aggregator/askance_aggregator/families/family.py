"""Randomizer families: all that only an aggregator needs to know of a randomizer.

A device knows how to draw a report and what the draw costs (`askance_client.randomizers`). A family
adds the facts that an aggregator, a planner, a simulation or an audit needs: the alphabet, exact
probabilities, the tally, estimates, variances and inclusion rates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.comparisons import Comparisons, TwoSymbols
from askance_aggregator.families.rates import InclusionRates, JointRates, SignRates, VectorRates
from askance_aggregator.names import unknown_name
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer

R = TypeVar("R", bound=Randomizer)

Reports = NDArray[np.uint8]
Counts = NDArray[np.int64]
Maker = Callable[[int, int], Randomizer]
"""Makes the randomizer of a number of cells (values, components, levels) for nano-nats."""

M = TypeVar("M", bound=Maker)


@dataclass(frozen=True, slots=True)
class Family(ABC, Generic[R]):
    """Facts of one randomizer for an aggregator."""

    randomizer: R

    @property
    @abstractmethod
    def text(self) -> str:
        """Name with the main parameters: "randomized-response", "subset-selection(17, 2)"."""

    @abstractmethod
    def alphabet(self) -> Iterator[bytes]:
        """Iterate over all reports, for audits of small randomizers."""

    @abstractmethod
    def tally(self, reports: Reports) -> Counts:
        """Count reports into the sufficient statistic, which neither order nor shards change.

        Args:
            reports: shape (n, width), all valid, without missing ones.

        Raises:
            InvalidParameter: a wrong shape or dtype, or reports outside the alphabet.
        """

    @abstractmethod
    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Estimate the share of users at each level from a tally of n reports.

        Utility: unbiased, exactly; not projected onto the simplex, so shares may leave [0, 1].

        Raises:
            InvalidParameter: the tally is not one of n > 0 reports, or some level's share cannot be
                estimated.
        """

    @abstractmethod
    def frequency_variance(self) -> Fraction:
        """Compute n x the conditional variance of `frequencies`, averaged over levels.

        Conditional means given the users at hand. The symmetric families have the same for every
        truth; a table has its worst.
        """

    def inclusion(self, level: int) -> InclusionRates | None:
        """Return the rates of the count that shows a level's share; None if no single count does.

        For sign patterns a "level" is a component, and its count that of reports with it at +.
        """
        return None

    def joint_rates(self) -> JointRates | None:
        """Return the rates of two cells in one report, alike for all pairs; None: not known."""
        return None

    def vector_rates(self, half: float) -> VectorRates | None:
        """Return the second moments of the estimate of a vector, in grid units; None: not known.

        Args:
            half: a component's greatest value, in grid units; its least one is -half.
        """
        return None

    def containing(self, counts: Sequence[int] | Counts, level: int) -> int:
        """Return the count that `inclusion` is of: how many reports contain the level."""
        return int(counts[level])

    @property
    def has_one_count(self) -> bool:
        """Return whether one count tells all shares: each report is of one of two levels."""
        return False

    def pair_rates(self) -> SignRates:
        """Compute P[one given cell of a pair is in the report and the other is not].

        `stray` is the chance at any third cell; where that is not the same for all, the greatest,
        which is the worst for a tail.
        """
        raise InvalidParameter(f"no pairs are known for the family {self.randomizer.name}")

    @property
    def least_stray(self) -> Fraction | None:
        """Least chance of `pair_rates().stray`; None if it is the same for all cells."""
        return None

    @property
    def signed(self) -> SignedFamily[Any] | None:
        """The family as one of signed values; None for another one."""
        return None

    @property
    def packs_bits(self) -> bool:
        """Return whether a report is one bit, so that eight of them take a byte."""
        return False

    def comparisons(self) -> Comparisons | TwoSymbols | None:
        """Reduce the randomizer for the accountant of shuffled batches; None: nothing proved."""
        return None

    def check_reports(self, reports: Reports) -> None:
        """Refuse an array that does not have the shape and dtype of reports."""
        width = self.randomizer.width
        if reports.dtype != np.uint8 or reports.ndim != 2 or reports.shape[1] != width:
            raise InvalidParameter(
                f"reports: expected uint8 of shape (n, {width}), "
                f"got {reports.dtype} of shape {reports.shape}"
            )


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
        """Compute n x conditional variance, averaged over values, for users each at any value."""

    def signed_values(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Estimate the signed value at each j from a tally of n reports.

        Utility: unbiased, exactly; not clipped to [-1, 1].
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
        """Refuse the call."""
        raise InvalidParameter(
            f"{self.randomizer.name} estimates signed values, not the shares of their cells"
        )

    def frequency_variance(self) -> NoReturn:
        """Refuse the call."""
        raise InvalidParameter(
            f"{self.randomizer.name} estimates signed values, not the shares of their cells"
        )


_FAMILIES: dict[type[Randomizer], Callable[[Any], Family[Any]]] = {}
_MAKERS: dict[str, Maker] = {}


def describes(kind: type[R]) -> Callable[[type[Family[R]]], type[Family[R]]]:
    """Register a family class for a class of randomizers."""

    def register(family: type[Family[R]]) -> type[Family[R]]:
        _FAMILIES[kind] = family
        return family

    return register


def family_of(randomizer: Randomizer) -> Family[Any]:
    """Return the family of a randomizer."""
    make = _FAMILIES.get(type(randomizer))
    if make is None:
        raise InvalidParameter(
            f"randomizer: expected one of a registered family, got {type(randomizer).__name__}"
        )
    return make(randomizer)


def makes(name: str) -> Callable[[M], M]:
    """Register a function that makes a family's randomizer by a name (see `make`)."""

    def register(maker: M) -> M:
        _MAKERS[name] = maker
        return maker

    return register


def make(name: str, cells: int, nano: int) -> Randomizer:
    """Make a family's usual randomizer for a number of cells and a budget.

    Args:
        name: "k-ary-response", ... (`makers`).
        cells: of its input: cells of a category, values of a sign, components of a vector, levels
            of a number.
        nano: > 0, nano-nats.
    """
    if name not in _MAKERS:
        raise unknown_name("randomizer", name, makers())
    return _MAKERS[name](cells, nano)


def makers() -> tuple[str, ...]:
    """Return the names of randomizers that `make` takes, sorted."""
    return tuple(sorted(_MAKERS))


def registered() -> tuple[type[Randomizer], ...]:
    """Return the classes of randomizers that have a family."""
    return tuple(_FAMILIES)


def check_counts(counts: Sequence[int] | Counts, n: int, symbols: int, total: int) -> list[int]:
    """Return a tally as plain ints; refuse one that is not of n reports, with sum `total`."""
    plain = check_each_count(counts, n, symbols)
    if sum(plain) != total:
        raise InvalidParameter(
            f"counts: expected 0..{n} each and a sum of {total} for {n} reports, "
            f"got a sum of {sum(plain)}"
        )
    return plain


def check_each_count(counts: Sequence[int] | Counts, n: int, symbols: int) -> list[int]:
    """Return a tally as plain ints; refuse one without `symbols` counts of n reports each."""
    if n <= 0:
        raise InvalidParameter(f"n: expected at least one report, got {n}")
    # int(): a fixed-width integer inside a Fraction would wrap around.
    plain = [int(count) for count in counts]
    if len(plain) != symbols:
        raise InvalidParameter(f"counts: expected {symbols} of them, got {len(plain)}")
    if min(plain) < 0 or max(plain) > n:
        raise InvalidParameter(
            f"counts: expected 0..{n} each for {n} reports, got {min(plain)}..{max(plain)}"
        )
    return plain
