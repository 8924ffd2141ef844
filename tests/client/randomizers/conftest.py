"""The exact law of a randomizer's serialised reports, by enumeration of its coins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import accumulate, pairwise, product

import pytest

from askance_client.randomizers import (
    COIN_SPACE,
    Channel,
    HadamardSign,
    KaryResponse,
    LinearHashing,
    Randomizer,
    SignedSubsetSelection,
    SubsetSelection,
)

Law = Callable[[Randomizer, int], "Counter[bytes]"]


def breakpoints(randomizer: Randomizer, level: int) -> list[list[int]]:
    """For each coin the points of 0..2^64 between which the report may change."""
    if isinstance(randomizer, Channel):
        return [[0, *accumulate(randomizer.table[level])]]
    if isinstance(randomizer, KaryResponse):
        return [[0, *range(randomizer.own, COIN_SPACE + 1, randomizer.other)]]
    if isinstance(randomizer, LinearHashing):
        value = [0, *range(randomizer.own, COIN_SPACE + 1, randomizer.other)]
        return [scaled(randomizer.vectors - 1), value]
    if isinstance(randomizer, HadamardSign):
        kept = randomizer.threshold
        sign = sorted({0, kept, COIN_SPACE // 2, COIN_SPACE - kept, COIN_SPACE})
        return [scaled(1 << randomizer.row_bits), sign]
    if isinstance(randomizer, SignedSubsetSelection):
        _, plus, either = randomizer.own_coins(level)
        items, ends = randomizer.values, {0, plus, either, COIN_SPACE}
        signs = [scaled(1 << randomizer.values)]
    else:
        assert isinstance(randomizer, SubsetSelection)
        items, ends = randomizer.cells, {0, randomizer.threshold, COIN_SPACE}
        signs = []
    members = [scaled(max(count, 1)) for count in range(items - randomizer.size, items)]
    return [sorted(ends), *members, *signs]


def scaled(count: int) -> list[int]:
    """(U count) >> 64 reaches t at U = ceil(t 2^64 / count)."""
    return [-(-t * COIN_SPACE // count) for t in range(count + 1)]


def enumerate_law(randomizer: Randomizer, level: int) -> Counter[bytes]:
    """Count the coin tuples, of 2^(64 coins), that yield each report."""
    law: Counter[bytes] = Counter()
    for cell in product(*(list(pairwise(p)) for p in breakpoints(randomizer, level))):
        report = randomizer.randomize(level, [start for start, _ in cell])
        assert report == randomizer.randomize(level, [stop - 1 for _, stop in cell])
        weight = 1
        for start, stop in cell:
            weight *= stop - start
        law[report] += weight
    assert law.total() == COIN_SPACE**randomizer.coins
    return law


@pytest.fixture(scope="session")
def law() -> Law:
    return enumerate_law
