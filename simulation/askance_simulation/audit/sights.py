"""Stated probabilities of events in alphabets too large to enumerate.

Of each family the chances of a few events that add up to a report's content: which cells, signs or
components it holds, and that it has the form it should have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import HashingFamily, HypercubeFamily, SubsetFamily
from askance_client.randomizers import (
    COIN_SPACE,
    HypercubeResponse,
    LinearHashing,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

Law = Mapping[int, Fraction]
"""Pr[level], of a record whose value is rounded at random; of others one level has 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """Events of a symbol, each with the probability that is stated for it.

    Args:
      shares: the probabilities.
      count: the number of symbols that show each event.
      name: text of an event, for readers.
    """

    shares: NDArray[np.float64]
    count: Callable[[Sequence[bytes]], NDArray[np.int64]]
    name: Callable[[int], str]


def of_many(randomizer: Randomizer, law: Law) -> Statements:
    """Compute the probabilities of events for one record from a randomizer's integers.

    Of a set cell by cell, and that it has its size; of signed values likewise; of a sign pattern
    component by component; of a hashed cell, whether it is one that agrees with the record's or
    with the first or last. Of another family nothing, and the number of statements shows it.
    """
    match randomizer:
        case SubsetSelection():
            return _subset(randomizer, law)
        case SignedSubsetSelection():
            return _signed_subset(randomizer, law)
        case HypercubeResponse():
            return _pattern(randomizer, law)
        case LinearHashing():
            return _hashed(randomizer, law)
    return Statements(np.zeros(0), lambda symbols: np.zeros(0, dtype=np.int64), str)


def _subset(randomizer: SubsetSelection, law: Law) -> Statements:
    rates = SubsetFamily(randomizer).rates
    shares = [
        rates.other + law.get(cell, Fraction()) * (rates.own - rates.other)
        for cell in range(randomizer.cells)
    ]
    return _bitmap(shares, randomizer.size, randomizer.width, "cell")


def _bitmap(shares: Sequence[Fraction], size: int, width: int, what: str) -> Statements:
    """Compute the probability of each item in a bitmap of `width` bytes with `size` items."""
    items = len(shares)

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        rows = np.frombuffer(b"".join(s for s in symbols if len(s) == width), np.uint8)
        bits = np.unpackbits(rows.reshape(-1, width), axis=1)
        right = bits.sum(axis=1, dtype=np.int64) == size
        right &= ~bits[:, items:].any(axis=1)
        counts = bits[:, :items].sum(axis=0, dtype=np.int64)
        return np.append(counts, np.count_nonzero(right))

    return Statements(
        np.array([*map(float, shares), 1.0]),
        count,
        lambda place: f"{what} {place}" if place < items else f"{size} {what}s",
    )


def _pattern(randomizer: HypercubeResponse, law: Law) -> Statements:
    components, width = randomizer.components, randomizer.width
    rates = HypercubeFamily(randomizer).rates
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


def _signed_subset(randomizer: SignedSubsetSelection, law: Law) -> Statements:
    """Return the statements: bit 2j is + at value j, bit 2j + 1 is -.

    All but the own value are even.
    """
    items = 2 * randomizer.values
    exact = [Fraction()] * items
    for level, chance in law.items():
        own, plus, either = randomizer.own_coins(level)
        beside = (randomizer.size - Fraction(either, COIN_SPACE)) / max(1, items - 2)
        shares = [beside] * items
        shares[2 * own + level % 2] = Fraction(plus, COIN_SPACE)
        shares[2 * own + 1 - level % 2] = Fraction(either - plus, COIN_SPACE)
        exact = [total + chance * share for total, share in zip(exact, shares, strict=True)]
    return _bitmap(exact, randomizer.size, randomizer.width, "item")


def _hashed(randomizer: LinearHashing, law: Law) -> Statements:
    cells = sorted({0, randomizer.cells - 1, *law})
    rates = HashingFamily(randomizer).rates
    shares = [float(rates.other + law.get(c, 0) * (rates.own - rates.other)) for c in cells]

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        counts = np.zeros(len(cells) + 1, dtype=np.int64)
        for symbol, times in Counter(symbols).items():
            code = int.from_bytes(symbol, "big")
            hashing, value = divmod(code, randomizer.modulus)
            agree = [randomizer.hash_value(hashing, cell) == value for cell in cells]
            whole = len(symbol) == randomizer.width and 0 < hashing < randomizer.vectors
            counts += times * np.array([*agree, whole], dtype=np.int64)
        return counts

    names = [*(f"a hash that agrees with cell {cell}" for cell in cells), "a hash and its value"]
    return Statements(np.array([*shares, 1.0]), count, names.__getitem__)
