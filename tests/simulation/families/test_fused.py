"""Kernels draw what columns draw and count what families tally, for every randomizer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_aggregator.families import family_of, hypercube_response
from askance_client.randomizers import Randomizer
from askance_client.randomizers.hypercube_draws import patterns_within, rank_words
from askance_client.randomizers.linear_hashing import MAX_HASHED
from askance_simulation.families import draw, fused, linear_hashing
from askance_simulation.families.hypercube_response import _edges
from tests.simulation.fleets.test_column_draws import HALF, ONE, RANDOMIZERS, TWO, column_of

BLOCKS = (1, 63, 64, 65, 1300)  # users drawn at once: less than a word's bits; several blocks


@pytest.fixture
def numba() -> Iterator[None]:
    """Skip if there is no compiler; forget kernels that were looked for without it."""
    pytest.importorskip("numba")
    fused._loaded.cache_clear()
    yield
    fused._loaded.cache_clear()


def coins_of(randomizer: Randomizer, users: int, rng: np.random.Generator) -> Any:
    """Return random coins; of every fourth user coins at edges."""
    shape = (users, randomizer.coins)
    coins = rng.integers(0, ONE, shape, dtype=np.uint64)
    edges = np.array([0, 1, HALF - 1, HALF, ONE - 2, ONE - 1, *_own_edges(randomizer)], np.uint64)
    coins[::4] = edges[rng.integers(0, len(edges), shape)][::4]
    return coins


def _own_edges(randomizer: Randomizer) -> list[int]:
    numbers = [value for value in randomizer.parameters if isinstance(value, int)]
    numbers += [getattr(randomizer, name, 0) for name in ("own", "threshold", "other")]
    own, other = getattr(randomizer, "own", 0), getattr(randomizer, "other", 0)
    numbers += [own + rank * other for rank in range(16)]  # where responses change
    return [edge for value in numbers for edge in (value - 1, value, value + 1) if 0 < edge < ONE]


@pytest.mark.parametrize("name", RANDOMIZERS)
@pytest.mark.usefixtures("numba")
def test_reports_and_tallies_are_those_without_kernels(name: str) -> None:
    randomizer, rng = RANDOMIZERS[name], np.random.default_rng(6)
    ours = fused.counter(randomizer, fused.LEAST_USERS)
    for users in BLOCKS:
        highest = min(randomizer.levels, 1 << 62)
        levels = column_of(randomizer, rng.integers(0, highest, users).tolist())
        coins = coins_of(randomizer, users, rng)
        plain = draw(randomizer, levels, coins)
        assert np.array_equal(ours.draw(levels, coins), plain)
    theirs = fused.TallyingCounter(randomizer)
    rng = np.random.default_rng(6)
    for users in BLOCKS:
        levels = column_of(randomizer, rng.integers(0, highest, users).tolist())
        theirs.draw(levels, coins_of(randomizer, users, rng))
    assert np.array_equal(fused.counts_of(randomizer, ours.sums()), theirs.sums())


@pytest.mark.parametrize("name", RANDOMIZERS)
@pytest.mark.usefixtures("numba")
def test_every_level_has_the_reports_without_kernels(name: str) -> None:
    randomizer, rng = RANDOMIZERS[name], np.random.default_rng(7)
    last = min(randomizer.levels, 1 << 62) - 1
    levels = [*range(min(last, 4096) + 1), last]
    column, coins = column_of(randomizer, levels), coins_of(randomizer, len(levels), rng)
    drawn = fused.counter(randomizer, fused.LEAST_USERS).draw(column, coins)
    assert np.array_equal(drawn, draw(randomizer, column, coins))


@pytest.mark.parametrize("name", RANDOMIZERS)
@pytest.mark.usefixtures("numba")
def test_coins_that_round_lie_behind_those_that_randomize(name: str) -> None:
    randomizer, rng = RANDOMIZERS[name], np.random.default_rng(11)
    levels = column_of(randomizer, rng.integers(0, min(randomizer.levels, 1 << 62), 600).tolist())
    coins = coins_of(randomizer, 600, rng)
    words = np.column_stack((coins, rng.integers(0, ONE, 600, dtype=np.uint64)))
    for users in (fused.LEAST_USERS - 1, fused.LEAST_USERS):
        drawn = fused.counter(randomizer, users).draw(levels, words)
        assert np.array_equal(drawn, draw(randomizer, levels, coins))


@pytest.mark.parametrize("name", RANDOMIZERS)
@pytest.mark.usefixtures("numba")
def test_equal_reports_are_counted_however_many_there_are(name: str) -> None:
    randomizer, rng = RANDOMIZERS[name], np.random.default_rng(12)
    level = int(rng.integers(0, min(randomizer.levels, 1 << 62)))
    coins = np.repeat(coins_of(randomizer, 2, rng)[1:], 1300, axis=0)
    ours = fused.counter(randomizer, fused.LEAST_USERS)
    reports = ours.draw(column_of(randomizer, [level] * 1300), coins)
    assert (reports == reports[0]).all()
    tally = 1300 * family_of(randomizer).tally(reports[:1])
    assert np.array_equal(fused.counts_of(randomizer, ours.sums()), tally)


def test_sums_of_products_of_digits_fit_16_bits() -> None:
    """The greatest sum of every hash that has a kernel (see `kernels.hashing._multiply`)."""
    compared = 0
    for q in range(2, 256):
        most = max(some for some in range(1, 16) if q**some <= 1 << 15)
        digits = 2
        while q ** (digits - 1) < MAX_HASHED and digits * (q - 1) ** 2 < linear_hashing._SUMS:
            parts = -(-digits // most)
            each = -(-digits // parts)
            sizes = [each] * (parts - 1) + [digits - each * (parts - 1)]
            assert sum(map(partial(greatest_sum, q), sizes)) < 1 << 16
            digits, compared = digits + 1, compared + 1
    assert compared > 500


def greatest_sum(q: int, digits: int) -> int:
    """Sum the products of a part whose number and cell are q^digits - 1."""
    lefts: list[int] = [q ** (digits - place) - 1 for place in range(1, digits)]
    return (q - 1) * (q - 1 + sum(lefts))


@pytest.mark.parametrize("components", [2, 9, 64])
@pytest.mark.usefixtures("numba")
def test_ranks_at_the_edge_of_a_distance_are_compared_to_the_last_word(components: int) -> None:
    randomizer, rng = hypercube_response(components, 10**9), np.random.default_rng(10)
    coins = rng.integers(0, ONE, (4000, randomizer.coins), dtype=np.uint64)
    within, words = patterns_within(components), rank_words(components)
    first, near = randomizer.radius + 1, randomizer.near
    edges = [*_edges(within[:first], 0, words), *_edges(within[first:], near, words)]
    for place in range(2, len(coins), 2):
        number = edges[place // 2 % len(edges)] + place % 3 - 1
        for word in range(words):
            coins[place, words - word] = number >> 64 * word & ONE - 1
    levels = rng.integers(0, 2, (len(coins), components))
    drawn = fused.counter(randomizer, fused.LEAST_USERS).draw(levels, coins)
    assert np.array_equal(drawn, draw(randomizer, levels, coins))


WIDTHS = """
import numpy as np
from askance_simulation.kernels.blocks import store_numbers
numbers = np.arange(1, 40, dtype=np.uint64) * np.uint64(0x0102030405060708)
for width in range(1, 12):
    octets = np.full(len(numbers) * width, 77, np.uint8)
    store_numbers(octets, numbers, width)
    low = [int(number) % 256**width for number in numbers]
    assert octets.tobytes() == b"".join(number.to_bytes(width, "big") for number in low), width
