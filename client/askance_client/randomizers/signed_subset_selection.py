"""Signed subset selection: a random set of signed values that favours the own one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from askance_client.randomizers.coins import COIN_BITS
from askance_client.randomizers.floyd import draw_members
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import DRAW_COST, check_integer, check_threshold
from askance_client.randomizers.sets import SetRandomizer
from askance_client.randomizers.signed_levels import MAX_VALUES, signed_levels
from askance_client.randomizers.signed_sets import certified_ratio, even_coins, opposite_coins


@dataclass(frozen=True, slots=True)
class SignedSubsetSelection(SetRandomizer):
    """Reports `size` of the values, each with a sign: the own one with its own sign by preference.

    For a user at s of value j the report contains (j, s) with probability threshold / 2^64 and
    (j, -s) with `opposite` / 2^64; the rest of it is even. So all reports with (j, s) are alike,
    and so are all others, with (j, -s) or without j, but for the rounding of `opposite`. To a
    neutral user all reports are alike: value 0 stands for the own one, by even chances.

    A report is a set of the items 2j for (j, +) and 2j + 1 for (j, -), of which no value has both:
    a bitmap, or `size` sorted indices where these are shorter (`SetRandomizer`).

    Privacy: pure eps-LDP, replace-one; the loss is the greatest ratio of the levels' chances of a
    report, of which there are five (`signed_sets.certified_ratio`), enlarged by what the draws are
    short of even.
    Utility: unbiased; with x = size / (2 d) the second moment of a value that a user is not at is
    2 (1 + (e^eps - 1) x)^2 / ((e^eps - 1)^2 x), at best 8 / (e^eps - 1), for size near
    2 d / (e^eps - 1): below the C^2 of one sign (`HadamardSign`) from eps = ln 3 on.

    Args:
        values: d, 1..32767.
        size: 1..d.
        threshold: 1..2^64-1.

    Raises:
        InvalidParameter: they are not, or the threshold leaves no coin to the other reports.

    Source: Ye and Barg 2018 (subset selection), of signed values.
    """

    name: ClassVar[str] = "signed-subset-selection"

    values: int
    size: int
    threshold: int
    _loss: PrivacyLoss = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_integer("values", self.values, 1, MAX_VALUES)
        check_integer("size", self.size, 1, self.values)
        check_threshold(self.threshold)
        loss = PrivacyLoss(*certified_ratio(self.values, self.size, self.threshold))
        object.__setattr__(self, "_loss", loss)

    @property
    def opposite(self) -> int:
        """Number of the 2^64 coins that report the own value with the other sign."""
        return opposite_coins(self.values, self.size, self.threshold)

    @property
    def even(self) -> int:
        """Number of the 2^64 coins of a neutral user that report value 0 with +; same with -."""
        return even_coins(self.values, self.size)

    @property
    def levels(self) -> int:
        """Two per value, and the neutral one."""
        return signed_levels(self.values)

    @property
    def items(self) -> int:
        """Two per value."""
        return 2 * self.values

    @property
    def coins(self) -> int:
        """Coins for the own value and for each member, used or not, and a bit per value's sign."""
        return 1 + self.size + -(-self.values // COIN_BITS)

    @property
    def draw_cost(self) -> int:
        """Two units per member, and one per 8 values of the bitmaps."""
        return DRAW_COST + 2 * self.size + self.values // 8

    @property
    def parameters(self) -> tuple[int, ...]:
        """Values, size and threshold."""
        return (self.values, self.size, self.threshold)

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """Draw the set and its signs, and serialise it."""
        level, words = self.check_draw(level, coins)
        own, plus, either = self.own_coins(level)
        drawn = draw_members(self.values, self.size, either, own, words[: 1 + self.size])
        signs = 0
        for word in words[1 + self.size :]:
            signs = (signs << COIN_BITS) | word
        signs >>= -self.values % COIN_BITS
        values, members = int(drawn, 2), bytearray(self.items)
        for sign, those in enumerate((values & signs, values & ~signs)):
            members[sign::2] = f"{those:0{self.values}b}".encode()
        if words[0] < either:
            own_plus = (words[0] < plus) != (level % 2 == 1)
            members[2 * own : 2 * own + 2] = b"10" if own_plus else b"01"
        return self.encode(members)

    def own_coins(self, level: int) -> tuple[int, int, int]:
        """(j, coins that report j with the own sign, coins that report j), for a level."""
        if level == 2 * self.values:
            return 0, self.even, 2 * self.even
        return level // 2, self.threshold, self.threshold + self.opposite
