"""A tree of ranges: the nearest estimates that add up, and what intervals leave possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_aggregator.learners.ranges import Hierarchy
from askance_client.errors import InvalidParameter

SHAPES = [(2, 2), (4, 2), (5, 2), (9, 3), (10, 3), (17, 4), (64, 4), (7, 64)]
Array = NDArray[Any]


def sums(tree: Hierarchy, leaves: Array) -> list[Array]:
    """Compute every node by definition: the cells j w .. (j + 1) w - 1, and the separate one."""
    cells = leaves[:-1]
    return [
        np.array(
            [*(cells[at : at + width].sum() for at in range(0, len(cells), width)), leaves[-1]]
        )
        for width in tree.widths
    ]


def matrix(tree: Hierarchy) -> Array:
    """Return all nodes as sums of leaves, one row per node."""
    columns = [np.concatenate(sums(tree, leaf)) for leaf in np.eye(tree.cells + 1)]
    return np.stack(columns, axis=1)


def leaves_of(tree: Hierarchy, rng: np.random.Generator) -> Array:
    return rng.dirichlet(np.ones(tree.cells + 1))


@pytest.mark.parametrize(("cells", "arity"), SHAPES)
def test_the_nearest_estimates_are_those_of_dense_least_squares(cells: int, arity: int) -> None:
    """By the normal equations with the total as a constraint (Lagrange)."""
    tree, rng = Hierarchy(cells, arity), np.random.default_rng(cells)
    raw = [rng.normal(size=size) for size in tree.sizes]
    variances = list(rng.uniform(0.1, 5, len(raw)))
    spread = np.concatenate(
        [np.full(len(one), variance) for one, variance in zip(raw, variances, strict=True)]
    )
    nodes = matrix(tree)
    weighted = nodes.T / spread
    ones = np.ones((cells + 1, 1))
    system = np.block([[weighted @ nodes, ones], [ones.T, np.zeros((1, 1))]])
    expected = np.linalg.solve(system, np.append(weighted @ np.concatenate(raw), 1.0))[:-1]
    found = tree.consistent(raw, variances)
    assert found[-1] == pytest.approx(expected)
    assert np.concatenate(found) == pytest.approx(nodes @ expected)
    assert found[0].sum() == pytest.approx(1)


@pytest.mark.parametrize(("cells", "arity"), SHAPES)
def test_estimates_that_add_up_stay_as_they_are(cells: int, arity: int) -> None:
    tree = Hierarchy(cells, arity)
    true = sums(tree, leaves_of(tree, np.random.default_rng(1)))
    found = tree.consistent(true, range(1, len(true) + 1))
    for one, other in zip(found, true, strict=True):
        assert one == pytest.approx(other)


@pytest.mark.parametrize(("cells", "arity"), SHAPES)
def test_tightened_intervals_hold_where_all_given_ones_do_and_are_no_longer(
    cells: int, arity: int
) -> None:
    tree, rng = Hierarchy(cells, arity), np.random.default_rng(2)
    shorter = 0
    for _ in range(20):
        true = sums(tree, leaves_of(tree, rng))
        lows = [one - rng.choice([0.0, 0.01, 0.2], len(one)) for one in true]
        highs = [one + rng.choice([0.0, 0.01, 0.2], len(one)) for one in true]
        tight = tree.tightened(lows, highs)
        for one, low, high, was_low, was_high in zip(true, *tight, lows, highs, strict=True):
            assert (was_low - 1e-12 <= low).all()
            assert (low <= one + 1e-12).all()
            assert (one <= high + 1e-12).all()
            assert (high <= was_high + 1e-12).all()
            shorter += int((high - low < was_high - was_low - 1e-6).sum())
    assert shorter > 0


def test_what_parts_leave_possible_by_hand() -> None:
    """With two cells and no separate users, one cell's share determines the other's."""
    lows, highs = Hierarchy(2, 2).tightened([[0.3, 0.0, 0.0]], [[0.8, 0.4, 0.0]])
    assert lows[0] == pytest.approx([0.6, 0.2, 0.0])
    assert highs[0] == pytest.approx([0.8, 0.4, 0.0])


def test_intervals_that_no_tree_lies_in_stay_as_they_are() -> None:
    lows, highs = Hierarchy(2, 2).tightened([[0.0, 0.0, 0.0]], [[0.3, 0.3, 0.3]])
    assert lows[0].tolist() == [0.0] * 3
    assert highs[0].tolist() == [0.3] * 3


@pytest.mark.parametrize(("cells", "arity"), SHAPES)
def test_every_range_is_made_of_few_nodes(cells: int, arity: int) -> None:
    tree = Hierarchy(cells, arity)
    leaves = leaves_of(tree, np.random.default_rng(3))
    levels = sums(tree, leaves)
    for first in range(cells):
        for stop in range(first + 1, cells + 1):
            nodes = tree.nodes(first, stop)
            total = sum(levels[level][node] for level, node in nodes)
            assert total == pytest.approx(leaves[first:stop].sum())
            assert len(nodes) <= 2 * (arity - 1) * len(levels)
    assert tree.nodes(0, 0) == ()
    assert len(tree.nodes(0, cells)) == tree.sizes[0] - 1


@pytest.mark.parametrize(
    ("cells", "arity", "message"),
    [
        (1, 2, "2 or more cells, found 1"),
        (4, 1, r"arity: expected a whole number in 2\.\.1024, got 1"),
        (4, 1025, "got 1025"),
        (4, True, "arity: expected"),
    ],
)
def test_a_tree_of_other_form_is_refused(cells: int, arity: int, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Hierarchy(cells, arity)


def test_estimates_of_another_tree_are_refused() -> None:
    tree = Hierarchy(4, 2)
    with pytest.raises(InvalidParameter, match=r"levels of \(3, 5\) values"):
        tree.consistent([[0.5, 0.5], [0.25] * 4], [1, 1])
    levels = [[0.5, 0.5, 0.0], [0.25] * 4 + [0.0]]
    for variances in ([1], [1, 0], [1, -1], [1, float("nan")], [1, float("inf")]):
        with pytest.raises(InvalidParameter, match="2 finite variances above zero"):
            tree.consistent(levels, variances)
    with pytest.raises(InvalidParameter, match="levels of"):
        tree.tightened(levels[:1], levels[:1])
