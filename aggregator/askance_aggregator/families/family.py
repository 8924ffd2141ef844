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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families.rates import InclusionRates, JointRates, SignRates
from askance_client.errors import InvalidParameter
from askance_client.randomizers import Randomizer

if TYPE_CHECKING:
    from askance_aggregator.families.channel import TableFamily
    from askance_aggregator.families.random_codebook import CodebookFamily
    from askance_aggregator.families.signed_family import SignedFamily

R = TypeVar("R", bound=Randomizer)

Reports = NDArray[np.uint8]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Family(ABC, Generic[R]):
    """Facts of one randomizer for an aggregator.

    Args:
        randomizer: the device's part, which draws reports and certifies its loss.
    """

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

    def containing(self, counts: Sequence[int] | Counts, level: int) -> int:
        """Return the count that `inclusion` is of: how many reports contain the level."""
        return int(counts[level])

    def pair_rates(self) -> SignRates:
        """Compute P[one given cell of a pair is in the report and the other is not].

        `stray` is the chance at any third cell; where that is not the same for all, the greatest,
        which is the worst for a tail.

        Raises:
            InvalidParameter: the family has no such rates.
        """
        raise InvalidParameter(f"no pairs are known for the family {self.randomizer.name}")

    @property
    def least_stray(self) -> Fraction | None:
        """Least chance of `pair_rates().stray`; None if it is the same for all cells."""
        return None

    @property
    def table(self) -> TableFamily | None:
        """The family as a table of integers; None for a structured family."""
        return None

    @property
    def signed(self) -> SignedFamily[Any] | None:
        """The family as one of signed values; None for another one."""
        return None

    @property
    def directions(self) -> CodebookFamily | None:
        """The family as one of directions, whose tally is a sum of vectors; None for another."""
        return None

    @property
    def packs_bits(self) -> bool:
        """Return whether a report is one bit, so that eight of them take a byte."""
        return False

    def check_reports(self, reports: Reports) -> None:
        """Refuse an array that does not have the shape and dtype of reports."""
        width = self.randomizer.width
        if reports.dtype != np.uint8 or reports.ndim != 2 or reports.shape[1] != width:
            raise InvalidParameter(
                f"reports: expected uint8 of shape (n, {width}), "
                f"got {reports.dtype} of shape {reports.shape}"
            )


_FAMILIES: dict[type[Randomizer], Callable[[Any], Family[Any]]] = {}


def describes(kind: type[R]) -> Callable[[type[Family[R]]], type[Family[R]]]:
    """Register a family class for a class of randomizers."""

    def register(family: type[Family[R]]) -> type[Family[R]]:
        _FAMILIES[kind] = family
        return family

    return register


def family_of(randomizer: Randomizer) -> Family[Any]:
    """Return the family of a randomizer.

    Raises:
        InvalidParameter: no family is registered for its class.
    """
    make = _FAMILIES.get(type(randomizer))
    if make is None:
        raise InvalidParameter(
            f"randomizer: expected one of a registered family, got {type(randomizer).__name__}"
        )
    return make(randomizer)


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