print("all widths")
"""


@pytest.mark.usefixtures("numba")
def test_bytes_before_the_last_eight_are_zero_without_optimization_too(tmp_path: Path) -> None:
    """A shift by 64 bits gives what the compiler likes: 0 here, and the number itself there."""
    done = run_unoptimized("-c", WIDTHS, cache=tmp_path, timeout_s=100)
    assert "all widths" in done.stdout, done.stderr


@pytest.mark.nightly  # compiles every kernel
@pytest.mark.usefixtures("numba")
def test_reports_of_kernels_are_the_same_without_optimization(tmp_path: Path) -> None:
    """Arithmetic that is undefined, such as shifts by 64 bits, hangs on what is optimized."""
    names = "reports_and_tallies or every_level or narrow_levels or edge_of_a_distance"
    words = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__, "-k", names)
    done = run_unoptimized(*words, cache=tmp_path, timeout_s=600)
    assert done.returncode == 0, done.stdout[-3000:]


def run_unoptimized(*words: str, cache: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run Python with kernels that are compiled as they are written, and kept in a folder."""
    settings = {"NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


NARROW = [np.int8, np.int16, np.int32, np.bool_]
"""Types for which a kernel is compiled, which takes a second each: one per kernel by default."""
OF_TWO = ["response", "k-ary of two", "2 cells at 5", "sign of 1"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[] if number == place else [pytest.mark.slow])
        for number, name in enumerate(OF_TWO)
        for place, kind in enumerate(NARROW)
    ],
)
@pytest.mark.usefixtures("numba")
def test_narrow_levels_have_the_reports_of_wide_ones(name: str, kind: Any) -> None:
    randomizer, rng = {**RANDOMIZERS, **TWO}[name], np.random.default_rng(8)
    levels = rng.integers(0, 2, 300)
    coins = coins_of(randomizer, 300, rng)
    drawn = fused.counter(randomizer, fused.LEAST_USERS).draw(levels.astype(kind), coins)
    assert np.array_equal(drawn, draw(randomizer, levels, coins))


