"""Subset selection: a random set of cells that favours the own one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from askance_client.randomizers.floyd import certified_ratio, draw_members
from askance_client.randomizers.k_ary import MAX_CELLS, MIN_CELLS
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import DRAW_COST, check_integer, check_threshold
from askance_client.randomizers.sets import SetRandomizer

MAX_MEMBERS = 1 << 13  # of a set: a draw takes as long as it has members
MAX_WIDTH = 1 << 13  # bytes: a report fits a message


@dataclass(frozen=True, slots=True)
class SubsetSelection(SetRandomizer):
    """Reports a set of `size` cells: the own one with probability threshold / 2^64, others evenly.

    A report is a bitmap of the cells, or `size` sorted indices where these are shorter
    (`SetRandomizer`): canonical, because a set has no order in it.

    Privacy: pure eps-LDP, replace-one; the loss is ln of threshold (cells - size) over
    (2^64 - threshold) size, or of its inverse, enlarged by what the draws are short of uniform
    (derived at `certified_ratio`; at most cells^2 / 2^64 in all).
    Utility: unbiased up to that bias; least variance in its class for size near cells/(e^eps+1).

    Args:
        cells: 2..2^20.
        size: 1..cells-1, at most 8192; such that a report has at most 8192 bytes, which is more
            only beyond 65,536 cells: there 2730 at most.
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
        check_integer("cells", self.cells, MIN_CELLS, MAX_CELLS)
        check_integer("size", self.size, 1, min(self.cells - 1, MAX_MEMBERS))
        check_integer("bytes of a report", self.width, 1, MAX_WIDTH)
        check_threshold(self.threshold)
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
    def draw_cost(self) -> int:
        """Two units per member, and one per 64 cells of the bitmap."""
        return DRAW_COST + 2 * self.size + self.cells // 64

    @property
    def parameters(self) -> tuple[int, ...]:
        """Cells, size and threshold."""
        return (self.cells, self.size, self.threshold)

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draw the set and serialise it."""
        level, words = self.check_draw(level, coins)
        return self.encode(draw_members(self.cells, self.size, self.threshold, level, words))
