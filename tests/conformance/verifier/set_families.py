"""Randomizers whose report is a set: subset selection, of cells and of signed values."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.verifier.families import Family, M, expect, floyd


def favoured(cells: int, size: int, threshold: int, own: int, coins: Sequence[int]) -> set[int]:
    """A set of `size` cells, with the own one below the threshold; `size` + 1 coins.

    The others are drawn from cells - 1 items, by the last coins; item `own` is the last cell.
    """
    inside = coins[0] < threshold
    size -= inside
    others = floyd(cells - 1, size, coins[len(coins) - size :])
    chosen = {cells - 1 if item == own else item for item in others}
    return chosen | {own} if inside else chosen


class Sets(Family):
    """A family whose report is a set of `size` of `items`: a bitmap, or indices if shorter."""

    size: int
    items: int

    @property
    def index_bytes(self) -> int:
        """Bytes of an index; 0 if reports are bitmaps."""
        each = (self.items.bit_length() + 7) // 8
        return each if each * self.size < (self.items + 7) // 8 else 0

    @property
    def width(self) -> int:
        """Bytes of indices or of the bitmap."""
        return self.index_bytes * self.size or (self.items + 7) // 8

    def encode(self, members: set[int]) -> bytes:
        """Ascending indices, or a bitmap with item 0 in the first bit."""
        each = self.index_bytes
        if each:
            return b"".join(item.to_bytes(each, "big") for item in sorted(members))
        bits = sum(1 << (8 * self.width - 1 - item) for item in members)
        return bits.to_bytes(self.width, "big")

    def members(self, report: bytes) -> list[int]:
        """Items of a report, in its order."""
        each = self.index_bytes
        if each:
            return [
                int.from_bytes(report[i : i + each], "big") for i in range(0, len(report), each)
            ]
        return [i for i in range(8 * len(report)) if report[i // 8] >> (7 - i % 8) & 1]

    def valid(self, report: bytes) -> bool:
        """Return whether a report is `size` ascending items in the one form."""
        if len(report) != self.width:
            return False
        found = self.members(report)
        ascending = found == sorted(set(found))
        return ascending and len(found) == self.size and max(found) < self.items


class Subset(Sets):
    """A set of cells that favours the own one."""

    name = "subset-selection"
    cells: int
    threshold: int

    def check(self) -> None:
        """Ranges; a report has at most 8192 bytes."""
        expect(2 <= self.cells <= 1 << 20, "2 to 2^20 cells")
        expect(1 <= self.size <= min(self.cells - 1, 8192) and self.threshold >= 1, "a size")
        self.items = self.levels = self.cells
        self.coins = 1 + self.size
        expect(self.width <= 8192, "at most 8192 bytes")

    def ratio(self) -> tuple[int, int]:
        """Ratio of the even laws, enlarged by what draws are short of even."""
        k, w, t = self.cells, self.size, self.threshold
        inside, outside = t * (k - w), (M - t) * w
        bias = w * (2 * k - w - 1)
        return max(inside, outside) * M, min(inside, outside) * (M - bias)

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """Draw by a coin for the own cell and one per member."""
        return self.encode(favoured(self.cells, self.size, self.threshold, level, coins))


class SignedSubset(Sets):
    """A set of signed values that favours the own one with its sign."""

    name = "signed-subset-selection"
    values: int
    threshold: int

    def check(self) -> None:
        """Ranges; a loss with bound."""
        d, w, t = self.values, self.size, self.threshold
        expect(1 <= d <= 32767 and 1 <= w <= d and t >= 1, "values, a size and a threshold")
        self.items, self.levels, self.coins = 2 * d, 2 * d + 1, 1 + w + (d + 63) // 64
        self.opposite = (M - t) * w // (2 * d - w)
        self.even = M * w // (2 * d)
        numerator, denominator = self.ratio()
        expect(0 < denominator <= numerator, "a loss with bound")

    def ratio(self) -> tuple[int, int]:
        """Greatest over least of the five chances, enlarged by what draws are short of even."""
        d, w, t, u, h = self.values, self.size, self.threshold, self.opposite, self.even
        chances = [t, u, h]
        if w < d:
            chances = [2 * coins * (d - w) for coins in chances]
            chances += [(M - t - u) * w, (M - 2 * h) * w]
        return max(chances) * M, min(chances) * (M - w * (2 * d - w - 1))

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """Draw by a coin for the own value, one per member, and a bit per value for its sign."""
        d, w = self.values, self.size
        if level == 2 * d:
            own, plus, either = 0, self.even, 2 * self.even
        else:
            own, plus, either = level // 2, self.threshold, self.threshold + self.opposite
        values = favoured(d, w, either, own, coins[: 1 + w])
        minus = {
            value for value in values if not coins[1 + w + value // 64] >> (63 - value % 64) & 1
        }
        if coins[0] < either:
            agrees = coins[0] < plus
            minus = minus - {own} if agrees == (level % 2 == 0) else minus | {own}
        return self.encode({2 * value + (value in minus) for value in values})

    def valid(self, report: bytes) -> bool:
        """Return whether a report is a set that has no value with both signs."""
        if not super().valid(report):
            return False
        return len({item // 2 for item in self.members(report)}) == self.size
