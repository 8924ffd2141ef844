"""Reports with two chances: the symbols near a record's level, and all the others.

k-ary response, sets, hashes, Hadamard signs, codebooks and sign patterns share one law: of all
symbols, taken as even, a level has a share that is near it. A report is one of them with
probability threshold / 2^64, evenly, else one of the others, evenly. A comparison of two levels is
then a matter of counting the symbols that are near one, both or none of them, and the other users'
level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from askance_aggregator.families.comparisons import Atom, Comparison, TwoSymbols, merged
from askance_client.randomizers.coins import COIN_SPACE

Near = tuple[bool, ...]
"""Nearness of a symbol to the record's level, the compared one, and the others' (if it counts)."""


@dataclass(frozen=True, slots=True)
class NearSets:
    """Law of a report that is near its level with probability threshold / 2^64.

    Args:
        threshold: 1..2^64-1.
        near: symbols near a level, of each `symbols` of them; 1..symbols-1.
        symbols: >= 2.
    """

    threshold: int
    near: int
    symbols: int

    def blanket(self, counts: Mapping[Near, int], population: str) -> Comparison:
        """Compare two levels beside the lesser of the two chances, below which no level is."""
        return self._comparison(counts, population, min(self._chances))

    def attained(self, counts: Mapping[Near, int], population: str) -> Comparison:
        """Compare two levels where all other users are at a third or at one of the two."""
        return self._comparison(counts, population, None)

    def bit(self) -> TwoSymbols:
        """Return the law where a report has two symbols, of which one is near a level."""
        kept = max(self.threshold, COIN_SPACE - self.threshold)
        return TwoSymbols(kept, COIN_SPACE - kept, COIN_SPACE)

    @property
    def _chances(self) -> tuple[int, int]:
        """Chance of a far and of a near symbol, in units of even ones over 2^64 near far."""
        lie = COIN_SPACE - self.threshold
        return (
            lie * self.near * self.symbols,
            self.threshold * (self.symbols - self.near) * self.symbols,
        )

    def _comparison(
        self, counts: Mapping[Near, int], population: str, rest: int | None
    ) -> Comparison:
        chances = self._chances
        atoms = (
            Atom(
                chances[near[0]],
                chances[near[1]],
                chances[near[2]] if rest is None else rest,
                symbols,
            )
            for near, symbols in counts.items()
        )
        unit = COIN_SPACE * self.near * (self.symbols - self.near)
        return merged(atoms, unit * sum(counts.values()), population)


def beside(pair: Mapping[Near, int], at: int) -> dict[Near, int]:
    """Extend the counts of a pair to other users at its record (0) or at the compared level (1)."""
    return {(*near, near[at]): symbols for near, symbols in pair.items()}
