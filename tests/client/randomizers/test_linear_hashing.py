"""Linear hashing: collisions known exactly, counts by digits as by hand, hostile parameters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.families import HashingFamily, family_of, linear_hashing
from askance_aggregator.families.linear_hashing import _by_leading, _counted, _dense
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE, LinearHashing

M = COIN_SPACE
Count = Callable[[NDArray[np.int64], int, int, int], NDArray[np.int64]]
SHAPES = [(3, 2), (4, 2), (5, 2), (16, 2), (17, 2), (9, 3), (20, 3), (81, 3), (30, 5), (50, 7)]
SHAPES += [(12, 11), (121, 11), (130, 11), (170, 13)]


def digits(number: int, base: int, count: int) -> list[int]:
    return [number // base**place % base for place in range(count)]


@pytest.mark.parametrize(("cells", "modulus"), SHAPES)
def test_two_cells_collide_as_often_as_stated(cells: int, modulus: int) -> None:
    """Every pair, whichever it is."""
    randomizer = LinearHashing(cells, modulus, 1)
    hashes = range(1, randomizer.vectors)
    some = sorted({0, 1, modulus - 1, modulus, cells // 2, cells - 1})
    values = [[randomizer.hash_value(a, cell) for a in hashes] for cell in range(cells)]
    for one in some:
        for two in range(cells):
            if one != two:
                same = sum(v == w for v, w in zip(values[one], values[two], strict=True))
                assert Fraction(same, len(hashes)) == HashingFamily(randomizer).collisions


@pytest.mark.parametrize("some", [1, 60, 700])
@pytest.mark.parametrize(("cells", "modulus"), SHAPES)
def test_counts_are_those_of_a_count_by_hand(cells: int, modulus: int, some: int) -> None:
    """Few reports and many: counted from themselves, and from a table of all that there can be."""
    randomizer = LinearHashing(cells, modulus, 1)
    count = len(digits_needed(cells, modulus))
    generator = np.random.default_rng(cells)
    low, high = modulus, randomizer.vectors * modulus
    codes = [low, high - 1, *generator.integers(low, high, some).tolist()]
    expected = [0] * cells
    for code in codes:
        a = digits(code // modulus, modulus, count)
        for cell in range(cells):
            dot = sum(i * x for i, x in zip(a, digits(cell, modulus, count), strict=True))
            expected[cell] += dot % modulus == code % modulus
    reports = b"".join(code.to_bytes(randomizer.width, "big") for code in codes)
    rows = np.frombuffer(reports, dtype=np.uint8).reshape(len(codes), -1)
    assert family_of(randomizer).tally(rows).tolist() == expected


@pytest.mark.parametrize("count", [_counted, _by_leading])
@pytest.mark.parametrize(("cells", "modulus"), [*SHAPES, (300, 17), (5000, 7), (5000, 71)])
def test_all_ways_to_count_agree(cells: int, modulus: int, count: Count) -> None:
    """Report by report, by tables without the leading digit, and by one table of all reports."""
    digits = len(digits_needed(cells, modulus))
    codes = np.random.default_rng(cells).integers(modulus, modulus ** (digits + 1), 300)
    expected = _dense(codes, cells, modulus, digits)
    assert count(codes, cells, modulus, digits).tolist() == expected.tolist()


def digits_needed(cells: int, modulus: int) -> list[int]:
    found = [0]
    while modulus ** len(found) < cells:
        found.append(0)
    return found


@pytest.mark.parametrize("bits", [4, 5, 6])
@pytest.mark.parametrize(("cells", "modulus"), [(4, 2), (5, 2), (8, 3), (9, 3)])
def test_coins_of_few_bits_cost_nothing(cells: int, modulus: int, bits: int) -> None:
    """The hash is far from even; the ratio of two levels' chances is that of the value's coin."""
    space = 1 << bits
    vectors = LinearHashing(cells, modulus, 1).vectors
    other = space // (modulus + 1)
    own = space - (modulus - 1) * other
    laws = []
    for level in range(cells):
        law: dict[bytes, int] = {}
        for first, second in product(range(space), repeat=2):
            # These coins do what `first` and `second` of 2^bits do, with the same thresholds.
            a = -(-(first * (vectors - 1) // space) * M // (vectors - 1))
            coin = 0 if second < own else M - (modulus - 1) + (second - own) // other
            report = LinearHashing(cells, modulus, 1).randomize(level, [a, coin])
            law[report] = law.get(report, 0) + 1
        laws.append(law)
    assert len({frozenset(law) for law in laws}) == 1
    ratios = [
        Fraction(max(law[report] for law in laws), min(law[report] for law in laws))
        for report in laws[0]
    ]
    assert set(ratios) == {Fraction(max(own, other), min(own, other))}


@pytest.mark.parametrize(
    ("cells", "modulus", "other", "says"),
    [
        *[(n, 2, 1, "cells: expected 3..1048576, got") for n in (0, 2, -1, 2**20 + 1)],
        *[(100, q, 1, "modulus: expected 2..99, got") for q in (0, 1, -3)],
        *[(100, q, 1, "modulus: expected a prime, got") for q in (4, 9, 15, 91)],
        *[(2**20, q, 1, "modulus: expected a prime, got") for q in (4087, 251 * 257)],
        *[(2**20, q, 1, "modulus: expected 2..65521, got") for q in (65537, 2**31 - 1)],
        *[(5, q, 1, "modulus: expected 2..4, got") for q in (5, 7, 4093)],
        *[(5, 3, other, "other: expected 1..") for other in (0, -1, 2**63, 2**64)],
        *[(5.0, 3, 1, "plain int"), (5, 3.0, 1, "plain int"), (5, 3, True, "plain int")],
    ],
)
def test_parameters_out_of_range_are_refused(
    cells: int, modulus: int, other: int, says: str
) -> None:
    with pytest.raises(InvalidParameter, match=says.replace(".", r"\.")) as caught:
        LinearHashing(cells, modulus, other)
    assert "\n" not in str(caught.value)


def test_an_even_value_tells_no_shares() -> None:
    with pytest.raises(InvalidParameter, match="equally often"):
        family_of(LinearHashing(4, 2, M // 2)).frequencies((1, 1, 0, 0), 1)


@pytest.mark.parametrize("cells", [65535, 1 << 20])
@pytest.mark.parametrize("epsilon", [0.5, 1, 3, 4, 5, 9])
def test_the_largest_families_are_estimated(epsilon: float, cells: int) -> None:
    """All users are in one of the cells, whose share is found among five deviations."""
    randomizer, n = linear_hashing(cells, int(epsilon * 10**9)), 400
    generator = np.random.default_rng(1)
    words = generator.integers(0, M, (n, 2), dtype=np.uint64).tolist()
    reports = b"".join(randomizer.randomize(40_000, coins) for coins in words)
    rows = np.frombuffer(reports, dtype=np.uint8).reshape(n, -1)
    counts = family_of(randomizer).tally(rows)
    rates = HashingFamily(randomizer).rates
    for cell, expected in ((40_000, rates.own), (39_999, rates.other), (0, rates.other)):
        deviation = float(n * expected * (1 - expected)) ** 0.5
        assert abs(int(counts[cell]) - n * float(expected)) < 5.5 * deviation
    assert randomizer.width <= 6
