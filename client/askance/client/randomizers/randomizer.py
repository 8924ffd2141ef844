"""What every randomizer is: one object that states, samples, checks, counts and de-biases.

The device and the aggregator use the same object, so that the two sides cannot drift apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from operator import index
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from askance.client.errors import InvalidParameter
from askance.client.randomizers.coins import COIN_SPACE
from askance.client.randomizers.loss import PrivacyLoss

MISSING_BYTE = 0xFF

Reports = NDArray[np.uint8]
Counts = NDArray[np.int64]


class Randomizer(ABC):
    """An epsilon-local randomizer from levels 0..levels-1 to reports of `width` bytes.

    Privacy: pure epsilon-LDP, replace-one, with the epsilon of `loss`; nothing that is told about
    the randomizer is believed, its loss is computed from its integers.

    A report that is all 0xFF is reserved for "missing" and is in no alphabet.
    Source: KLNRS08 Definitions 4.3 and 4.7 (transparent).
    """

    __slots__ = ()

    name: ClassVar[str]
    """The family's name, on the wire and in `canonical`."""

    @property
    @abstractmethod
    def levels(self) -> int:
        """How many inputs there are."""

    @property
    @abstractmethod
    def coins(self) -> int:
        """How many 64-bit words every draw takes, whatever the level and the report."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many bytes every report has."""

    @property
    @abstractmethod
    def loss(self) -> PrivacyLoss:
        """The privacy loss, exact or certified from above."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[int, ...]:
        """The integers below 2^64 that, with the name, determine everything."""

    @property
    def canonical(self) -> bytes:
        """Name and parameters as bytes; no two randomizers share theirs."""
        name = self.name.encode("ascii")
        head = bytes([len(name)]) + name + len(self.parameters).to_bytes(4, "big")
        return head + b"".join(number.to_bytes(8, "big") for number in self.parameters)

    @abstractmethod
    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Answers for `level` by chance: a pure function of level and coins.

        Args:
            level: 0..levels-1.
            coins: exactly `self.coins` words, independent and uniform in 0..2^64-1.

        Returns:
            A report of the alphabet, `width` bytes.

        Raises:
            InvalidParameter: level or coins are not of that form; nothing is released.
        """

    @abstractmethod
    def valid(self, report: bytes) -> bool:
        """Whether the report is in the alphabet, in its one canonical form."""

    @abstractmethod
    def alphabet(self) -> Iterator[bytes]:
        """All reports, for audits of small randomizers."""

    @abstractmethod
    def probability(self, level: int, report: bytes) -> Fraction:
        """Pr[report | level]; 0 for what is not in the alphabet."""

    @abstractmethod
    def tally(self, reports: Reports) -> Counts:
        """Counts reports into the sufficient statistic, which neither order nor shards change.

        Args:
            reports: shape (n, width), all valid; missing ones are to be left out.

        Raises:
            InvalidParameter: a wrong shape or dtype, or reports outside the alphabet.
        """

    @abstractmethod
    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Estimates from a tally of n reports the share of users at each level.

        Utility: unbiased, exactly; not projected onto the simplex, so shares may leave [0, 1].

        Raises:
            InvalidParameter: the tally is not one of n > 0 reports, or the randomizer tells nothing
                about some level.
        """

    @abstractmethod
    def frequency_variance(self) -> Fraction:
        """n x the conditional variance of `frequencies`, averaged over levels.

        Conditional means given the users at hand. The symmetric families have the same for every
        truth; a table has its worst.
        """

    def check_draw(self, level: int, coins: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """Level and coins as plain ints of the right number and range.

        A fixed-width integer would wrap around in the products to come, silently. The message does
        not tell the level: it is the user's.
        """
        try:
            level = index(level)
            words = tuple(map(index, coins))
        except TypeError:
            raise InvalidParameter(
                "a level and its coins are integers, found another type"
            ) from None
        if not 0 <= level < self.levels:
            raise InvalidParameter(f"a level lies in 0..{self.levels - 1}, found one outside")
        if len(words) != self.coins:
            raise InvalidParameter(f"a draw takes {self.coins} coins, found {len(words)}")
        if words and not (min(words) >= 0 and max(words) < COIN_SPACE):
            raise InvalidParameter("a coin lies in 0..2^64-1, found one outside")
        return level, words

    def check_level(self, level: int) -> None:
        """Refuses a level that is not one, for negative indices would count from the end."""
        if not 0 <= level < self.levels:
            raise InvalidParameter(f"a level lies in 0..{self.levels - 1}, found one outside")

    def check_reports(self, reports: Reports) -> None:
        """Refuses an array that does not have the shape and dtype of reports."""
        if reports.dtype != np.uint8 or reports.ndim != 2 or reports.shape[1] != self.width:
            raise InvalidParameter(
                f"reports are uint8 of shape (n, {self.width}), "
                f"found {reports.dtype} of shape {reports.shape}"
            )


def check_integer(name: str, number: int) -> None:
    """Refuses a parameter that is no plain int: a fixed-width one would wrap around, silently."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidParameter(f"{name} is a plain int, found {type(number).__name__}")


def check_counts(counts: Sequence[int] | Counts, n: int, symbols: int, total: int) -> list[int]:
    """A tally as plain ints, refused unless it is one of n reports that sums to `total`."""
    plain = check_each_count(counts, n, symbols)
    if sum(plain) != total:
        raise InvalidParameter(
            f"a tally of {n} reports has counts in 0..{n} that sum to {total}, "
            f"found a sum of {sum(plain)}"
        )
    return plain


def check_each_count(counts: Sequence[int] | Counts, n: int, symbols: int) -> list[int]:
    """A tally as plain ints, refused unless it has `symbols` counts of n reports each."""
    if n <= 0:
        raise InvalidParameter(f"an estimate needs at least one report, found n = {n}")
    # int(): a fixed-width integer inside a Fraction would wrap around.
    plain = [int(count) for count in counts]
    if len(plain) != symbols:
        raise InvalidParameter(f"a tally has {symbols} counts, found {len(plain)}")
    if min(plain) < 0 or max(plain) > n:
        raise InvalidParameter(
            f"a tally of {n} reports has counts in 0..{n}, found {min(plain)} to {max(plain)}"
        )
    return plain
