"""Signed values: counts as by hand, the certified bias of few coins, hostile parameters."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_aggregator.families import (
    HadamardFamily,
    SignedFamily,
    family_of,
    hadamard_sign,
    signed_subset_selection,
)
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability, valid
from askance_client.randomizers import COIN_SPACE, HadamardSign, Randomizer, SignedSubsetSelection
from askance_client.randomizers.floyd import PRESENT, draw_members
from askance_client.randomizers.signed_sets import certified_ratio, even_coins, opposite_coins

M = COIN_SPACE
NAT = 10**9
BOTH: list[HadamardSign | SignedSubsetSelection] = [
    HadamardSign(1, M - M // 3),
    HadamardSign(3, M // 5),
    hadamard_sign(6, NAT),
    SignedSubsetSelection(1, 1, M - M // 3),
    SignedSubsetSelection(3, 2, M // 5),
    signed_subset_selection(5, 2 * NAT),
]


def signed(randomizer: Randomizer) -> SignedFamily[Any]:
    """Return the family of a randomizer of signed values."""
    family = family_of(randomizer).signed
    assert family is not None
    return family


def label(randomizer: HadamardSign | SignedSubsetSelection) -> str:
    return f"{randomizer.name}-{randomizer.values}"


def rows(reports: list[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), -1)


@pytest.mark.parametrize("randomizer", BOTH, ids=label)
def test_sign_rates_are_those_of_the_alphabet(
    randomizer: HadamardSign | SignedSubsetSelection,
) -> None:
    """+ and - exchanged for the user are exchanged in the report, for every pair of values."""
    values, rates = randomizer.values, family_of(randomizer).pair_rates()
    strays = []
    pointed = [
        (signed(randomizer).pointing(family_of(randomizer).tally(rows([report])), 1), report)
        for report in family_of(randomizer).alphabet()
    ]
    for level, j in product(range(2 * values + 1), range(values)):
        plus = minus = Fraction()
        for (more, less), report in pointed:
            chance = probability(randomizer, level, report)
            plus, minus = plus + more[j] * chance, minus + less[j] * chance
        if level == 2 * j:
            assert (plus, minus) == (rates.hit, rates.miss)
        elif level == 2 * j + 1:
            assert (minus, plus) == (rates.hit, rates.miss)
        else:
            assert plus == minus
            strays.append(plus)
    assert max(strays) == rates.stray
    if isinstance(randomizer, SignedSubsetSelection) and values > 1:
        assert min(strays) == family_of(randomizer).least_stray


def test_a_transform_counts_as_by_hand() -> None:
    randomizer = hadamard_sign(6, NAT)
    codes = np.random.default_rng(2).integers(0, 16, 100).tolist()
    expected = [
        sum(1 - (bin(code // 2 & j).count("1") + code) % 2 for code in codes) for j in range(6)
    ]
    assert family_of(randomizer).tally(rows([bytes([code]) for code in codes])).tolist() == expected


def test_a_signed_set_is_a_bitmap_in_the_order_of_unpackbits() -> None:
    """(0,+) (0,-) (1,+) (1,-) (2,+) (2,-); own (1, -), the other member by its coin, 0, with +."""
    randomizer = SignedSubsetSelection(3, 2, M - 1000)
    (report,) = [randomizer.randomize(3, [0, 0, 0, M - 1])]
    assert list(np.unpackbits(np.frombuffer(report, dtype=np.uint8))) == [1, 0, 0, 1, 0, 0, 0, 0]
    assert list(family_of(randomizer).tally(rows([report]))) == [1, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("items", [[0, 1], [0], [0, 2, 4], [0, 6], [0, 7]])
def test_a_bitmap_with_other_bits_is_not_valid(items: list[int]) -> None:
    """Both signs of a value, too few, too many, trailing ones."""
    randomizer = SignedSubsetSelection(3, 2, M // 2)
    report = np.packbits([int(i in items) for i in range(8)])
    assert not valid(randomizer, report.tobytes())
    with pytest.raises(InvalidParameter, match="2 of 3 signed values, found 1 others"):
        family_of(randomizer).tally(report.reshape(1, 1))


def law_of_few_bits(values: int, size: int, threshold: int, level: int, bits: int) -> Counter[int]:
    """Members that say own, opposite or neither, by coins of few bits; signs are exact coins."""
    space = 1 << bits
    own, plus, either = level // 2, threshold, threshold
    if level == 2 * values:
        own, plus = 0, even_coins(values, size, space)
        either = 2 * plus
    else:
        either += opposite_coins(values, size, threshold, space)
    found: Counter[int] = Counter()
    for coins in product(range(space), repeat=1 + size):
        members = draw_members(values, size, either, own, coins, bits)
        free = [v for v in range(values) if members[v] == PRESENT and v != own]
        said = None
        if members[own] == PRESENT:
            said = (coins[0] < plus) != (level % 2 == 1)
        for signs in product((0, 1), repeat=len(free)):
            item = sum(1 << (2 * v + minus) for v, minus in zip(free, signs, strict=True))
            if said is not None:
                item |= 1 << (2 * own + (not said))
            found[item] += 1 << (size - len(free))  # so that all sum up alike
    return found


def test_the_neutral_level_may_be_the_likeliest() -> None:
    """By hand, 2 of 3 values by 32 coins: t = 11, u = h = 10, over which 3 - 2 = 1 is left.

    A level at a value: 2 t = 22, 2 u = 20, (32 - t - u) 2 = 22. The neutral one: 2 h = 20 and
    (32 - 2 h) 2 = 24, for its even coins are rounded down.
    """
    assert opposite_coins(3, 2, 11, 32) == 10
    assert even_coins(3, 2, 32) == 10
    assert certified_ratio(3, 2, 11, 32) == (24 * 32, 20 * (32 - 6))


@pytest.mark.parametrize(
    ("values", "size", "bits"), [(1, 1, 6), (2, 1, 5), (2, 2, 4), (3, 1, 6), (3, 2, 4), (4, 2, 4)]
)
def test_the_certified_loss_covers_the_bias_of_few_coins(values: int, size: int, bits: int) -> None:
    space, checked = 1 << bits, 0
    for threshold in (1, space // 3, space // 2, 3 * space // 4, space - 3):
        numerator, denominator = certified_ratio(values, size, threshold, space)
        if denominator <= 0:
            continue
        laws = [
            law_of_few_bits(values, size, threshold, level, bits) for level in range(2 * values + 1)
        ]
        assert len({law.total() for law in laws}) == 1
        exact = max(
            Fraction(max(law[report] for law in laws), min(law[report] for law in laws))
            for report in laws[0]
        )
        assert exact <= Fraction(numerator, denominator)
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize("values", [0, -1, 32768, 1.0, True])
def test_numbers_of_values_out_of_range_are_refused(values: int) -> None:
    for make in (
        lambda: HadamardSign(values, 1),
        lambda: SignedSubsetSelection(values, 1, 1 << 63),
        lambda: hadamard_sign(values, NAT),
        lambda: signed_subset_selection(values, NAT),
    ):
        with pytest.raises(InvalidParameter, match=r"values: expected (1\.\.32767|a plain int)"):
            make()


@pytest.mark.parametrize("threshold", [0, M, -1, 0.5, M - 1])
def test_thresholds_out_of_range_are_refused(threshold: int) -> None:
    """M - 1 leaves no coin to the opposite sign: an infinite loss."""
    with pytest.raises(InvalidParameter):
        SignedSubsetSelection(5, 2, threshold)
    if threshold != M - 1:
        with pytest.raises(InvalidParameter):
            HadamardSign(5, threshold)


@pytest.mark.parametrize("size", [0, 6, -1, 2.0])
def test_sizes_out_of_range_are_refused(size: int) -> None:
    with pytest.raises(InvalidParameter):
        SignedSubsetSelection(5, size, M // 2)


@pytest.mark.parametrize("randomizer", BOTH, ids=label)
def test_shares_of_cells_are_not_told(randomizer: HadamardSign | SignedSubsetSelection) -> None:
    counts = family_of(randomizer).tally(rows([next(family_of(randomizer).alphabet())]))
    with pytest.raises(InvalidParameter, match="estimates signed values, not the shares"):
        family_of(randomizer).frequencies(counts, 1)
    with pytest.raises(InvalidParameter, match="estimates signed values, not the shares"):
        family_of(randomizer).frequency_variance()


def test_signs_that_are_even_tell_nothing() -> None:
    with pytest.raises(InvalidParameter, match="equally often"):
        HadamardFamily(HadamardSign(4, M // 2)).signed_values((1, 1, 0, 0), 1)


@pytest.mark.parametrize("values", [1, 2, 4, 32767])
def test_the_extreme_sizes_draw(values: int) -> None:
    for randomizer in (hadamard_sign(values, NAT), signed_subset_selection(values, 4 * NAT)):
        words = [(i * 0x9E3779B97F4A7C15) % M for i in range(randomizer.coins)]
        for level in (0, 1, 2 * values - 1, 2 * values):
            assert valid(randomizer, randomizer.randomize(level, words))


@pytest.mark.parametrize(
    ("values", "bits"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (1_000, 10)]
)
def test_a_row_has_the_bits_of_the_next_power_of_two(values: int, bits: int) -> None:
    """With one bit more it is unbiased too, and a report is longer."""
    assert HadamardSign(values, M - M // 3).row_bits == bits


@pytest.mark.parametrize("size", [-1, 0, 4])
def test_a_signed_set_has_a_member_and_no_more_than_there_are_values(size: int) -> None:
    with pytest.raises(InvalidParameter, match=rf"size: expected 1\.\.3, got {size}$"):
        SignedSubsetSelection(3, size, M // 5)
    for least_or_most in (1, 3):
        assert SignedSubsetSelection(3, least_or_most, M // 5).size == least_or_most
