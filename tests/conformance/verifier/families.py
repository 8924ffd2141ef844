"""Interface of every randomizer family, and the draws that families share."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import gcd
from typing import ClassVar

from tests.conformance.verifier.losses import charge
from tests.conformance.verifier.wire import Message

M = 1 << 64
MAX_ROUNDING_LEVELS = 1 << 16


class InvalidRandomizer(Exception):
    """Parameters out of range, or a loss without bound."""


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidRandomizer(f"expected {what}")


class Family:
    """Interface of every family.

    Args:
        message: the decoded parameters, each of which becomes an attribute.
    """

    name: ClassVar[str]
    levels: int
    coins: int
    components = 0  # of vectors; 0 if levels are cells

    def __init__(self, message: Message) -> None:
        self.parameters = list(message.values())
        self.__dict__.update(message)
        self.check()

    def check(self) -> None:
        """Refuse parameters out of range, and set `levels` and `coins`."""
        raise NotImplementedError

    def ratio(self) -> tuple[int, int]:
        """Largest ratio of two levels' chances of one report, exact or bounded from above."""
        raise NotImplementedError

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """The report of a level, from `coins` words."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Number of bytes of a report."""
        raise NotImplementedError

    def valid(self, report: bytes) -> bool:
        """Return whether a report is in the alphabet."""
        raise NotImplementedError

    def rounding_coins(self) -> int:
        """Number of coins that make a vector a level."""
        return 0

    def vector_level(self, values: list[int], low: int, high: int, coins: list[int]) -> int:
        """Level of a vector whose components are in low..high."""
        raise InvalidRandomizer("levels are cells")

    @property
    def loss(self) -> tuple[int, int]:
        """`ratio` in lowest terms."""
        numerator, denominator = self.ratio()
        common = gcd(numerator, denominator)
        return numerator // common, denominator // common

    @property
    def nano_nats(self) -> int:
        """Charge of an answer."""
        return charge(*self.loss)

    @property
    def canonical(self) -> bytes:
        """Family's name and parameters."""
        name, numbers = self.name.encode(), self.parameters
        head = bytes([len(name)]) + name + struct.pack(">I", len(numbers))
        return head + struct.pack(f">{len(numbers)}Q", *numbers)


class Numbered(Family):
    """A family whose report is a number below `reports`."""

    reports: int
    least = 0

    @property
    def width(self) -> int:
        """Fewest bytes that hold the number of reports itself."""
        return (self.reports.bit_length() + 7) // 8

    def valid(self, report: bytes) -> bool:
        """Return whether a report is a number of the alphabet."""
        number = int.from_bytes(report, "big")
        return len(report) == self.width and self.least <= number < self.reports

    def encode(self, number: int) -> bytes:
        """A report's bytes, big-endian."""
        return number.to_bytes(self.width, "big")


def floyd(items: int, size: int, coins: Sequence[int]) -> set[int]:
    """`size` of `items`: for j from items - size on t = (U (j + 1)) >> 64, or j if t is taken."""
    taken: set[int] = set()
    for j, coin in zip(range(items - size, items), coins, strict=True):
        item = (coin * (j + 1)) >> 64
        taken.add(j if item in taken else item)
    return taken


def round_to(value: int, low: int, high: int, levels: int, coin: int) -> int:
    """The level below the value's position, or the one above with the chance of its fraction."""
    below, rest = divmod((value - low) * (levels - 1), high - low)
    return below + (coin < (rest << 64) // (high - low))
