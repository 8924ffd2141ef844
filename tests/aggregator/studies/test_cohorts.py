"""Cohorts are ranges of a permutation of the users, by a seed, with random access both ways."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.studies import Permutation
from askance_aggregator.studies.cohorts import Cohort, permutation_of
from askance_aggregator.studies.results import cohort_seed
from askance_client.errors import InvalidParameter

SIZES = sorted({2**k + step for k in range(1, 17) for step in (-1, 0, 1)} | {10, 100, 1000})


# A study that was interrupted asks the same users after an upgrade.
GOLDEN = [7, 5, 8, 2, 9, 6, 0, 3, 4, 1]


def test_every_study_and_epoch_has_a_seed_of_its_own() -> None:
    """The analyst's nonce decides it, by the study's digest; of an epoch its index as well."""
    digest = bytes(range(32))
    assert cohort_seed(digest) == sha256(b"askance cohorts v1\0" + digest).digest()
    later = sha256(b"askance cohorts v1\0" + digest + (2_900).to_bytes(8, "big")).digest()
    assert cohort_seed(digest, 2_900) == later
    seeds = {cohort_seed(study, epoch) for study in (digest, bytes(32)) for epoch in range(3)}
    assert len(seeds) == 6


def in_order(permutation: Permutation) -> list[int]:
    """Return the users at positions 0, 1, 2, ..."""
    size = permutation.size
    positions = permutation.positions(np.arange(size, dtype=np.int64))
    order = np.empty(size, np.int64)
    order[positions] = np.arange(size)
    return [int(user) for user in order]


@pytest.mark.parametrize("size", SIZES)
def test_every_position_has_one_user_and_every_user_one_position(size: int) -> None:
    permutation = Permutation(b"seed", size)
    users = np.arange(size, dtype=np.int64)
    assert np.array_equal(np.sort(permutation.positions(users)), users)
    assert np.array_equal(permutation.ordinals(0, size), users)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 257])
def test_one_way_undoes_the_other(size: int) -> None:
    permutation = Permutation(b"seed", size)
    for position in range(size):
        (user,) = permutation.ordinals(position, position + 1)
        assert permutation.positions(np.array([user])).tolist() == [position]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40), st.integers(1, 3000), st.data())
def test_ranges_that_cover_all_positions_cover_all_users_once(
    seed: bytes, size: int, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, size), max_size=5).map(sorted))
    edges = [0, *cuts, size]
    permutation = Permutation(seed, size)
    cohorts = [permutation.ordinals(a, b) for a, b in pairwise(edges)]
    together = np.concatenate(cohorts)
    assert np.array_equal(np.sort(together), np.arange(size))
    for start, cohort in zip(edges[:-1], cohorts, strict=True):
        assert np.array_equal(cohort, np.sort(cohort))
        places = np.sort(permutation.positions(cohort))
        assert np.array_equal(places, np.arange(start, start + len(cohort)))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 1 << 62), st.data())
def test_the_two_ways_agree_at_any_size(size: int, data: st.DataObject) -> None:
    permutation = Permutation(b"any", size)
    position = data.draw(st.integers(0, size - 1))
    (user,) = permutation.ordinals(position, position + 1)
    assert 0 <= user < size
    assert permutation.positions(np.array([user])).tolist() == [position]


def test_chunk_by_chunk_is_all_at_once() -> None:
    permutation = Permutation(b"seed", 1000)
    whole = permutation.positions(np.arange(1000))
    parts = [permutation.positions(np.arange(a, a + 250)) for a in range(0, 1000, 250)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_another_seed_or_size_is_another_order() -> None:
    orders = [in_order(Permutation(seed, size)) for seed in (b"", b"a", b"b") for size in (64, 65)]
    assert len({tuple(order[:16]) for order in orders}) == 6
    assert in_order(Permutation(b"a", 64)) == orders[2]


def test_an_order_is_the_same_in_every_version() -> None:
    assert in_order(Permutation(b"askance", 10)) == GOLDEN


def test_a_user_is_at_every_position_equally_often() -> None:
    """2,000 seeds, 5 users: chi-square with 16 degrees of freedom, below its 1 - 1e-6 quantile."""
    counts = np.zeros((5, 5))
    for seed in range(2000):
        positions = Permutation(seed.to_bytes(2, "big"), 5).positions(np.arange(5))
        counts[np.arange(5), positions] += 1
    assert ((counts - 400) ** 2 / 400).sum() < 58.4


def test_a_cohort_of_nobody_is_empty() -> None:
    assert Permutation(b"seed", 5).ordinals(3, 3).tolist() == []


@pytest.mark.parametrize("size", [0, -1, (1 << 62) + 1])
def test_sizes_out_of_range_are_refused(size: int) -> None:
    with pytest.raises(InvalidParameter, match=f"found {size}"):
        Permutation(b"seed", size)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 6)])
def test_ranges_out_of_bounds_are_refused(start: int, stop: int) -> None:
    with pytest.raises(InvalidParameter, match=f"found {start}..{stop}"):
        Permutation(b"seed", 5).ordinals(start, stop)


@settings(max_examples=50)
@given(
    chosen=st.sets(st.integers(0, 400), min_size=1), bounds=st.tuples(st.integers(), st.integers())
)
def test_selected_users_have_the_positions_of_their_places(
    chosen: set[int], bounds: tuple[int, int]
) -> None:
    """The order is that of as many users without gaps; no other user is in a cohort."""
    users = np.array(sorted(chosen), dtype=np.int64)
    selected, plain = permutation_of(b"x", len(users), users), Permutation(b"x", len(users))
    start, stop = sorted(bound % (len(users) + 1) for bound in bounds)
    cohort = Cohort(selected, start, stop)
    expected = users[plain.ordinals(start, stop)]
    assert cohort.members.tolist() == expected.tolist()
    everyone = np.arange(-1, 403, dtype=np.int64)
    assert everyone[cohort.holds(everyone)].tolist() == expected.tolist()
    assert cohort.within(0, 403).tolist() == expected.tolist()
    assert selected.positions(users).tolist() == plain.positions(np.arange(len(users))).tolist()
    assert selected.end == max(chosen) + 1
    assert selected == permutation_of(b"x", len(users), users.copy())
    assert selected != permutation_of(b"x", len(users), users + 1)
    assert selected != plain


def test_other_users_than_a_study_began_with_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"the 3 users that the study began with, got 2"):
        permutation_of(b"x", 3, np.array([4, 7]))
    assert permutation_of(b"x", 3, None) == Permutation(b"x", 3)
