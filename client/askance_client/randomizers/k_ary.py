"""k-ary randomized response: the own cell with one chance, every other cell with another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import DRAW_COST, NumberedRandomizer, check_integer

MIN_CELLS = 2
MAX_CELLS = 1 << 20  # as many as a query has: 3 bytes


@dataclass(frozen=True, slots=True)
class KaryResponse(NumberedRandomizer):
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
        check_integer("cells", self.cells, MIN_CELLS, MAX_CELLS)
        check_integer("other", self.other, 1, (COIN_SPACE - 1) // (self.cells - 1))

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
    def reports(self) -> int:
        """The number of cells."""
        return self.cells

    @property
    def loss(self) -> PrivacyLoss:
        """Exact."""
        return PrivacyLoss(max(self.own, self.other), min(self.own, self.other))

    @property
    def draw_cost(self) -> int:
        """The fixed part: one coin and one division."""
        return DRAW_COST

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
