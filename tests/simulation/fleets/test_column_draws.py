"""Columns draw what devices draw: report by report, for every randomizer of the wire."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_aggregator.families import (
    hadamard_sign,
    hypercube_response,
    k_ary_response,
    randomized_response,
    signed_subset_selection,
    subset_selection,
)
from askance_client.randomizers import (
    Channel,
    HypercubeResponse,
    LinearHashing,
    Randomizer,
    SubsetSelection,
)
from askance_simulation.families import draw

ONE = 1 << 64
HALF = ONE // 2
THREE = Channel(((HALF, HALF - 7, 7), (9, HALF, HALF - 9), (HALF // 2, HALF // 2, HALF)))
RANDOMIZERS: dict[str, Randomizer] = {
    "response": randomized_response(10**9),
    "response, hardly": Channel(((HALF + 1, HALF - 1), (HALF - 1, HALF + 1))),
    "response, the other way round": Channel(((7, ONE - 7), (ONE - 7, 7))),
    "table": THREE,
    "table, two bytes": Channel(
        tuple(tuple(15 << 56 if y // 16 == x else 1 << 52 for y in range(272)) for x in range(17))
    ),
    "k-ary, a byte": k_ary_response(5, 10**9),
    "k-ary, two bytes": k_ary_response(300, 3 * 10**9),
    **{
        f"{cells} cells hashed by {modulus}": LinearHashing(cells, modulus, ONE // (modulus + 2))
        for cells, modulus in ((3, 2), (300, 2), (700, 3), (65536, 3), (65536, 53), (900, 7))
    },
    "many values hashed": LinearHashing(60_000, 4093, ONE // 5000),
    **{f"sign of {values}": hadamard_sign(values, 10**9) for values in (1, 2, 5, 64, 3000)},
    **{
        f"{values} signed values at {nano}": signed_subset_selection(values, nano * 10**8)
        for values, nano in ((1, 5), (2, 5), (3, 20), (9, 10), (64, 20), (70, 15), (300, 50))
    },
    **{
        f"{cells} cells at {nano}": subset_selection(cells, nano * 10**8)
        for cells, nano in ((2, 5), (3, 2), (8, 5), (9, 10), (17, 10), (17, 20), (129, 10))
    },
    "one index": SubsetSelection(9, 1, HALF),
    "5 of 40,000": SubsetSelection(40_000, 5, HALF),
    "more members than are compared": SubsetSelection(300, 299, HALF),
    "300 indices": SubsetSelection(5000, 300, HALF),
    **{
        f"patterns of {s} at {nano}": hypercube_response(s, nano * 10**8)
        for s, nano in ((1, 5), (2, 20), (3, 10), (8, 20), (70, 30))
    },
    "patterns of 9, far likelier": HypercubeResponse(9, 6, 1 << 40),
}
EDGES = st.one_of(
    st.integers(0, ONE - 1), st.sampled_from([0, 1, HALF - 1, HALF, HALF + 1, ONE - 2, ONE - 1])
)


def column_of(randomizer: Randomizer, levels: list[int]) -> Any:
    """Return levels as columns have them: integers, or for patterns one per component."""
    if not isinstance(randomizer, HypercubeResponse):
        return np.array(levels, dtype=np.int64)
    places = range(randomizer.components - 1, -1, -1)
    signs = [[level >> place & 1 for place in places] for level in levels]
    return np.array(signs, dtype=np.int64).reshape(-1, randomizer.components)


def compared(randomizer: Randomizer, levels: list[int], coins: list[list[int]]) -> None:
    table = np.array(coins, dtype=np.uint64).reshape(len(levels), randomizer.coins)
    drawn = draw(randomizer, column_of(randomizer, levels), table)
    assert drawn.shape == (len(levels), randomizer.width)
    assert drawn.dtype == np.uint8
    one_by_one = [
        randomizer.randomize(level, row) for level, row in zip(levels, coins, strict=True)
    ]
    assert [row.tobytes() for row in drawn] == one_by_one


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_random_coins_and_every_level(name: str) -> None:
    randomizer, generator = RANDOMIZERS[name], np.random.default_rng(4)
    highest = min(randomizer.levels, 1 << 62)
    every = range(min(highest, 512))
    levels = [*every, *generator.integers(0, highest, 500).tolist()]
    coins = generator.integers(0, ONE, (len(levels), randomizer.coins), dtype=np.uint64)
    compared(randomizer, levels, coins.tolist())


@pytest.mark.parametrize("name", RANDOMIZERS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_coins_at_the_edges(name: str, data: st.DataObject) -> None:
    randomizer = RANDOMIZERS[name]
    levels = data.draw(st.lists(st.integers(0, randomizer.levels - 1), min_size=1, max_size=4))
    row = st.lists(EDGES, min_size=randomizer.coins, max_size=randomizer.coins)
    compared(randomizer, levels, [data.draw(row) for _ in levels])


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_nobody_is_an_empty_column(name: str) -> None:
    compared(RANDOMIZERS[name], [], [])


TWO = {
    name: one
    for name, one in {
        **RANDOMIZERS,
        "table of three symbols": Channel(((HALF, HALF - 9, 9), (7, 9, ONE - 16))),
        "k-ary of two": k_ary_response(2, 10**9),
    }.items()
    if one.levels == 2 and not isinstance(one, HypercubeResponse)
}


@pytest.mark.parametrize("name", TWO)
def test_of_two_levels_booleans_will_do(name: str) -> None:
    randomizer, generator = TWO[name], np.random.default_rng(5)
    levels = generator.integers(0, 2, 300)
    coins = generator.integers(0, ONE, (300, randomizer.coins), dtype=np.uint64)
    drawn = draw(randomizer, levels == 1, coins)
    assert np.array_equal(drawn, draw(randomizer, levels, coins))
    assert drawn.dtype == np.uint8
