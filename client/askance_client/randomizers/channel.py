"""A randomizer as a finite table of integers: the most general one, for small alphabets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from operator import index
from typing import ClassVar

from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_client.randomizers.coins import COIN_SPACE
from askance_client.randomizers.loss import PrivacyLoss
from askance_client.randomizers.randomizer import Randomizer

MIN_SIDE = 2
MAX_LEVELS = 64
MAX_SYMBOLS = 64

Table = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Channel(Randomizer):
    """Pr[y | x] = table[x][y] / 2^64, exactly.

    One uniform coin U picks the smallest y with U < table[x][0] + ... + table[x][y].

    Privacy: pure eps-LDP, replace-one; eps = max_y ln(max_x T[x, y] / min_x T[x, y]), exactly. A
    report is the one byte y.
    Utility: `values` a_y decode a report; they are unbiased for the moved grid
    x'_i = sum_y a_y T[i, y] / 2^64, whatever grid they were designed for.

    Args:
        table: levels x symbols integers >= 1, 2..64 of each; every row sums to 2^64.

    Raises:
        InvalidParameter: it is no such table; a zero beside a non-zero in a column is an infinite
            loss, and a column of zeros an unused symbol.
    """

    name: ClassVar[str] = "channel"

    table: Table
    _loss: PrivacyLoss = field(init=False, repr=False, compare=False)
    _cumulative: Table = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = _checked(self.table)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "_loss", _worst_ratio(table))
        # The last cumulative entry is 2^64 for every row, and not kept.
        cumulative = tuple(tuple(accumulate(row[:-1])) for row in table)
        object.__setattr__(self, "_cumulative", cumulative)

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
    def width(self) -> int:
        """Report width in bytes: 1, the symbol."""
        return 1

    @property
    def loss(self) -> PrivacyLoss:
        """Exact."""
        return self._loss

    @property
    def parameters(self) -> tuple[int, ...]:
        """Levels, symbols, and the table row by row."""
        return (self.levels, self.symbols, *(entry for row in self.table for entry in row))

    def randomize(self, level: int, coins: Sequence[int]) -> bytes:
        """The smallest y with U < cumsum(T[level])[y]."""
        level, (coin,) = self.check_draw(level, coins)
        return bytes([bisect_right(self._cumulative[level], coin)])

    def valid(self, report: bytes) -> bool:
        """Return whether the report is one byte below the number of symbols."""
        return isinstance(report, bytes) and len(report) == 1 and report[0] < self.symbols

    def probability(self, level: int, report: bytes) -> Fraction:
        """T[level, y] / 2^64."""
        self.check_level(level)
        return (
            Fraction(self.table[level][report[0]], COIN_SPACE) if self.valid(report) else Fraction()
        )


def _checked(table: Sequence[Sequence[int]]) -> Table:
    """The table as plain ints, or the first reason why it is none; sizes come first."""
    if not MIN_SIDE <= len(table) <= MAX_LEVELS:
        raise InvalidParameter(f"a table has 2..{MAX_LEVELS} levels, found {len(table)}")
    symbols = len(table[0])
    if not MIN_SIDE <= symbols <= MAX_SYMBOLS:
        raise InvalidParameter(f"a table has 2..{MAX_SYMBOLS} symbols, found {symbols}")
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
