"""A search by leading bits finds what numpy's search finds."""

from __future__ import annotations

import numpy as np
import pytest

from askance_simulation.populations.columns import GuidedEdges

LAST = (1 << 64) - 1


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param([], id="none"),
        pytest.param([0], id="the lowest word"),
        pytest.param([LAST], id="the highest word"),
        pytest.param([5, 5, 5, 1 << 48, (1 << 48) + 1], id="equal ones and neighbours"),
        pytest.param([n << 47 for n in range(1, 20_000)], id="two per leading bits"),
    ],
)
def test_places_are_those_of_a_search(edges: list[int]) -> None:
    array = np.array(edges, np.uint64)
    near = [min(max(edge + step, 0), LAST) for edge in edges[:300] for step in (-1, 0, 1)]
    drawn = np.random.default_rng(0).integers(0, LAST, 2_000, np.uint64, endpoint=True)
    words = np.concatenate((np.array([0, LAST, *near], np.uint64), drawn))
    expected = array.searchsorted(words, side="right")
    assert np.array_equal(GuidedEdges(array).places(words), expected)
