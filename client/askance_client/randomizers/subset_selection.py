"""Subset selection: a random set of cells that favours the own one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb
from typing import ClassVar

from askance_client.errors import InvalidParameter
from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.floyd import certified_ratio, draw_members
from askance_client.randomizers.k_ary import check_cells
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import (
    Randomizer,
    check_integer,
)

MAX_MEMBERS = 1 << 13  # of a set: a draw takes as long as it has members


@dataclass(frozen=True, slots=True)
class SubsetSelection(Randomizer):
    """Reports a set of `size` cells: the own one with probability threshold / 2^64, others evenly.

    A report is a bitmap of ceil(cells / 8) bytes, canonical because a set has no order in it:
    cell v is bit 7 - v % 8 of byte v // 8 (the order of numpy.unpackbits), trailing bits are 0,
    exactly `size` bits are 1. As size < cells, it is never all ones.

    Privacy: pure eps-LDP, replace-one; the loss is ln of threshold (cells - size) over
    (2^64 - threshold) size, or of its inverse, enlarged by what the draws are short of uniform
    (derived at `certified_ratio`; at most cells^2 / 2^64 in all).
    Utility: unbiased up to that bias; least variance in its class for size near cells/(e^eps+1).

    Args:
        cells: 2..65535.
        size: 1..cells-1, at most 8192.
        threshold: 1..2^64-1.

    Raises:
        InvalidParameter: they are not.

    Source: Ye and Barg 2018; Wang et al. 2016; optimality: Pan, arXiv:2603.11523.
    """

    name: ClassVar[str] = "subset-selection"

    cells: int
    size: int
    threshold: int
    _loss: PrivacyLoss = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_cells(self.cells)
        check_integer("size", self.size)
        check_integer("threshold", self.threshold)
        if not 1 <= self.size < self.cells:
            raise InvalidParameter(
                f"a subset of {self.cells} cells has a size in 1..{self.cells - 1}, "
                f"found {self.size}"
            )
        if self.size > MAX_MEMBERS:
            raise InvalidParameter(f"a subset has at most {MAX_MEMBERS} members, found {self.size}")
        if not 1 <= self.threshold < COIN_SPACE:
            raise InvalidParameter("a threshold lies in 1..2^64-1, found one outside")
        loss = PrivacyLoss(*certified_ratio(self.cells, self.size, self.threshold))
        object.__setattr__(self, "_loss", loss)

    @property
    def levels(self) -> int:
        """The number of cells."""
        return self.cells

    @property
    def coins(self) -> int:
        """Number of coins: one for the own cell and one per member, used or not."""
        return 1 + self.size

    @property
    def width(self) -> int:
        """The bitmap's bytes."""
        return -(-self.cells // 8)

    @property
    def loss(self) -> PrivacyLoss:
        """Certified from above."""
        return self._loss

    @property
    def parameters(self) -> tuple[int, ...]:
        """Cells, size and threshold."""
        return (self.cells, self.size, self.threshold)

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draw the set and serialise it as its bitmap."""
        level, words = self.check_draw(level, coins)
        members = draw_members(self.cells, self.size, self.threshold, level, words)
        return self.bitmap(members)

    def valid(self, report: bytes) -> bool:
        """`width` bytes with exactly `size` bits set, none of them trailing."""
        if not isinstance(report, bytes) or len(report) != self.width:
            return False
        bits = int.from_bytes(report, "big")
        trailing = (1 << (8 * self.width - self.cells)) - 1
        return not bits & trailing and bits.bit_count() == self.size

    def probability(self, level: int, report: bytes) -> Fraction:
        """The probability with uniform draws; the device's differs by a factor within the bias."""
        self.check_level(level)
        if not self.valid(report):
            return Fraction()
        if report[level // 8] >> (7 - level % 8) & 1:
            return Fraction(
                self.threshold,
                COIN_SPACE * comb(self.cells - 1, self.size - 1),
            )
        return Fraction(
            COIN_SPACE - self.threshold,
            COIN_SPACE * comb(self.cells - 1, self.size),
        )

    def bitmap(self, members: int) -> bytes:
        """Serialise a set given as bits with cell 0 the highest."""
        return (members << (8 * self.width - self.cells)).to_bytes(self.width, "big")
