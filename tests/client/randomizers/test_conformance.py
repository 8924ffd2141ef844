"""Conformance suite of all randomizers, by enumeration of their serialised reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_aggregator.families import (
    family_of,
    hadamard_sign,
    k_ary_response,
    linear_hashing,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import probability, valid
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

M = COIN_SPACE
NAT = 10**9
UNEVEN = Channel(
    (
        (M // 2, M // 4, M // 8, M // 8),
        (M // 8 + 1, M // 2 - 1, M // 4, M // 8),
        (1, 3, M // 2, M // 2 - 4),
    )
)
SMALL: list[Randomizer] = [
    randomized_response(NAT // 2),
    randomized_response(20 * NAT),
    Channel(((M - 1, 1), (M - 2, 2))),
    UNEVEN,
    KaryResponse(2, 1),
    KaryResponse(3, M // 3),
    KaryResponse(3, M // 3 + M // 10),  # the own cell is the rarer one
    k_ary_response(5, NAT),
    subset_selection(3, NAT),
    subset_selection(4, 3 * NAT),
    SubsetSelection(4, 2, M - 1),
    SubsetSelection(5, 4, 3 * (M // 4)),
    SubsetSelection(6, 3, M // 5),  # the own cell is the rarer one
    SubsetSelection(8, 7, M - M // 10),
    subset_selection(9, NAT // 2),
    SubsetSelection(9, 1, M // 2),  # an index, where the bitmap has two bytes
    LinearHashing(3, 2, M // 3),
    LinearHashing(3, 2, 2 * (M // 3)),  # the own value is the rarer one
    LinearHashing(4, 2, 1),
    LinearHashing(9, 3, M // 4 + 5),
    LinearHashing(16, 5, M // 10),
    linear_hashing(7, NAT // 2),
    linear_hashing(11, NAT),
    HadamardSign(1, M - 1),
    HadamardSign(3, M // 3),  # the own sign is the rarer one
    hadamard_sign(2, NAT),
    hadamard_sign(5, 3 * NAT),
    SignedSubsetSelection(1, 1, M - M // 9),
    SignedSubsetSelection(2, 1, M // 7),  # the own sign is the rarer one
    SignedSubsetSelection(2, 2, 3 * (M // 4)),
    SignedSubsetSelection(3, 2, M - 1000),
    SignedSubsetSelection(4, 3, M // 2),
    signed_subset_selection(3, 2 * NAT),
    signed_subset_selection(4, 3 * NAT),
]
WINDOWS = Channel(  # 272 symbols: two bytes
    tuple(tuple(15 << 56 if y // 16 == x else 1 << 52 for y in range(272)) for x in range(17))
)
LARGE: list[Randomizer] = [
    WINDOWS,
    k_ary_response(255, NAT),
    k_ary_response(256, NAT),
    LinearHashing(65, 2, M // 3),  # the last report would be all ones in one byte
    hadamard_sign(64, NAT),  # 256 reports: two bytes
    signed_subset_selection(7, 2 * NAT),
    SubsetSelection(33, 2, M // 3),  # two indices of a byte
    SubsetSelection(256, 1, M // 5),  # an index of two bytes
    SignedSubsetSelection(5, 1, M // 2),
    SignedSubsetSelection(12, 2, M // 2),
]
ALL = SMALL + LARGE


def label(randomizer: Randomizer) -> str:
    return f"{randomizer.name}-{randomizer.levels}-{randomizer.loss.nano_nats}"


def columns(*reports: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.array([list(report) for report in reports], dtype=np.uint8)


every = pytest.mark.parametrize("randomizer", ALL, ids=label)
every_small = pytest.mark.parametrize("randomizer", SMALL, ids=label)


def some_levels(randomizer: Randomizer) -> list[int]:
    return sorted({0, 1, randomizer.levels // 2, randomizer.levels - 1})


def estimated(randomizer: Randomizer, counts: Any, n: int) -> tuple[Fraction, ...]:
    """Return the estimated shares of levels, or signed values if the family reports only those."""
    signed = family_of(randomizer).signed
    if signed is not None:
        return signed.signed_values(counts, n)
    return family_of(randomizer).frequencies(counts, n)


def truth(randomizer: Randomizer, level: int) -> list[int]:
    """Return the estimand, for a population at one level."""
    if family_of(randomizer).signed is not None:
        return [(level // 2 == j) * (1 - 2 * (level % 2)) for j in range(randomizer.levels // 2)]
    return [int(v == level) for v in range(randomizer.levels)]


@every
def test_probabilities_sum_to_one(randomizer: Randomizer) -> None:
    for level in some_levels(randomizer):
        total = sum(
            probability(randomizer, level, report) for report in family_of(randomizer).alphabet()
        )
        assert total == 1


@every
def test_exactly_the_alphabet_is_valid(randomizer: Randomizer) -> None:
    alphabet = list(family_of(randomizer).alphabet())
    assert len(set(alphabet)) == len(alphabet)
    assert randomizer.width <= 2
    words = (bytes(word) for word in product(range(256), repeat=randomizer.width))
    assert {word for word in words if valid(randomizer, word)} == set(alphabet)


@every
def test_other_lengths_and_the_missing_report_are_not_valid(randomizer: Randomizer) -> None:
    report = next(family_of(randomizer).alphabet())
    for other in (b"", report[1:], report + b"\0", b"\0" + report, b"\xff" * randomizer.width):
        assert not valid(randomizer, other)
        assert probability(randomizer, 0, other) == 0


@every_small
def test_every_report_is_emitted_and_no_other(randomizer: Randomizer, law: Law) -> None:
    """Peers' defects: a last item that never comes, a true item that always comes first."""
    for level in range(randomizer.levels):
        assert set(law(randomizer, level)) == set(family_of(randomizer).alphabet())


