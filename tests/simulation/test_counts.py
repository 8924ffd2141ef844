"""A tally drawn from level counts has the law of the tally of that many users' reports.

First exactly: a generator that takes every branch in turn gives the sampler's whole law, which is
held against the sum over all reports of all users. Then with numpy's generator, against devices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import product
from math import comb, prod
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp

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
from askance_client.exact_laws import probability
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
from askance_simulation.counts import sample_levels, sample_signed_sets, sample_tally
from askance_simulation.randomness import Seed, keystream

ALPHA = 1e-6
HALF = COIN_SPACE // 2
EIGHTH = COIN_SPACE // 8

TINY = {
    "table": Channel(((HALF, HALF - EIGHTH, EIGHTH), (EIGHTH, HALF, HALF - EIGHTH))),
    "k-ary": KaryResponse(3, EIGHTH),
    "k-ary that avoids its own cell": KaryResponse(3, HALF - EIGHTH),
    "a set of one": SubsetSelection(3, 1, HALF + EIGHTH),
    "a set of two": SubsetSelection(4, 2, COIN_SPACE - EIGHTH),
    "a set of all but one": SubsetSelection(3, 2, COIN_SPACE - EIGHTH),
    "a set that ignores its own cell": SubsetSelection(4, 2, HALF),
    "a set that avoids its own cell": SubsetSelection(4, 2, EIGHTH),
    "a large set that avoids its own cell": SubsetSelection(4, 3, HALF),
    "a sign": HadamardSign(2, HALF + EIGHTH),
    "a sign of one row": HadamardSign(1, COIN_SPACE - EIGHTH),
    "a sign that is contrary": HadamardSign(2, EIGHTH),
    "a signed set of one": SignedSubsetSelection(2, 1, HALF),
    "a signed set of all": SignedSubsetSelection(2, 2, HALF + EIGHTH),
}

Law = dict[tuple[int, ...], float]


class EveryBranch:
    """Stands for numpy's generator: each run takes the next branch of the tree of all draws."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.widths: list[int] = []
        self.at = 0
        self.weight = 1.0

    def next_run(self) -> bool:
        """Move to the next leaf; False after the last."""
        while self.path and self.path[-1] + 1 == self.widths[-1]:
            self.path.pop()
            self.widths.pop()
        if not self.path:
            return False
        self.path[-1] += 1
        self.at, self.weight = 0, 1.0
        return True

    def one(self, masses: Sequence[float]) -> int:
        possible = [value for value, mass in enumerate(masses) if mass > 0]
        if self.at == len(self.path):
            self.path.append(0)
            self.widths.append(len(possible))
        value = possible[self.path[self.at]]
        self.at += 1
        self.weight *= masses[value]
        return value

    def binomial(self, n: Any, p: Any) -> NDArray[np.int64]:
        return self._each(
            lambda n, p: [comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)], n, p
        )

    def hypergeometric(self, good: Any, bad: Any, drawn: Any) -> NDArray[np.int64]:
        return self._each(
            lambda good, bad, drawn: [
                comb(good, x) * comb(bad, drawn - x) / comb(good + bad, drawn)
                for x in range(drawn + 1)
            ],
            good,
            bad,
            drawn,
        )

    def multinomial(self, n: NDArray[np.int64], chances: Sequence[float]) -> NDArray[np.int64]:
        rows = []
        for users in n:
            row = np.zeros(len(chances), dtype=np.int64)
            for _ in range(users):
                row[self.one(list(chances))] += 1
            rows.append(row)
        return np.array(rows)

    def _each(self, masses: Callable[..., list[float]], *arrays: Any) -> NDArray[np.int64]:
        shaped = np.broadcast_arrays(*arrays)
        flat = zip(*(array.ravel().tolist() for array in shaped), strict=True)
        drawn = [self.one(masses(*numbers)) for numbers in flat]
        return np.array(drawn, dtype=np.int64).reshape(shaped[0].shape)


