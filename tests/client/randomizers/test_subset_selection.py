"""Random sets: Floyd's draws with few coins, the certified bias, and rates by sampling."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, log, sqrt

import numpy as np
import pytest

from askance_aggregator.families import SubsetFamily, family_of, subset_selection
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import valid
from askance_client.randomizers import COIN_SPACE, SubsetSelection
from askance_client.randomizers.floyd import PRESENT, certified_ratio, draw_members

ALPHA = 1e-6
NAT = 10**9


def draws(cells: int, size: int, level: int, own_in: bool, coin_bits: int) -> Counter[bytes]:
    """Count the tuples of `size` small coins that yield each set, the own item in or out."""
    coins = product(range(1 << coin_bits), repeat=size)
    first = 0 if own_in else 1
    drawn = (draw_members(cells, size, 1, level, (first, *c), coin_bits) for c in coins)
    return Counter(map(bytes, drawn))


def exact_worst_ratio(cells: int, size: int, threshold: int, coin_bits: int) -> Fraction:
    space = 1 << coin_bits
    laws = []
    for level in range(cells):
        law: Counter[bytes] = Counter()
        for own_in, weight in ((True, threshold), (False, space - threshold)):
            for members, count in draws(cells, size, level, own_in, coin_bits).items():
                law[members] += weight * count
        laws.append(law)
    sets = set().union(*laws)
    assert len(sets) == comb(cells, size)
    return max(Fraction(max(law[s] for law in laws), min(law[s] for law in laws)) for s in sets)


@pytest.mark.parametrize(
    ("cells", "size", "coin_bits"),
    [(3, 1, 4), (3, 2, 4), (4, 1, 4), (4, 2, 5), (4, 3, 4), (5, 2, 5), (7, 1, 6)],
)
def test_the_certified_loss_covers_the_bias_of_few_coins(
    cells: int, size: int, coin_bits: int
) -> None:
    """With 4 to 6 bits a coin the bias is large; the bound must hold and be needed."""
    space = 1 << coin_bits
    needed = False
    for threshold in (1, space // 3, space // 2, 3 * space // 4, space - 1):
        exact = exact_worst_ratio(cells, size, threshold, coin_bits)
        inside, outside = threshold * (cells - size), (space - threshold) * size
        assert exact <= Fraction(*certified_ratio(cells, size, threshold, space))
        needed |= exact > Fraction(max(inside, outside), min(inside, outside))
    divisors_only = all(space % r == 0 for r in range(cells - size, cells))
    assert needed or divisors_only


@pytest.mark.parametrize(("cells", "size"), [(3, 1), (3, 2), (4, 2), (4, 3)])
def test_with_coins_that_divide_evenly_all_sets_are_equally_likely(cells: int, size: int) -> None:
    """A coin of 12 values is fair to the ranges 1..3 that up to 4 cells draw from."""
    space = 12
    for level in range(cells):
        for own_in, drawn in ((False, size), (True, size - 1)):
            law: Counter[bytes] = Counter()
            for values in product(range(space), repeat=size):
                # draw_members computes (U r) >> 64: this U makes it floor(value r / 12)
                coins = [-(-value * COIN_SPACE // space) for value in values]
                first = 0 if own_in else 1
                law[bytes(draw_members(cells, size, 1, level, (first, *coins)))] += 1
            assert all((members[level] == PRESENT) == own_in for members in law)
            assert all(members.count(PRESENT) == size for members in law)
            assert len(law) == comb(cells - 1, drawn)
            assert set(law.values()) == {space**size // comb(cells - 1, drawn)}


def test_a_report_is_a_bitmap_in_the_order_of_unpackbits() -> None:
    randomizer = SubsetSelection(11, 3, COIN_SPACE - 1)
    report = randomizer.randomize(10, [0, 0, 0, COIN_SPACE - 1])
    bits = np.unpackbits(np.frombuffer(report, dtype=np.uint8))
    assert len(report) == 2
    assert list(np.flatnonzero(bits)) == [0, 9, 10]
    assert list(family_of(randomizer).tally(np.array([list(report)], dtype=np.uint8))) == [
        int(cell in (0, 9, 10)) for cell in range(11)
    ]


@pytest.mark.parametrize("bits", [[0, 1, 2, 3], [0, 1], [0, 1, 11], [0, 1, 15]])
def test_a_bitmap_with_other_bits_is_not_valid(bits: list[int]) -> None:
    report = np.packbits([int(i in bits) for i in range(16)])
    assert not valid(SubsetSelection(11, 3, 1), report.tobytes())
    with pytest.raises(InvalidParameter, match="3 of 11 cells, found 1 others"):
        family_of(SubsetSelection(11, 3, 1)).tally(report.reshape(1, 2))


def test_no_report_is_all_ones() -> None:
    """All 0xFF is reserved for "missing": the fullest sets leave a bit free, in whole bytes too."""
    for cells in (2, 7, 8, 9, 16):
        randomizer = SubsetSelection(cells, cells - 1, 1)
        assert b"\xff" * randomizer.width not in set(family_of(randomizer).alphabet())


def test_the_number_of_coins_is_fixed_and_the_spare_one_ignored() -> None:
    randomizer = SubsetSelection(9, 4, COIN_SPACE // 2)
    rest = [COIN_SPACE // 3, COIN_SPACE // 5, COIN_SPACE // 7]
    own_in = {randomizer.randomize(2, [0, spare, *rest]) for spare in (0, COIN_SPACE - 1)}
    own_out = {
        randomizer.randomize(2, [COIN_SPACE - 1, coin, *rest]) for coin in (0, COIN_SPACE - 1)
    }
    assert randomizer.coins == 5
    assert len(own_in) == 1
    assert len(own_out) == 2


def test_sampled_inclusion_rates_match() -> None:
    """Size: n = 20,000 per level, Hoeffding over all pairs: a deviation of .03 would be found."""
    n, randomizer = 20_000, subset_selection(12, NAT)
    cells, rates = randomizer.cells, SubsetFamily(randomizer).rates
    generator = random.Random("subset selection")
    margin = sqrt(log(2 * cells * cells / ALPHA) / (2 * n))
    assert margin < 0.03
    for level in range(cells):
        reports = b"".join(
            randomizer.randomize(
                level, [generator.getrandbits(64) for _ in range(randomizer.coins)]
            )
            for _ in range(n)
        )
        counts = family_of(randomizer).tally(np.frombuffer(reports, dtype=np.uint8).reshape(n, -1))
        for cell in range(cells):
            expected = rates.own if cell == level else rates.other
            assert abs(counts[cell] / n - float(expected)) < margin


@pytest.mark.parametrize(
    ("cells", "size", "threshold"),
    [
        *[
            (1, 1, 1),
            (2**20 + 1, 1, 1),
            (70_000, 2731, 1),
            (5, 0, 1),
            (5, 5, 1),
            (5, 2, 0),
            (5, 2, COIN_SPACE),
        ],
        *[(5, 2, -1), (5, 2.0, 1), (5.0, 2, 1), (5, 2, 0.5), (5, True, 1)],
    ],
)
def test_parameters_out_of_range_are_refused(cells: int, size: int, threshold: int) -> None:
    with pytest.raises(InvalidParameter):
        SubsetSelection(cells, size, threshold)


def test_an_even_subset_tells_no_shares() -> None:
    """At threshold / 2^64 = size / cells the own cell is as likely as any other."""
    with pytest.raises(InvalidParameter, match="equally often"):
        family_of(SubsetSelection(4, 2, COIN_SPACE // 2)).frequencies((1, 1, 0, 0), 1)


def test_the_largest_family_draws() -> None:
    randomizer = subset_selection(65535, NAT // 4)
    words = [(i * 0x9E3779B97F4A7C15) % COIN_SPACE for i in range(randomizer.coins)]
    report = randomizer.randomize(65534, words)
    assert len(report) == 8192
    assert valid(randomizer, report)
