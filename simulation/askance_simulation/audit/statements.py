"""Goodness of fit of reports to stated probabilities, by exact binomial tails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import family_of
from askance_client.exact_laws import probability
from askance_client.randomizers import Randomizer
from askance_simulation.audit.losses import improbable
from askance_simulation.families import Law, Statements, of_many

_LISTED = 4096  # alphabets up to this size are gone through symbol by symbol


@dataclass(frozen=True, slots=True)
class Departure:
    """Event that is seen more or less often than is stated, beyond chance."""

    case: str
    sight: str
    stated: float
    seen: int
    n: int

    def __str__(self) -> str:
        return (
            f"{self.case}: expected {self.sight} in about {self.stated * self.n:.4g}"
            f" of {self.n} reports, got {self.seen}"
        )


@dataclass(frozen=True, slots=True)
class Goodness:
    """Result of comparing shares."""

    statements: int  # number of those tested
    unseeable: int  # so improbable that never being shown is no evidence in n reports
    departures: tuple[Departure, ...]  # those that do not hold


def stated(randomizer: Randomizer, law: Law) -> Statements:
    """Compute the probabilities of symbols for one record from a randomizer's integers.

    Symbol by symbol where they can be listed, "none of these" included; else see `of_many`.
    """
    alphabet = _listed(randomizer)
    if not alphabet:
        return of_many(randomizer, law)
    places = {symbol: place for place, symbol in enumerate(alphabet)}

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        counts = np.zeros(len(alphabet) + 1, dtype=np.int64)
        for symbol, times in Counter(symbols).items():
            counts[places.get(symbol, -1)] += times
        return counts

    shares = [
        sum(
            (p * probability(randomizer, level, symbol) for level, p in law.items()),
            Fraction(),
        )
        for symbol in alphabet
    ]
    return Statements(
        np.array([*map(float, shares), 0.0]),
        count,
        lambda place: f"symbol {alphabet[place].hex()}" if place < len(alphabet) else "no symbol",
    )


@lru_cache(maxsize=4)
def _listed(randomizer: Randomizer) -> tuple[bytes, ...]:
    """List all symbols, or none if there are too many."""
    found = tuple(islice(family_of(randomizer).alphabet(), _LISTED + 1))
    return found if len(found) <= _LISTED else ()


def compare(
    reports: Mapping[str, Sequence[bytes]], statements: Mapping[str, Statements], alpha: float
) -> Goodness:
    """Test every statement on every case's symbols; a false alarm has at most the chance alpha."""
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
    """Compute (1 - p)^n: the chance that an event of probability p is not seen in n reports."""
    with np.errstate(divide="ignore"):
        chances: NDArray[np.float64] = np.exp(n * np.log1p(-shares))
    return chances