@pytest.mark.parametrize("users", [fused.LEAST_USERS - 1, fused.LEAST_USERS])
@pytest.mark.parametrize("name", ["17 cells at 10", "k-ary, a byte", "65536 cells hashed by 53"])
@pytest.mark.usefixtures("numba")
def test_reports_that_are_replaced_are_counted_as_the_others(name: str, users: int) -> None:
    randomizer, rng = RANDOMIZERS[name], np.random.default_rng(9)
    levels = rng.integers(0, randomizer.levels, 500)
    coins = coins_of(randomizer, 500, rng)
    other = draw(randomizer, levels[:2], coins[7:9])
    ours = fused.counter(randomizer, users)
    reports = ours.draw(levels, coins)
    ours.replace(reports, np.array([3, 400]), other)
    assert np.array_equal(reports[[3, 400]], other)
    assert np.array_equal(
        fused.counts_of(randomizer, ours.sums()), family_of(randomizer).tally(reports)
    )


@pytest.mark.usefixtures("numba")
def test_sums_of_more_users_than_narrow_ones_are_for() -> None:
    randomizer, rng = RANDOMIZERS["k-ary, a byte"], np.random.default_rng(10)
    counter = fused.counter(randomizer, fused.LEAST_USERS)
    assert isinstance(counter, fused.FusedCounter)
    counter._latest += np.uint32(fused._MOST - 100)
    counter._users = fused._MOST - 100
    reports = []
    for users in (100, 70):
        levels = rng.integers(0, randomizer.levels, users)
        reports.append(counter.draw(levels, coins_of(randomizer, users, rng)))
    assert counter._users == 70
    tally = family_of(randomizer).tally(np.concatenate(reports)) + fused._MOST - 100
    assert np.array_equal(fused.counts_of(randomizer, counter.sums()), tally)


def test_small_populations_and_those_without_numba_are_drawn_without_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    randomizer = RANDOMIZERS["17 cells at 10"]
    assert isinstance(fused.counter(randomizer, fused.LEAST_USERS - 1), fused.TallyingCounter)
    for name in [name for name in sys.modules if name.startswith("askance_simulation.kernels")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    fused._loaded.cache_clear()
    counter = fused.counter(randomizer, fused.LEAST_USERS)
    fused._loaded.cache_clear()
    assert isinstance(counter, fused.TallyingCounter)
    assert counter._run is None


@pytest.mark.usefixtures("numba")
def test_kernels_are_used_where_numba_is_installed() -> None:
    counter = fused.counter(RANDOMIZERS["17 cells at 10"], fused.LEAST_USERS)
    assert isinstance(counter, fused.FusedCounter)


def test_many_small_populations_are_drawn_by_kernels_too() -> None:
    assert fused.most_met(10**5, fused.LEAST_EXPECTED - 1) == 10**5
    assert not fused.has_kernels(fused.most_met(10**5, fused.LEAST_EXPECTED - 1))
    assert fused.has_kernels(fused.most_met(10**5, fused.LEAST_EXPECTED))
    assert fused.has_kernels(fused.most_met(fused.LEAST_USERS, 0))