@every_small
def test_the_coins_follow_the_stated_probabilities(randomizer: Randomizer, law: Law) -> None:
    """Exactly for tables; for subsets up to the bias that their loss includes."""
    slack = Fraction()
    if isinstance(randomizer, SubsetSelection | LinearHashing):
        slack = Fraction(randomizer.cells**2, M)
    elif isinstance(randomizer, SignedSubsetSelection):
        slack = Fraction(randomizer.values**2, M)
    for level in range(randomizer.levels):
        for report, coins in law(randomizer, level).items():
            stated = probability(randomizer, level, report)
            assert abs(Fraction(coins, M**randomizer.coins) - stated) <= slack * stated


@every_small
def test_the_loss_bounds_the_serialised_reports_and_is_tight(
    randomizer: Randomizer, law: Law
) -> None:
    laws = [law(randomizer, level) for level in range(randomizer.levels)]
    worst = max(
        Fraction(max(column), min(column))
        for column in ([law[report] for law in laws] for report in family_of(randomizer).alphabet())
    )
    stated = Fraction(randomizer.loss.numerator, randomizer.loss.denominator)
    assert worst <= stated
    if isinstance(randomizer, SubsetSelection | SignedSubsetSelection):
        assert stated <= worst * (1 + Fraction(1, 10**15))
    else:
        assert stated == worst


@pytest.mark.parametrize(
    "randomizer",
    [
        *SMALL,
        *(pytest.param(one, marks=[pytest.mark.slow] if one.levels > 16 else []) for one in LARGE),
    ],
    ids=label,
)
def test_frequencies_are_unbiased(randomizer: Randomizer) -> None:
    """sum_y Pr[y | x] estimate(y) is the x-th unit vector: linear, so it holds for n users."""
    estimates = {
        report: estimated(randomizer, family_of(randomizer).tally(columns(report)), 1)
        for report in family_of(randomizer).alphabet()
    }
    for level in some_levels(randomizer):
        expected = [
            sum(
                probability(randomizer, level, report) * shares[v]
                for report, shares in estimates.items()
            )
            for v in range(len(truth(randomizer, level)))
        ]
        assert expected == truth(randomizer, level)


@every_small
def test_the_stated_variance_is_that_of_the_estimates(randomizer: Randomizer) -> None:
    """Averaged over cells, or over values for a user at one of them."""
    averages = []
    for level in range(randomizer.levels):
        squares = Fraction()
        for report in family_of(randomizer).alphabet():
            shares = estimated(randomizer, family_of(randomizer).tally(columns(report)), 1)
            squares += probability(randomizer, level, report) * sum(f * f for f in shares)
        averages.append((squares - 1) * Fraction(1, len(truth(randomizer, level))))
    signed = family_of(randomizer).signed
    if signed is not None:
        averages.pop()  # the neutral level's
        assert signed.value_variance() == max(averages)
    else:
        assert family_of(randomizer).frequency_variance() == max(averages)
    if randomizer is not UNEVEN and randomizer is not SMALL[2]:
        assert len(set(averages)) == 1


@every
def test_tallies_add_up_in_any_order_and_shards(randomizer: Randomizer) -> None:
    reports = columns(*list(family_of(randomizer).alphabet())[:50] * 3)
    whole = family_of(randomizer).tally(reports)
    parts = family_of(randomizer).tally(reports[::-1][:7]) + family_of(randomizer).tally(
        reports[::-1][7:]
    )
    assert whole.dtype == np.int64
    assert (whole == parts).all()
    assert not family_of(randomizer).tally(reports[:0]).any()


@every
def test_a_tally_refuses_what_is_outside_the_alphabet(randomizer: Randomizer) -> None:
    good = next(family_of(randomizer).alphabet())
    with pytest.raises(InvalidParameter, match="found 1 others"):
        family_of(randomizer).tally(columns(good, b"\xff" * randomizer.width))
    with pytest.raises(InvalidParameter, match="shape"):
        family_of(randomizer).tally(columns(good + b"\0"))
    with pytest.raises(InvalidParameter, match="int64"):
        family_of(randomizer).tally(columns(good).astype(np.int64))