def law_of_sampler(randomizer: Randomizer, level_counts: Sequence[int]) -> Law:
    branches, law = EveryBranch(), defaultdict[tuple[int, ...], float](float)
    more = True
    while more:
        rng = cast(np.random.Generator, branches)
        (tally,) = sample_tally(randomizer, level_counts, rng, 1).tolist()
        law[tuple(tally)] += branches.weight
        more = branches.next_run()
    return law


def law_of_users(randomizer: Randomizer, level_counts: Sequence[int]) -> Law:
    """Enumerate every report of every user, by the probabilities that the randomizer states."""
    law = defaultdict[tuple[int, ...], float](float)
    users = [level for level, count in enumerate(level_counts) for _ in range(count)]
    for reports in product(list(family_of(randomizer).alphabet()), repeat=len(users)):
        rows = np.frombuffer(b"".join(reports), np.uint8).reshape(len(users), randomizer.width)
        law[tuple(family_of(randomizer).tally(rows).tolist())] += prod(
            float(probability(randomizer, level, report))
            for level, report in zip(users, reports, strict=True)
        )
    return law


SPREADS: list[tuple[int, ...]] = [(1,), (3,), (1, 1), (2, 1), (0, 2), (1, 0, 1), (1, 1, 1)]


@pytest.mark.parametrize(
    ("name", "spread"),
    [(name, spread) for name in TINY for spread in SPREADS if len(spread) <= TINY[name].levels],
)
def test_the_law_is_that_of_the_users_reports(name: str, spread: tuple[int, ...]) -> None:
    randomizer = TINY[name]
    level_counts = spread + (0,) * (randomizer.levels - len(spread))
    sampled, stated = (
        law_of_sampler(randomizer, level_counts),
        law_of_users(randomizer, level_counts),
    )
    assert sum(sampled.values()) == pytest.approx(1, abs=1e-12)
    for tally in sampled.keys() | stated.keys():
        assert sampled.get(tally, 0) == pytest.approx(stated.get(tally, 0), abs=1e-12)


