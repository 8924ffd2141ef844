"""Whether reports are distributed as is stated, by exact binomial tails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import comb

import numpy as np
from numpy.typing import NDArray

from askance.client.randomizers import HypercubeResponse, Randomizer, SubsetSelection
from askance.simulation.audit.bounds import improbable

_LISTED = 4096  # alphabets up to this size are gone through symbol by symbol

Law = Mapping[int, Fraction]
"""Pr[level], of a record whose value is rounded at random; of others one level has 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """Sights of a symbol, each with the probability that is stated for it.

    Args:
      shares: the probabilities.
      count: how many symbols show each sight.
      name: of a sight, for people.
    """

    shares: NDArray[np.float64]
    count: Callable[[Sequence[bytes]], NDArray[np.int64]]
    name: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Departure:
    """A sight seen more or less often than is stated, beyond chance."""

    case: str
    sight: str
    stated: float
    seen: int
    n: int

    def __str__(self) -> str:
        return (
            f"{self.case}: expected {self.sight} in about {self.stated * self.n:.4g}"
            f" of {self.n} reports, found {self.seen}"
        )


@dataclass(frozen=True, slots=True)
class Goodness:
    """What came of comparing shares.

    Args:
      statements: how many were tested.
      unseeable: how many are so improbable that never being shown is no evidence in n reports.
      departures: those that do not hold.
    """

    statements: int
    unseeable: int
    departures: tuple[Departure, ...]


def stated(randomizer: Randomizer, law: Law) -> Statements:
    """What a randomizer's integers say of its symbols, for one record.

    Symbol by symbol where they can be listed, "none of these" included; of a set among many cell by
    cell, and that it has its size; of a long sign pattern component by component. Of another large
    alphabet nothing, and the number of statements tells so.
    """
    match randomizer:
        case SubsetSelection(cells, size) if comb(cells, size) > _LISTED:
            return _cells(randomizer, law)
        case HypercubeResponse() if randomizer.levels > _LISTED:
            return _signs(randomizer, law)
    alphabet = list(islice(randomizer.alphabet(), _LISTED + 1))
    if len(alphabet) > _LISTED:
        return Statements(np.zeros(0), lambda symbols: np.zeros(0, dtype=np.int64), str)
    places = {symbol: place for place, symbol in enumerate(alphabet)}

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        counts = np.zeros(len(alphabet) + 1, dtype=np.int64)
        for symbol, times in Counter(symbols).items():
            counts[places.get(symbol, -1)] += times
        return counts

    shares = [
        sum((p * randomizer.probability(level, symbol) for level, p in law.items()), Fraction())
        for symbol in alphabet
    ]
    return Statements(
        np.array([*map(float, shares), 0.0]),
        count,
        lambda place: f"symbol {alphabet[place].hex()}" if place < len(alphabet) else "no symbol",
    )


def _cells(randomizer: SubsetSelection, law: Law) -> Statements:
    cells, width, rates = randomizer.cells, randomizer.width, randomizer.rates
    shares = [
        float(rates.other + law.get(cell, Fraction()) * (rates.own - rates.other))
        for cell in range(cells)
    ]

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        sized = [symbol for symbol in symbols if len(symbol) == width]
        rows = np.frombuffer(b"".join(sized), np.uint8).reshape(-1, width)
        bits = np.unpackbits(rows, axis=1)
        right = bits.sum(axis=1, dtype=np.int64) == randomizer.size
        right &= ~bits[:, cells:].any(axis=1)
        counts = bits[:, :cells].sum(axis=0, dtype=np.int64)
        return np.append(counts, np.count_nonzero(right))

    return Statements(
        np.array([*shares, 1.0]),
        count,
        lambda place: f"cell {place}" if place < cells else f"{randomizer.size} cells",
    )


def _signs(randomizer: HypercubeResponse, law: Law) -> Statements:
    components, width, rates = randomizer.components, randomizer.width, randomizer.rates
    spare = 8 * width - components
    shares = np.zeros(8 * width)
    for component in range(components):
        plus = sum(
            (p for level, p in law.items() if level >> (components - 1 - component) & 1), Fraction()
        )
        shares[spare + component] = float(rates.other + plus * (rates.own - rates.other))

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        rows = np.frombuffer(b"".join(s for s in symbols if len(s) == width), np.uint8)
        counts = np.unpackbits(rows.reshape(-1, width), axis=1).sum(axis=0, dtype=np.int64)
        return np.append(counts, sum(len(symbol) == width for symbol in symbols))

    return Statements(
        np.append(shares, 1.0),
        count,
        lambda place: f"component {place - spare}" if place < 8 * width else f"{width} bytes",
    )


def compare(
    reports: Mapping[str, Sequence[bytes]], statements: Mapping[str, Statements], alpha: float
) -> Goodness:
    """Tests every statement on every case's symbols; a false alarm has at most the chance alpha.

    Args:
      reports: symbols by case.
      statements: by case.
      alpha: divided evenly among all statements (Bonferroni).
    """
    total = sum(len(stated.shares) for stated in statements.values())
    each = alpha / max(1, total)
    departures: list[Departure] = []
    unseeable = 0
    for case, of in statements.items():
        symbols = reports[case]
        counts, n = of.count(symbols), len(symbols)
        for place in np.flatnonzero(improbable(counts, n, of.shares, each)).tolist():
            departures.append(
                Departure(case, of.name(place), float(of.shares[place]), int(counts[place]), n)
            )
        unseeable += int(np.count_nonzero((of.shares > 0) & (_never(of.shares, n) >= each / 2)))
    return Goodness(total, unseeable, tuple(departures))


def _never(shares: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """(1 - p)^n: the chance that a sight of probability p is not seen in n reports."""
    with np.errstate(divide="ignore"):
        chances: NDArray[np.float64] = np.exp(n * np.log1p(-shares))
    return chances