@every
def test_an_estimate_refuses_what_is_no_tally(randomizer: Randomizer) -> None:
    counts = [
        int(c)
        for c in family_of(randomizer).tally(columns(*list(family_of(randomizer).alphabet())[:2]))
    ]
    bads = [(counts, 0), (counts[:-1], 2), ([-1, *counts[1:]], 2), ([3, *counts[1:]], 2)]
    if not isinstance(randomizer, LinearHashing | HadamardSign):  # theirs have no fixed sum
        bads.append((counts, 3))
    for bad, n in bads:
        with pytest.raises(InvalidParameter):
            estimated(randomizer, bad, n)


@every
def test_a_draw_refuses_other_levels_and_coins(randomizer: Randomizer) -> None:
    coins = [0] * randomizer.coins
    for level in (-1, randomizer.levels):
        with pytest.raises(InvalidParameter, match="level") as caught:
            randomizer.randomize(level, coins)
        assert str(level) not in str(caught.value).replace(f"0..{randomizer.levels - 1}", "")
        with pytest.raises(InvalidParameter, match="level"):
            probability(randomizer, level, next(family_of(randomizer).alphabet()))
    bad: list[Any] = [[], [*coins, 0], [-1, *coins[1:]], [2**64, *coins[1:]], ["0", *coins[1:]]]
    for words in bad:
        with pytest.raises(InvalidParameter, match="coin"):
            randomizer.randomize(0, words)
    with pytest.raises(InvalidParameter, match="integers"):
        randomizer.randomize(0.0, coins)  # type: ignore[arg-type]  # on purpose


@every
def test_fixed_width_integers_do_not_wrap_around(randomizer: Randomizer) -> None:
    """Reproduction: np.uint64 times a range is taken modulo 2^64, silently."""
    words = [2**64 - 1 - 2**60 * i for i in range(randomizer.coins)]
    narrow: Any = np.array(words, dtype=np.uint64)
    for level in some_levels(randomizer):
        expected = randomizer.randomize(level, words)
        assert randomizer.randomize(int(np.int16(level)), narrow) == expected
    report = next(family_of(randomizer).alphabet())
    counts = family_of(randomizer).tally(columns(report)) * 2**61
    shares = estimated(randomizer, counts, 2**61)
    assert shares == estimated(randomizer, family_of(randomizer).tally(columns(report)), 1)


def test_canonical_bytes_tell_all_apart() -> None:
    half = (M // 2, M // 2)
    quarter = (M // 4,) * 4
    more: list[Randomizer] = [
        Channel((half,) * 4),
        Channel((quarter,) * 2),
        KaryResponse(3, 2),
        KaryResponse(2, 3),
        SubsetSelection(3, 2, 1),
        SubsetSelection(3, 1, 2),
        LinearHashing(9, 3, 1),
        SignedSubsetSelection(9, 3, 1 << 63),
        SubsetSelection(9, 3, 1 << 63),
    ]
    everyone = ALL + more
    assert len({randomizer.canonical for randomizer in everyone}) == len(everyone)
    assert len(set(everyone)) == len(everyone)


def test_canonical_bytes_stay_as_they_are() -> None:
    """Canonical bytes enter digests of requests and transcripts: a change breaks recorded ones."""
    assert KaryResponse(3, 2**60).canonical.hex() == (
        "056b2d6172790000000200000000000000031000000000000000"
    )
    assert SubsetSelection(9, 4, 2**63).canonical.hex() == (
        "107375627365742d73656c656374696f6e00000003000000000000000900000000000000048000000000000000"
    )
    assert LinearHashing(9, 3, 2**60).canonical.hex() == (
        "0e6c696e6561722d68617368696e6700000003000000000000000900000000000000031000000000000000"
    )
    assert HadamardSign(5, 2**63 + 1).canonical.hex() == (
        "0d686164616d6172642d7369676e0000000200000000000000058000000000000001"
    )
    assert SignedSubsetSelection(9, 4, 2**62).canonical.hex() == (
        "177369676e65642d7375627365742d73656c656374696f6e"
        "00000003000000000000000900000000000000044000000000000000"
    )
    assert Channel(((M // 2, M // 2), (M // 4, 3 * (M // 4)))).canonical.hex() == (
        "076368616e6e656c"
        "00000006"
        "0000000000000002"
        "0000000000000002"
        "8000000000000000"
        "8000000000000000"
        "4000000000000000"
        "c000000000000000"
    )


def test_reports_stay_as_they_are() -> None:
    """A draw of each family is fixed for ever: devices and simulations of any release agree."""
    coins = [0x0123456789ABCDEF * 37 * (i + 1) % M for i in range(5)]
    assert UNEVEN.randomize(1, [M // 8]).hex() == "00"
    assert UNEVEN.randomize(1, [M // 8 + 1]).hex() == "01"
    assert KaryResponse(300, 2**55).randomize(7, [M - 1]).hex() == "012b"
    assert KaryResponse(300, 2**55).randomize(299, [M - 1]).hex() == "012a"
    assert SubsetSelection(9, 4, 1).randomize(3, coins).hex() == "6a00"  # cells 1, 2, 4, 6
    assert SubsetSelection(9, 4, 1).randomize(4, coins).hex() == "6280"  # and 8 in place of 4
    assert SubsetSelection(99, 4, 1).randomize(3, coins).hex() == "1f2f3f50"
