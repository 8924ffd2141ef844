"""A randomizer as a finite table of integers: the most general one, for small alphabets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from operator import index
from typing import ClassVar

import numpy as np

from askance.client.errors import InvalidParameter
from askance.client.randomizers.coins import COIN_SPACE
from askance.client.randomizers.left_inverse import left_inverse
from askance.client.randomizers.loss import PrivacyLoss
from askance.client.randomizers.randomizer import Counts, Randomizer, Reports, check_counts

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
        """One."""
        return 1

    @property
    def width(self) -> int:
        """One byte: the symbol."""
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
        """One byte below the number of symbols."""
        return isinstance(report, bytes) and len(report) == 1 and report[0] < self.symbols

    def alphabet(self) -> Iterator[bytes]:
        """The symbols in order."""
        return (bytes([symbol]) for symbol in range(self.symbols))

    def probability(self, level: int, report: bytes) -> Fraction:
        """T[level, y] / 2^64."""
        self.check_level(level)
        return (
            Fraction(self.table[level][report[0]], COIN_SPACE) if self.valid(report) else Fraction()
        )

    def tally(self, reports: Reports) -> Counts:
        """How many reports there are of each symbol."""
        self.check_reports(reports)
        if self.symbols == 2 and reports.max(initial=0) < 2:  # ten times as fast as in general
            ones = np.count_nonzero(reports)
            return np.array([len(reports) - ones, ones], dtype=np.int64)
        counts = np.bincount(reports[:, 0], minlength=self.symbols).astype(np.int64)
        if len(counts) > self.symbols:
            raise InvalidParameter(
                f"reports are symbols in 0..{self.symbols - 1}, "
                f"found {counts[self.symbols :].sum()} others"
            )
        return counts

    def frequencies(self, counts: Sequence[int] | Counts, n: int) -> tuple[Fraction, ...]:
        """Applies the exact left inverse of the table to the symbols' shares."""
        plain = check_counts(counts, n, self.symbols, n)
        return tuple(
            Fraction(sum(b * count for b, count in zip(row, plain, strict=True)), n)
            for row in _left_inverse(self)
        )

    def frequency_variance(self) -> Fraction:
        """n x the conditional variance averaged over levels, for the worst truth."""
        worst = Fraction()
        inverse = _left_inverse(self)
        for truth in range(self.levels):
            moments = sum(self.second_moment(truth, row) for row in inverse)
            # Unbiased: the squares of the means are one 1 and zeros.
            worst = max(worst, Fraction(moments - 1, self.levels))
        return worst

    def moved_grid(self, values: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """x'_i = sum_y values[y] T[i, y] / 2^64: what decoding expects at each level."""
        return tuple(self._mean(level, values) for level in range(self.levels))

    def covering(self, values: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """Shifts and scales decode values so that the moved grid runs from -1 to 1, exactly.

        Raises:
            InvalidParameter: the first and the last level have the same expectation.
        """
        grid = self.moved_grid(values)
        low, high = grid[0], grid[-1]
        if low == high:
            raise InvalidParameter("the decode values do not tell the first level from the last")
        return tuple(Fraction(2 * Fraction(value) - low - high, high - low) for value in values)

    def bias(
        self, values: Sequence[Fraction | int], grid: Sequence[Fraction | int] | None = None
    ) -> Fraction:
        """The greatest distance of the moved grid from the grid that inputs are rounded to.

        Args:
            values: decode values, one a symbol; `covering` makes the ends of the grid exact.
            grid: one point a level; by default equally spaced from -1 to 1.
        """
        if grid is None:
            last = self.levels - 1
            grid = [Fraction(2 * level - last, last) for level in range(self.levels)]
        if len(grid) != self.levels:
            raise InvalidParameter(f"a grid has {self.levels} points, found {len(grid)}")
        moved = self.moved_grid(values)
        return max(abs(there - here) for there, here in zip(moved, grid, strict=True))

    def second_moment(self, level: int, values: Sequence[Fraction | int]) -> Fraction:
        """M2 = E[values[Y]^2 | level]: what counts for the mean of a population."""
        return self._mean(level, [value * value for value in values])

    def conditional_variance(self, level: int, values: Sequence[Fraction | int]) -> Fraction:
        """E[values[Y]^2 | level] - x'^2: what counts for the mean of the sample at hand."""
        mean = self._mean(level, values)
        return self.second_moment(level, values) - mean * mean

    def _mean(self, level: int, values: Sequence[Fraction | int]) -> Fraction:
        self.check_level(level)
        if len(values) != self.symbols:
            raise InvalidParameter(f"there are {self.symbols} decode values, found {len(values)}")
        total = sum(a * entry for a, entry in zip(values, self.table[level], strict=True))
        return Fraction(total, COIN_SPACE)


@lru_cache(maxsize=64)
def _left_inverse(channel: Channel) -> tuple[tuple[Fraction, ...], ...]:
    return left_inverse(channel.table, COIN_SPACE)


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
            raise InvalidParameter(f"row {x}: entries are integers, found another type") from None
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