@pytest.mark.parametrize(
    "randomizer",
    [
        randomized_response(10**9),
        k_ary_response(9, 2 * 10**9),
        subset_selection(17, 10**9),
        SubsetSelection(9, 4, EIGHTH),
        linear_hashing(9, 10**9),
        LinearHashing(9, 5, HALF // 4),
        hadamard_sign(5, 10**9),
        signed_subset_selection(5, 2 * 10**9),
        SignedSubsetSelection(5, 3, EIGHTH),
    ],
    ids=lambda randomizer: f"{randomizer.name} {randomizer.levels}",
)
def test_devices_tally_alike(randomizer: Randomizer) -> None:
    """400 groups of 200 devices against 4000 drawn tallies, by Kolmogorov and Smirnov.

    Five functionals see means, spreads and joint laws; a shift of a standard deviation's half, or
    a spread of half as much again, is found with near certainty.
    """
    groups, users = 400, 200
    level_counts = np.zeros(randomizer.levels, dtype=np.int64)
    level_counts[0], level_counts[-1] = users // 2, users // 4
    level_counts[1] += users - level_counts.sum()
    levels = np.repeat(np.arange(randomizer.levels), level_counts).tolist()
    words = keystream(Seed.of(3).key[:16], 0, groups * users * randomizer.coins)
    coins = iter(words.reshape(groups * users, randomizer.coins).tolist())
    by_devices = np.array(
        [
            family_of(randomizer).tally(
                np.frombuffer(
                    b"".join(randomizer.randomize(level, next(coins)) for level in levels), np.uint8
                ).reshape(users, randomizer.width)
            )
            for _ in range(groups)
        ]
    )
    drawn = sample_tally(randomizer, level_counts, np.random.default_rng(3), 4000)
    functionals: list[Callable[[NDArray[np.int64]], NDArray[np.int64]]] = [
        lambda tally: tally[:, 0],
        lambda tally: tally[:, -1],
        lambda tally: tally[:, 0] - tally[:, 1],
        lambda tally: tally[:, 0] + tally[:, -1],
        lambda tally: tally.max(axis=1),
    ]
    for functional in functionals:
        pvalue = ks_2samp(functional(by_devices), functional(drawn)).pvalue
        assert pvalue > ALPHA / len(functionals)


def test_every_set_is_counted_whole() -> None:
    randomizer = subset_selection(129, 10**9)
    law = np.full(129, 1 / 129)
    levels = sample_levels(law, 10**6, np.random.default_rng(1), 20)
    tally = sample_tally(randomizer, levels, np.random.default_rng(2), 20)
    assert tally.shape == (20, 129)
    assert (tally.sum(axis=1) == randomizer.size * 10**6).all()
    assert ((tally >= 0) & (tally <= 10**6)).all()


def test_trials_may_have_level_counts_of_their_own() -> None:
    """With no other cell's chance to speak of, each trial shows its own users."""
    nearly_plain = KaryResponse(3, 1)
    own = [[5, 0, 2], [0, 7, 0]]
    assert sample_tally(nearly_plain, own, np.random.default_rng(1), 2).tolist() == own


def test_signed_sets_are_tallied_when_their_coins_are_tossed() -> None:
    """The same draws: bound reports, and of the strays as many + as fair coins say."""
    sets, counts = signed_subset_selection(6, 2 * 10**9), np.arange(13)
    bound, strays = sample_signed_sets(sets, counts, np.random.default_rng(2), 5)
    tally = sample_tally(sets, counts, np.random.default_rng(2), 5)
    assert (bound.shape, strays.shape) == ((5, 12), (5, 6))
    assert ((bound >= 0) & (bound <= counts[:12])).all()
    assert ((tally - bound).reshape(5, 6, 2).sum(axis=2) == strays).all()
    assert ((tally - bound) >= 0).all()


def test_signed_sets_that_avoid_their_own_sign_have_no_such_law() -> None:
    avoiding = SignedSubsetSelection(3, 2, EIGHTH)
    with pytest.raises(InvalidParameter, match="favour"):
        sample_signed_sets(avoiding, [0] * 7, np.random.default_rng(0), 1)


def test_levels_follow_the_population() -> None:
    """10^6 users; each count is within 5.5 deviations: ALPHA 1e-6 over both tails and 6 counts."""
    law = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]])
    counts = sample_levels(law, 10**6, np.random.default_rng(4), 2)
    assert (counts.sum(axis=1) == 10**6).all()
    assert counts[0, 2] == 0
    assert (np.abs(counts - 1e6 * law) <= 5.5 * np.sqrt(1e6 * law * (1 - law))).all()


@pytest.mark.parametrize(
    ("level_counts", "trials"),
    [([1, 2, 3], 1), ([[1, 2]], 2), ([0.5, 1.5], 1), ([-1, 2], 1), ([10**9, 0], 1), ([1, 1], 0)],
)
def test_what_is_no_group_is_refused(level_counts: list[Any], trials: int) -> None:
    with pytest.raises(InvalidParameter, match=r"expect|a group has"):
        sample_tally(randomized_response(10**9), level_counts, np.random.default_rng(0), trials)


def test_a_sum_of_thirds_is_a_law() -> None:
    """Reproduction: records of MASKED-PARITY add up to 1 + 2^-52 at d = 3: numpy refused them."""
    levels = sample_levels([[1 + 2**-52, 0.0], [0.0, 1.0]], 10, np.random.default_rng(1), 2)
    assert levels.tolist() == [[10, 0], [0, 10]]


@pytest.mark.parametrize(
    ("law", "users", "trials"),
    [([0.5, 0.6], 1, 1), ([1.5, -0.5], 1, 1), ([[1.0], [1.0]], 1, 3), ([1.0], -1, 1)],
)
def test_what_is_no_law_is_refused(law: list[Any], users: int, trials: int) -> None:
    with pytest.raises(InvalidParameter, match="expect"):
        sample_levels(law, users, np.random.default_rng(0), trials)
