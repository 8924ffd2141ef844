"""Sets as reports: few members travel as sorted indices, in one form of one length each."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import family_of, subset_selection
from askance_aggregator.families.sets import set_report
from askance_client.errors import InvalidParameter
from askance_client.exact_laws import contains, indices, probability, valid
from askance_client.randomizers import COIN_SPACE, SignedSubsetSelection, SubsetSelection
from askance_client.randomizers.sets import SetRandomizer

M = COIN_SPACE
FEW = SubsetSelection(40_000, 5, M // 2)
SIGNED = SignedSubsetSelection(1000, 3, M // 2)


def report_of(randomizer: SetRandomizer, *items: int) -> bytes:
    """The report of these indices, in this order, by hand."""
    return b"".join(item.to_bytes(randomizer.index_bytes, "big") for item in items)


def rows(*reports: bytes) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(reports), -1)


def test_five_of_forty_thousand_cells_travel_in_ten_bytes() -> None:
    """Reproduction: 5,000 bytes, of which 4,990 were zeros."""
    places = zip((300, 7, 39_000, 12), range(39_996, 40_000), strict=True)
    coins = [0, 0, *(-(-M * cell // outcomes) for cell, outcomes in places)]
    report = FEW.randomize(20_000, coins)
    assert report == report_of(FEW, 7, 12, 300, 20_000, 39_000)
    assert len(report) == FEW.width == 10
    assert set(np.flatnonzero(family_of(FEW).tally(rows(report)))) == set(indices(FEW, report))
    assert contains(FEW, report, 20_000)


@pytest.mark.parametrize(
    ("randomizer", "width"),
    [
        (SubsetSelection(8, 1, 1), 1),  # a tie: the bitmap, as ever
        (SubsetSelection(9, 1, 1), 1),  # one index of one byte, for two
        (SubsetSelection(17, 2, 1), 2),
        (SubsetSelection(20, 3, 1), 3),
        (SubsetSelection(255, 31, 1), 31),
        (SubsetSelection(255, 32, 1), 32),
        (SubsetSelection(256, 15, 1), 30),  # from 256 cells on an index has two bytes
        (SubsetSelection(256, 16, 1), 32),
        (SubsetSelection(65_535, 4095, 1), 8190),
        (SubsetSelection(65_535, 4096, 1), 8192),
        (SubsetSelection(65_536, 8192, 1), 8192),
        (SubsetSelection(1 << 20, 64, 1), 192),  # from 65,536 cells on an index has three
        (SubsetSelection(1 << 20, 2730, 1), 8190),
        (SignedSubsetSelection(5, 1, M // 2), 1),
        (SignedSubsetSelection(127, 31, M // 2), 31),
        (SignedSubsetSelection(128, 3, M // 2), 6),
        (SignedSubsetSelection(32_767, 8, M // 2), 16),
    ],
)
def test_a_set_takes_the_shorter_of_bitmap_and_indices(
    randomizer: SetRandomizer, width: int
) -> None:
    assert randomizer.width == width


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_length_of_a_report_depends_on_its_parameters_alone(data: st.DataObject) -> None:
    """No level, no coin and no drawn set changes it; and what is drawn is valid."""
    if data.draw(st.booleans()):
        cells = data.draw(st.integers(2, 600))
        size = data.draw(st.integers(1, min(cells - 1, 40)))
        randomizer: SetRandomizer = SubsetSelection(cells, size, M // 2)
    else:
        values = data.draw(st.integers(1, 300))
        randomizer = SignedSubsetSelection(values, data.draw(st.integers(1, values)), M // 2)
    level = data.draw(st.integers(0, randomizer.levels - 1))
    coin = st.one_of(st.integers(0, M - 1), st.sampled_from([0, M - 1]))
    coins = data.draw(st.lists(coin, min_size=randomizer.coins, max_size=randomizer.coins))
    report = randomizer.randomize(level, coins)
    assert len(report) == randomizer.width
    assert valid(randomizer, report)
    assert probability(randomizer, level, report) > 0
    counts = family_of(randomizer).tally(rows(report))
    members = np.flatnonzero(counts)
    assert counts.sum() == len(members) == randomizer.size
    assert set_report(randomizer, members.tolist()) == report
    assert [contains(randomizer, report, item) for item in range(randomizer.items)] == list(
        counts == 1
    )


@pytest.mark.parametrize("randomizer", [SubsetSelection(12, 1, M // 2), SubsetSelection(30, 2, 5)])
def test_indices_are_those_of_floyds_draws(randomizer: SubsetSelection) -> None:
    """By sets of numbers, written apart from the randomizer."""
    cells, size = randomizer.cells, randomizer.size
    generator = np.random.default_rng(3)
    for level in range(cells):
        coins = generator.integers(0, M, randomizer.coins, dtype=np.uint64).tolist()
        report = randomizer.randomize(level, coins)
        taken = {level} if coins[0] < randomizer.threshold else set()
        needed = size - len(taken)
        others: set[int] = set()
        ends = range(cells - 1 - needed, cells - 1)
        for j, coin in zip(ends, coins[len(coins) - needed :], strict=True):
            drawn = coin * (j + 1) >> 64
            others.add(j if drawn in others else drawn)
        taken |= {cells - 1 if other == level else other for other in others}
        assert report == bytes(sorted(taken))


REFUSED = {
    "out of order": (FEW, report_of(FEW, 7, 300, 12, 20_000, 39_000)),
    "an item twice": (FEW, report_of(FEW, 7, 12, 12, 20_000, 39_000)),
    "a cell that is none": (FEW, report_of(FEW, 7, 12, 300, 20_000, 40_000)),
    "both signs of a value": (SIGNED, report_of(SIGNED, 4, 5, 80)),
    "signed values out of order": (SIGNED, report_of(SIGNED, 5, 4, 80)),
    "a signed value that is none": (SIGNED, report_of(SIGNED, 5, 80, 2000)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_set_has_a_second_report(name: str) -> None:
    randomizer, report = REFUSED[name]
    good = report_of(randomizer, *range(0, 2 * randomizer.size, 2))
    assert valid(randomizer, good)
    assert not valid(randomizer, report)
    assert probability(randomizer, 0, report) == 0
    with pytest.raises(InvalidParameter, match="found 1 others, the first in row 1"):
        family_of(randomizer).tally(rows(good, report))


def test_a_bitmap_is_refused_where_indices_are_shorter() -> None:
    for length in (0, 9, 11, 12, 5000):
        assert not valid(FEW, bytes(length))
    with pytest.raises(InvalidParameter, match=r"expected uint8 of shape \(n, 10\)"):
        family_of(FEW).tally(np.zeros((1, 5000), np.uint8))


@pytest.mark.parametrize("cells", [254, 255, 256, 257, 65_535, 65_536, 1 << 20])
def test_no_index_is_all_ones(cells: int) -> None:
    """All 0xFF is reserved for "missing"; 255 is an index of two bytes, 65,535 of three."""
    randomizer = SubsetSelection(cells, 1, 1)
    last = randomizer.randomize(0, [M - 1, 0])  # the last stands under the own one's number
    assert indices(randomizer, last) == [cells - 1]
    assert last != b"\xff" * randomizer.width
    assert not valid(randomizer, b"\xff" * randomizer.width)


def test_exactly_the_sets_are_reports() -> None:
    """All 2^16 words of two bytes: C(24, 2) of them are sets of 2 of 24 cells."""
    randomizer = SubsetSelection(24, 2, M // 3)
    words = (word.to_bytes(2, "big") for word in range(1 << 16))
    expected = {bytes(pair) for pair in combinations(range(24), 2)}
    assert {word for word in words if valid(randomizer, word)} == expected
    assert set(family_of(randomizer).alphabet()) == expected


def test_what_plans_choose_for_many_cells_is_no_bitmap() -> None:
    """At eps = 5, 1,024 cells: 7 indices in 14 bytes, where the bitmap had 128."""
    randomizer = subset_selection(1024, 5 * 10**9)
    assert (randomizer.size, randomizer.width) == (7, 14)
