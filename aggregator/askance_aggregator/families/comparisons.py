"""Laws of two reports side by side: what a family tells the accountant of shuffled batches.

A batch holds n reports: one of the target, whose record is either of two levels, and n - 1 of other
users. A `Comparison` has the law of a report at both levels beside a law of the others' reports,
with symbols of equal masses merged. Masses are integers over one denominator, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from askance_client.errors import InvalidParameter


class Atom(NamedTuple):
    """Symbols of a report that have the same three masses, which are per symbol.

    Symbols whose masses are proportional may stand as one symbol with the sums of their masses.
    """

    record: int
    """Mass at the target's record, >= 0."""
    other: int
    """Mass at the record that it is compared with, >= 0."""
    rest: int
    """Mass under the law of the other users' reports; 0 only if the other two are 0."""
    symbols: int = 1
    """Number of such symbols, >= 1."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Pair of records in one direction, beside a law of the other users' reports.

    Args:
        atoms: the symbols. At the two records their masses sum to the denominator; under the law of
            the others to at most that, and what is left is a report that tells nothing.
        denominator: of all masses, > 0.
        population: names the records for a reader: "record 0 against 3, others at 7".
    """

    atoms: tuple[Atom, ...]
    denominator: int
    population: str

    def __post_init__(self) -> None:
        if any(
            min(atom.record, atom.other, atom.rest) < 0
            or atom.symbols < 1
            or (atom.rest == 0 and (atom.record, atom.other) != (0, 0))
            for atom in self.atoms
        ):
            raise InvalidParameter("a comparison's masses: found a negative one, or others' of 0")
        record, other, rest = (
            sum(atom[at] * atom.symbols for atom in self.atoms) for at in range(3)
        )
        if not (record == other == self.denominator and 0 < rest <= self.denominator):
            raise InvalidParameter(
                f"a comparison's masses: expected {self.denominator} at each record and at most "
                f"that of the others, got {record}, {other} and {rest}"
            )

    @property
    def index(self) -> float:
        """Sum of (record - other)^2 / rest, which alone decides for large batches."""
        total = sum(
            Fraction((atom.record - atom.other) ** 2 * atom.symbols, atom.rest)
            for atom in self.atoms
            if atom.rest
        )
        return float(total / self.denominator)


@dataclass(frozen=True, slots=True)
class TwoSymbols:
    """A randomizer whose report has two symbols: the extreme chances of one of them.

    Rows between the two are mixtures of them, so that each other user may be taken at one of two.

    Args:
        high: the greatest mass of the symbol at any level.
        low: the least, 0 < low <= high < denominator.
        denominator: of both.
    """

    high: int
    low: int
    denominator: int

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < self.denominator:
            raise InvalidParameter("a bit's chances: expected 0 < low <= high < denominator")


@dataclass(frozen=True, slots=True)
class EvenCells:
    """A randomizer that reports the own one of at least three cells, or any other, evenly.

    Args:
        own: mass of the own cell, at least that of another cell, below the denominator.
        cells: >= 3.
        denominator: > 0.
    """

    own: int
    cells: int
    denominator: int

    def __post_init__(self) -> None:
        least = Fraction(self.denominator, self.cells)
        if self.cells < 3 or not least <= self.own < self.denominator:
            raise InvalidParameter("cells: expected three or more, the own one not the rarest")


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons of a randomizer that bound a shuffled batch from both sides.

    Args:
        upper: the worst of them bounds each population and each pair of records in both directions.
            `rest` is at most the mass at every level (the blanket), or another law that is proved
            to bound it.
        lower: each is attained: by the population that it names, or a law that it equals.
        bias: the masses are those of even draws, and a device's masses of each symbol lie between
            1 - bias and 1 / (1 - bias) times theirs. Section 2 of docs/math/shuffled_families.md
            says what both ends lose by it; 0 where the masses are a device's own.
        cells: a law of which all populations of small batches are listed.
    """

    upper: Sequence[Comparison]
    lower: Sequence[Comparison]
    bias: Fraction = Fraction(0)
    cells: EvenCells | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.bias < 1:
            raise InvalidParameter(f"bias: expected at least 0 and below 1, got {self.bias}")


def merged(masses: Iterable[Atom], denominator: int, population: str) -> Comparison:
    """Make a comparison of symbols; those whose masses are proportional become one symbol."""
    sums: dict[tuple[int, int, int], int] = {}
    for record, other, rest, symbols in masses:
        common = gcd(record, other, rest)
        if symbols and common:
            key = (record // common, other // common, rest // common)
            sums[key] = sums.get(key, 0) + common * symbols
    unit = gcd(denominator, *sums.values())
    atoms = tuple(
        Atom(record * (total // unit), other * (total // unit), rest * (total // unit))
        for (record, other, rest), total in sorted(sums.items())
    )
    return Comparison(atoms, denominator // unit, population)
