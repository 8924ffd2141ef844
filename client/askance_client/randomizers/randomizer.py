"""Interface of every randomizer: its law, a draw from coins, and the certified loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from operator import index
from struct import pack
from typing import ClassVar

from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.loss import PrivacyLoss

MISSING_BYTE = 0xFF
DRAW_COST = 16  # of the fixed part of a draw: its checks and the report, some 3 us on a server


class Randomizer(ABC):
    """An epsilon-local randomizer from levels 0..levels-1 to reports of `width` bytes.

    Privacy: pure epsilon-LDP, replace-one, with the epsilon of `loss`, which is computed from the
    randomizer's integers; no statement of an aggregator about it is used.

    A report that is all 0xFF is reserved for "missing" and is in no alphabet.
    Source: KLNRS08 Definitions 4.3 and 4.7 (transparent).
    """

    __slots__ = ()

    name: ClassVar[str]
    """The family's name, on the wire and in `canonical`."""

    @property
    @abstractmethod
    def levels(self) -> int:
        """Number of inputs."""

    @property
    def vector_components(self) -> int:
        """Number of components, where levels are made from vectors; 0 if levels are cells."""
        return 0

    @property
    def vector_coins(self) -> int:
        """Number of coins that make a vector a level (`vector_level`)."""
        return 0

    def vector_level(self, values: Sequence[int], low: int, high: int, coins: Sequence[int]) -> int:
        """Return the level of a vector.

        Privacy: the coins are others than those of the draw: the report then follows a mixture of
        the laws of levels, and its epsilon is kept.

        Args:
            values: one per component, each in low..high.
            low: the least value of every component.
            high: the greatest.
            coins: exactly `self.vector_coins` words.

        Raises:
            InvalidParameter: the levels are not made from vectors.
        """
        raise InvalidParameter(f"levels of {self.name} are cells, found a vector")

    @property
    @abstractmethod
    def coins(self) -> int:
        """Number of 64-bit words of every draw, for every level and report."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of bytes of every report."""

    @property
    @abstractmethod
    def draw_cost(self) -> int:
        """Work of every draw: rounding, `randomize` and the report's bytes.

        In the unit of an expression's weight, which one node, argument or constant takes: a loop
        of Python over one item has one or two, an item of a loop in C a part of one. A function of
        the parameters alone, for every level and all coins, and a bound of the work in that unit.
        """

    @property
    @abstractmethod
    def loss(self) -> PrivacyLoss:
        """Privacy loss, exact or certified from above."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[int, ...]:
        """Integers below 2^64 that, with the name, determine the randomizer."""

    @property
    def canonical(self) -> bytes:
        """Name and parameters as bytes, different for any two randomizers."""
        name = self.name.encode("ascii")
        numbers = self.parameters
        return pack(f">B{len(name)}sI{len(numbers)}Q", len(name), name, len(numbers), *numbers)

    @abstractmethod
    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draw a report for `level`: a pure function of level and coins.

        Args:
            level: 0..levels-1.
            coins: exactly `self.coins` words, independent and uniform in 0..2^64-1.

        Returns:
            A report of the alphabet, `width` bytes.

        Raises:
            InvalidParameter: level or coins are not of that form; nothing is released.
        """

    def check_level(self, level: int) -> None:
        """Refuse a level that is not one, since a negative index would count from the end."""
        if not 0 <= level < self.levels:
            raise InvalidParameter(f"a level lies in 0..{self.levels - 1}, found one outside")

    def check_draw(self, level: int, coins: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """Return level and coins as plain ints of the right number and range.

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
        self.check_level(level)
        if len(words) != self.coins:
            raise InvalidParameter(f"a draw takes {self.coins} coins, found {len(words)}")
        if words and not (min(words) >= 0 and max(words) < COIN_SPACE):
            raise InvalidParameter("a coin lies in 0..2^64-1, found one outside")
        return level, words


class NumberedRandomizer(Randomizer):
    """A randomizer whose report is a number below `reports`, big-endian.

    A report has the fewest bytes that hold `reports` itself, so that it is never all ones.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def reports(self) -> int:
        """The number that every report lies below."""

    @property
    def width(self) -> int:
        """The fewest bytes that hold `reports`."""
        return -(-self.reports.bit_length() // 8)


def check_integer(name: str, number: int, least: int, most: int) -> None:
    """Refuse a parameter that is out of range, or no plain int: a fixed-width one would wrap."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidParameter(f"{name}: expected a plain int, got {type(number).__name__}")
    if not least <= number <= most:
        raise InvalidParameter(f"{name}: expected {least}..{most}, got {number}")


def check_threshold(threshold: int) -> None:
    """Refuse a number of coins out of 2^64 that is none or all: a loss without bound."""
    check_integer("threshold", threshold, 1, COIN_SPACE - 1)
