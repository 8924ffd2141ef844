"""A randomizer as a finite table of integers: the most general one, for small alphabets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import index
from typing import ClassVar

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import DRAW_COST, NumberedRandomizer, check_integer

MIN_SIDE = 2
MAX_LEVELS = 720  # a table of windows then takes 40 kB, and a tenth of a second to check
MAX_SYMBOLS = 720

Table = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Channel(NumberedRandomizer):
    """Pr[y | x] = table[x][y] / 2^64, exactly.

    One uniform coin U picks the smallest y with U < table[x][0] + ... + table[x][y].

    Privacy: pure eps-LDP, replace-one; eps = max_y ln(max_x T[x, y] / min_x T[x, y]), exactly. A
    report is y: one byte up to 255 symbols, else two, big-endian.
    Utility: `values` a_y decode a report; they are unbiased for the moved grid
    x'_i = sum_y a_y T[i, y] / 2^64, whatever grid they were designed for.

    Args:
        table: levels x symbols integers >= 1, 2..720 of each; every row sums to 2^64.

    Raises:
        InvalidParameter: it is no such table; a zero beside a non-zero in a column is an infinite
            loss, and a column of zeros an unused symbol.

    Example:
        >>> channel = ask.randomized_response(10**9)
        >>> channel.levels, channel.symbols
        (2, 2)
    """

    name: ClassVar[str] = "channel"

    table: Table
    _loss: PrivacyLoss = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = _checked(self.table)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "_loss", _worst_ratio(table))

    @property
    def levels(self) -> int:
        """The number of rows."""
        return len(self.table)

    @property
    def symbols(self) -> int:
        """The number of columns."""
        return len(self.table[0])

    @property
    def coins(self) -> int:
        """Number of coins: 1."""
        return 1

    @property
    def reports(self) -> int:
        """The number of symbols."""
        return self.symbols

    @property
    def loss(self) -> PrivacyLoss:
        """Exact."""
        return self._loss

    @property
    def draw_cost(self) -> int:
        """A unit per four entries of the row, which is added up."""
        return DRAW_COST + self.symbols // 4

    @property
    def parameters(self) -> tuple[int, ...]:
        """Levels, symbols, and the table row by row."""
        return (self.levels, self.symbols, *(entry for row in self.table for entry in row))

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """The smallest y with U < cumsum(T[level])[y]."""
        level, (coin,) = self.check_draw(level, coins)
        cumulative = tuple(accumulate(self.table[level][:-1]))  # the last entry would be 2^64
        return bisect_right(cumulative, coin).to_bytes(self.width, "big")


def check_sides(levels: int, symbols: int) -> None:
    """Refuse a table that is too small or too large."""
    check_integer("levels of a table", levels, MIN_SIDE, MAX_LEVELS)
    check_integer("symbols of a table", symbols, MIN_SIDE, MAX_SYMBOLS)


def _checked(table: Sequence[Sequence[int]]) -> Table:
    """The table as plain ints, or the first reason why it is none; sizes come first."""
    symbols = len(table[0]) if table else 0
    check_sides(len(table), symbols)
    rows = []
    for x, row in enumerate(table):
        if len(row) != symbols:
            raise InvalidParameter(f"row {x} has {len(row)} entries, row 0 has {symbols}")
        try:
            plain = tuple(map(index, row))
        except TypeError:
            raise InvalidParameter(
                f"row {x}: entries are integers, got {value_text(list(row))}"
            ) from None
        if min(plain) < 0:
            raise InvalidParameter(f"row {x}: entries are 0 or more, found a negative one")
        if sum(plain) != COIN_SPACE:
            raise InvalidParameter(
                f"row {x} must sum to 2^64, it is off by {sum(plain) - COIN_SPACE}"
            )
        rows.append(plain)
    for y, column in enumerate(zip(*rows, strict=True)):
        if not any(column):
            raise InvalidParameter(f"column {y} is an unused symbol: all of its entries are 0")
        if not all(column):
            raise InvalidParameter(
                f"privacy loss is infinite: column {y} has a 0 at level {column.index(0)} "
                "beside entries above 0"
            )
    return tuple(rows)


def _worst_ratio(table: Table) -> PrivacyLoss:
    worst = PrivacyLoss(1, 1)
    for column in zip(*table, strict=True):
        loss = PrivacyLoss(max(column), min(column))
        if loss.exceeds(worst):
            worst = loss
    return worst
