"""Randomizers whose report is a number: a table, k-ary response, linear hashing, one sign."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from tests.conformance.verifier.families import M, Numbered, expect
from tests.conformance.verifier.wire import Malformed, Message


class Table(Numbered):
    """Row x, column y: Pr[y | x] over 2^64."""

    name = "channel"

    def __init__(self, message: Message) -> None:
        levels, symbols = message["levels"], message["symbols"]
        expect(2 <= levels <= 720 and 2 <= symbols <= 720, "2 to 720 levels and symbols")
        entries, repeats = message["entries"], message["repeats"]
        if repeats:
            if len(repeats) != len(entries) or sum(repeats) != levels * symbols:
                raise Malformed("expected a repeat per entry, levels x symbols in all")
            runs = [e for e, times in zip(entries, repeats, strict=True) for _ in range(times)]
            self.rows = [runs[x::levels] for x in range(levels)]
        else:
            if len(entries) != levels * symbols:
                raise Malformed("expected levels x symbols entries")
            self.rows = [entries[x * symbols : (x + 1) * symbols] for x in range(levels)]
        expect(all(sum(row) == M for row in self.rows), "rows that sum to 2^64")
        expect(all(all(row) for row in self.rows), "entries above 0")
        self.levels, self.reports, self.coins = levels, symbols, 1
        self.parameters = [levels, symbols, *[entry for row in self.rows for entry in row]]

    def ratio(self) -> tuple[int, int]:
        """Largest over smallest entry of a column."""
        worst = max(
            (Fraction(max(c), min(c)) for c in zip(*self.rows, strict=True)), default=Fraction(1)
        )
        return worst.numerator, worst.denominator

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """First symbol whose cumulative sum is above the coin."""
        total = 0
        for symbol, entry in enumerate(self.rows[level]):
            total += entry
            if coins[0] < total:
                return self.encode(symbol)
        raise AssertionError("a row sums to 2^64")


def respond(own: int, value: int, other: int, coin: int) -> int:
    """k-ary response: the value below `own`, else one of the others in turn, `other` coins each."""
    if coin < own:
        return value
    rank = (coin - own) // other
    return rank if rank < value else rank + 1


class Kary(Numbered):
    """Other cells with other / 2^64 each."""

    name = "k-ary"
    cells: int
    other: int

    def check(self) -> None:
        """Ranges of cells and other."""
        expect(2 <= self.cells <= 1 << 20, "2 to 2^20 cells")
        expect(self.other >= 1 and (self.cells - 1) * self.other < M, "another chance")
        self.levels, self.reports, self.coins = self.cells, self.cells, 1
        self.own = M - (self.cells - 1) * self.other

    def ratio(self) -> tuple[int, int]:
        """Exact."""
        return max(self.own, self.other), min(self.own, self.other)

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """Respond by the one coin."""
        return self.encode(respond(self.own, level, self.other, coins[0]))


class Hashing(Numbered):
    """k-ary response about the value of a random linear hash modulo a prime."""

    name = "linear-hashing"
    cells: int
    modulus: int
    other: int

    def check(self) -> None:
        """Ranges; the modulus is a prime."""
        q = self.modulus
        expect(3 <= self.cells <= 1 << 20, "3 to 2^20 cells")
        expect(2 <= q <= min(65521, self.cells - 1), "a modulus below the cells")
        expect(all(q % d for d in range(2, isqrt(q) + 1)), "a prime modulus")
        expect(self.other >= 1 and (q - 1) * self.other < M, "another chance")
        self.vectors = q
        while self.vectors < self.cells:
            self.vectors *= q
        self.levels, self.coins, self.least = self.cells, 2, q
        self.reports = self.vectors * q
        self.own = M - (q - 1) * self.other

    def ratio(self) -> tuple[int, int]:
        """Exact."""
        return max(self.own, self.other), min(self.own, self.other)

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """The hash by the first coin, its value by the second."""
        q = self.modulus
        hashing = ((coins[0] * (self.vectors - 1)) >> 64) + 1
        a, x, value = hashing, level, 0
        while a and x:
            value += (a % q) * (x % q)
            a, x = a // q, x // q
        return self.encode(hashing * q + respond(self.own, value % q, self.other, coins[1]))


class Hadamard(Numbered):
    """A random row of a Hadamard matrix and the sign there."""

    name = "hadamard-sign"
    values: int
    threshold: int

    def check(self) -> None:
        """Ranges."""
        expect(1 <= self.values <= 32767 and self.threshold >= 1, "values and a threshold")
        self.bits = (self.values - 1).bit_length()
        self.levels, self.coins, self.reports = 2 * self.values + 1, 2, 2 << self.bits

    def ratio(self) -> tuple[int, int]:
        """Exact."""
        lie = M - self.threshold
        return max(self.threshold, lie), min(self.threshold, lie)

    def draw(self, level: int, coins: Sequence[int]) -> bytes:
        """The row by the leading bits of the first coin, the sign by the second."""
        row = coins[0] >> (64 - self.bits)
        value, negative = divmod(level, 2)
        plus = M // 2
        if level < 2 * self.values:
            minus = bin(row & value).count("1") % 2 != negative
            plus = M - self.threshold if minus else self.threshold
        return self.encode(2 * row + (coins[1] >= plus))
