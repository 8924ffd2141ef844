"""Elimination over GF(2), held against trying every vector and against what is built in."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_papers.curator.gf2 import Rows, Solutions, pack, solve, unpack, words_of


class Script:
    """Source of chosen words."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def take(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)


def equations(x: NDArray[np.int64], y: NDArray[np.int64]) -> Rows:
    d = x.shape[1]
    return pack(np.concatenate([x, y[:, None]], axis=1).astype(np.uint8), words_of(d + 1))


def draws(solutions: Solutions) -> Counter[tuple[int, ...]]:
    """Count the results of every word that a draw may take, d at most 64."""
    return Counter(tuple(solutions.draw(Script(word)).tolist()) for word in range(1 << solutions.d))


def holds(solution: NDArray[np.uint8], x: NDArray[np.int64], y: NDArray[np.int64]) -> bool:
    return bool(((x @ solution) % 2 == y).all())


class TestSmallSystems:
    @pytest.mark.parametrize("count", range(5))
    @pytest.mark.parametrize("d", [1, 2, 3, 4])
    def test_the_solutions_are_those_found_by_trying_each_drawn_alike(
        self, d: int, count: int
    ) -> None:
        rng = np.random.default_rng(10 * d + count)
        for _ in range(20):
            x, y = rng.integers(0, 2, (count, d)), rng.integers(0, 2, count)
            tried = {
                bits for bits in product((0, 1), repeat=d) if holds(np.array(bits, np.uint8), x, y)
            }
            found = solve(equations(x, y), d)
            if found is None:
                assert not tried
                continue
            assert len(tried) == 1 << d - found.rank
            assert draws(found) == dict.fromkeys(tried, 1 << found.rank)
            assert tuple(found.particular().tolist()) in tried

    def test_no_equation_leaves_everything(self) -> None:
        found = solve(np.zeros((0, 1), dtype=np.uint64), 3)
        assert found is not None
        assert found.rank == 0
        assert len(draws(found)) == 8

    def test_zero_is_not_one(self) -> None:
        assert solve(equations(np.zeros((1, 64), np.int64), np.ones(1, np.int64)), 64) is None


def built(d: int, rank: int, count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a table of this rank (almost surely: a product of random ones), and a vector."""
    rng = np.random.default_rng(seed)
    spanning = rng.integers(0, 2, (rank, d))
    spanning[:, :rank] = np.eye(rank, dtype=np.int64)
    chosen = rng.integers(0, 2, (count, rank))
    chosen[-rank:] = np.eye(rank, dtype=np.int64)  # what raises the rank may come last
    x = (chosen @ spanning % 2)[:, rng.permutation(d)]
    return x, rng.integers(0, 2, d)


class TestLargeSystems:
    """More than one block, words that are just full, ranks that are not."""

    @pytest.mark.parametrize(
        ("d", "rank", "count"),
        [(63, 63, 1500), (64, 64, 1024), (65, 40, 3000), (128, 127, 1025), (200, 7, 2500)],
    )
    def test_a_system_of_this_rank_is_solved(self, d: int, rank: int, count: int) -> None:
        x, r = built(d, rank, count, seed=d)
        y = x @ r % 2
        found = solve(equations(x, y), d)
        assert found is not None
        assert found.rank == rank
        assert holds(found.particular(), x, y)
        every = Script(*[(1 << 64) - 1] * words_of(d))
        assert holds(found.draw(every), x, y)

    @pytest.mark.parametrize("place", [0, 1023, 1024, 2999])
    def test_one_wrong_label_is_found_wherever_it_is(self, place: int) -> None:
        """Every row is a sum of others here, so a change of one label alone has no solution."""
        x, r = built(65, 40, 3000, seed=1)
        x = x[np.random.default_rng(2).permutation(3000)]
        y = x @ r % 2
        y[place] ^= 1
        assert solve(equations(x, y), 65) is None

    def test_nothing_for_a_block_and_then_all_at_once(self) -> None:
        """Rank that comes late, in one block, from a table that says nothing before."""
        x, r = built(70, 70, 200, seed=3)
        x = np.concatenate([np.zeros((2048, 70), np.int64), x])
        found = solve(equations(x, x @ r % 2), 70)
        assert found is not None
        assert found.rank == 70
        assert (found.particular() == r).all()

    def test_the_order_does_not_matter(self) -> None:
        x, r = built(66, 50, 1300, seed=4)
        y = x @ r % 2
        order = np.random.default_rng(5).permutation(len(x))
        one, two = solve(equations(x, y), 66), solve(equations(x[order], y[order]), 66)
        assert one is not None
        assert two is not None
        assert one.rank == two.rank == 50
        assert holds(two.particular(), x, y)


@pytest.mark.parametrize("width", [1, 8, 63, 64, 65, 130])
def test_packing_loses_nothing(width: int) -> None:
    bits = np.random.default_rng(width).integers(0, 2, (5, width)).astype(np.uint8)
    rows = pack(bits, words_of(width))
    assert rows.dtype == np.uint64
    assert (unpack(rows, width) == bits).all()
    assert int(rows[0, 0]) & 1 == bits[0, 0]
