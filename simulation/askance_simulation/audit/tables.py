"""Events that are fixed beforehand: the symbols that are likelier by a randomizer's own integers.

Where a report names a hash function as well as a value, no symbol is seen often enough to be
learned; the stated table says what would distinguish two records. Whether it does is still counted,
among all symbols and in either half of them: a hash that knows of the coin which the value was
drawn by makes nothing likelier on the whole, and everything certain in one half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from askance_client.randomizers import COIN_SPACE, Randomizer
from askance_simulation.audit.fleet import Case
from askance_simulation.audit.symbols import Symbols
from askance_simulation.families import probabilities

_WIDEST = 128  # bytes: 64 indices; the chances of wide bitmaps have thousands of bits, and are slow


@dataclass(frozen=True, slots=True, eq=False)
class StatedLikelier:
    """By what is stated, the symbol is likelier under one level than under another."""

    randomizer: Randomizer
    level: int
    other: int

    @property
    def name(self) -> str:
        """The two levels."""
        return f"stated to be likelier at level {self.level} than at {self.other}"

    def count(self, symbols: Symbols) -> int:
        """Count by looking up each different symbol once per level."""
        seen = Counter(symbols.raw)
        here, there = (
            _chances(self.randomizer, at, tuple(seen)) for at in (self.level, self.other)
        )
        return sum(
            times
            for times, one, another in zip(seen.values(), here, there, strict=True)
            if one > another
        )


@lru_cache(maxsize=64)
def _chances(randomizer: Randomizer, level: int, symbols: tuple[bytes, ...]) -> Sequence[Fraction]:
    return probabilities(randomizer, level, symbols)


@dataclass(frozen=True, slots=True, eq=False)
class InHalf:
    """An event that is counted among those symbols only that are below another one, or not below.

    Args:
      event: what is counted.
      middle: the symbol; fixed before anything was asked, whichever it is.
      below: as bytes, in lexicographic order.
    """

    event: StatedLikelier
    middle: bytes
    below: bool

    @property
    def name(self) -> str:
        """The event, and the half."""
        return f"{self.event.name}, {'below' if self.below else 'from'} {self.middle.hex()}"

    def count(self, symbols: Symbols) -> int:
        """Count by the event's own rule."""
        of_half = [symbol for symbol in symbols.raw if (symbol < self.middle) == self.below]
        return self.event.count(Symbols.of(of_half, symbols.width)) if of_half else 0


def telling(randomizer: Randomizer, cases: Sequence[Case]) -> list[StatedLikelier | InHalf]:
    """List events for all pairs of cases with a certain level, in all symbols and in either half.

    There are none for wide reports.
    """
    if randomizer.width > _WIDEST:
        return []
    levels = sorted({next(iter(case.law)) for case in cases if len(case.law) == 1})
    everywhere = [
        StatedLikelier(randomizer, level, other)
        for level in levels
        for other in levels
        if level != other
    ]
    # Hashes and rows are drawn in the order of their numbers, by the first coin.
    middle = randomizer.randomize(0, [COIN_SPACE // 2] * randomizer.coins)
    halves = [InHalf(event, middle, below) for event in everywhere for below in (True, False)]
    return [*everywhere, *halves]
