"""k-ary randomized response: the own cell with one chance, every other cell with another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import Randomizer, check_integer

MIN_CELLS = 2
MAX_CELLS = 1 << 20  # as many as a query has: 3 bytes


@dataclass(frozen=True, slots=True)
class KaryResponse(Randomizer):
    """Reports each other cell with probability other / 2^64 exactly, and the own cell else.

    One coin U: below P = 2^64 - (cells - 1) other it is the own cell, above it the
    ((U - P) // other)-th of the others, which are intervals of exactly `other` coins each.

    Privacy: pure eps-LDP, replace-one; the ratio max(P / other, other / P) is exact, attained by
    every report. A report is the cell's index, big-endian, in the bytes that hold the number of
    cells: one up to 255 cells, two up to 65,535, else three. So no report is all ones.
    Utility: unbiased; the best family when eps is large for the number of cells.

    Args:
        cells: 2..2^20.
        other: >= 1, and (cells - 1) other < 2^64.

    Raises:
        InvalidParameter: they are not.

    Source: Kairouz, Bonawitz and Ramage 2016.
    """

    name: ClassVar[str] = "k-ary"

    cells: int
    other: int

    def __post_init__(self) -> None:
        check_cells(self.cells)
        check_integer("other", self.other)
        if self.other < 1 or self.own < 1:
            raise InvalidParameter(
                f"{self.cells} cells need 1 <= other and other x {self.cells - 1} < 2^64, "
                f"found other = {self.other}"
            )

    @property
    def own(self) -> int:
        """P: how many of the 2^64 coins report the own cell."""
        return COIN_SPACE - (self.cells - 1) * self.other

    @property
    def levels(self) -> int:
        """The number of cells."""
        return self.cells

    @property
    def coins(self) -> int:
        """Number of coins: 1."""
        return 1

    @property
    def width(self) -> int:
        """The bytes of the number of cells: 1 up to 255, 2 up to 65,535, else 3."""
        return -(-self.cells.bit_length() // 8)

    @property
    def loss(self) -> PrivacyLoss:
        """Exact."""
        return PrivacyLoss(max(self.own, self.other), min(self.own, self.other))

    @property
    def parameters(self) -> tuple[int, ...]:
        """Cells and other."""
        return (self.cells, self.other)

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """The own cell if U < P, else the ((U - P) // other)-th of the others."""
        level, (coin,) = self.check_draw(level, coins)
        cell = level
        if coin >= self.own:
            rank = (coin - self.own) // self.other
            cell = rank + (rank >= level)
        return cell.to_bytes(self.width, "big")

    def valid(self, report: bytes) -> bool:
        """`width` bytes that hold an index below the number of cells."""
        return (
            isinstance(report, bytes)
            and len(report) == self.width
            and int.from_bytes(report, "big") < self.cells
        )

    def probability(self, level: int, report: bytes) -> Fraction:
        """P / 2^64 for the own cell, other / 2^64 for another."""
        self.check_level(level)
        if not self.valid(report):
            return Fraction()
        coins = self.own if int.from_bytes(report, "big") == level else self.other
        return Fraction(coins, COIN_SPACE)


def check_cells(cells: int) -> None:
    """Refuse a number of cells outside 2..2^20."""
    check_integer("cells", cells)
    if not MIN_CELLS <= cells <= MAX_CELLS:
        raise InvalidParameter(f"there are {MIN_CELLS}..{MAX_CELLS} cells, found {cells}")
