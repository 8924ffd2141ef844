"""Sign of a random row of a Hadamard matrix: signed values by one bit, for any number of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from askance_client.randomizers.coins import COIN_BITS, COIN_SPACE
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import (
    DRAW_COST,
    NumberedRandomizer,
    check_integer,
    check_threshold,
)
from askance_client.randomizers.signed_levels import MAX_VALUES, signed_levels

_HALF = COIN_SPACE // 2


@dataclass(frozen=True, slots=True)
class HadamardSign(NumberedRandomizer):
    """Reports a uniform row r of the 2^m x 2^m Hadamard matrix H and one randomized sign.

    2^m is the least power of two with a column for each value; H[r, j] = (-1)^(ones in r & j). The
    sign is s H[r, j] for a user at s of value j, kept with probability threshold / 2^64; of a
    neutral user it is a fair coin. The report is 2 r + b, b = 1 for -, in the fewest bytes that
    hold 2^(m + 1), big-endian, so that it is never all ones.

    Privacy: pure eps-LDP, replace-one; the row is even, exactly, whatever the level, so that the
    loss is exactly that of the sign, Warner's; attained by every report.
    Utility: unbiased; the columns are orthogonal, so a report points to + at any other value with
    probability 1/2, exactly: the counts of + are binomial. With C = 2^64 / (2 threshold - 2^64) the
    second moment is C^2 = ((e^eps + 1) / (e^eps - 1))^2, whatever the number of values.

    Args:
        values: 1..32767.
        threshold: 1..2^64-1.

    Raises:
        InvalidParameter: they are not.

    Source: Nguyen et al. 2016 and Acharya, Sun and Zhang 2019 (Hadamard responses); deviations: of
        signed values, so that a neutral user has a fair coin.
    """

    name: ClassVar[str] = "hadamard-sign"

    values: int
    threshold: int

    def __post_init__(self) -> None:
        check_integer("values", self.values, 1, MAX_VALUES)
        check_threshold(self.threshold)

    @property
    def row_bits(self) -> int:
        """Number of bits of a row's index."""
        return (self.values - 1).bit_length()

    @property
    def levels(self) -> int:
        """Two per value, and the neutral one."""
        return signed_levels(self.values)

    @property
    def coins(self) -> int:
        """Two coins: for the row and for the sign."""
        return 2

    @property
    def reports(self) -> int:
        """2^(m + 1): two per row."""
        return 2 << self.row_bits

    @property
    def loss(self) -> PrivacyLoss:
        """Exact."""
        lie = COIN_SPACE - self.threshold
        return PrivacyLoss(max(self.threshold, lie), min(self.threshold, lie))

    @property
    def draw_cost(self) -> int:
        """The fixed part: two coins."""
        return DRAW_COST

    @property
    def parameters(self) -> tuple[int, ...]:
        """Values and threshold."""
        return (self.values, self.threshold)

    def plus_coins(self, level: int, row: int) -> int:
        """Return the number of the 2^64 coins that report + in that row."""
        if level == 2 * self.values:
            return _HALF
        minus = ((row & (level // 2)).bit_count() ^ level) & 1
        return COIN_SPACE - self.threshold if minus else self.threshold

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """The row is the first coin's leading m bits; the second one is held against the sign."""
        level, (first, second) = self.check_draw(level, coins)
        row = first >> (COIN_BITS - self.row_bits)
        minus = second >= self.plus_coins(level, row)
        return (2 * row + minus).to_bytes(self.width, "big")
