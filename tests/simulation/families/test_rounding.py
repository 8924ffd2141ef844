"""Columns are rounded as devices round, by a table, by divisions and by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from askance_client.randomizers.rounding import round_to_levels
from askance_simulation.families import fused
from askance_simulation.families.rounding import round_columns, rounding

ONE = 1 << 64
RANGES = [(-20, 100, 2), (0, 4094, 17), (0, 4095, 17), (0, 1 << 20, 300), (5, 6, 1 << 16)]


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize(("low", "high", "levels"), RANGES)
def test_a_column_is_rounded_as_each_of_its_values(
    low: int, high: int, levels: int, kind: Any
) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(low, high + 1, 500)
    coins = rng.integers(0, ONE, 500, dtype=np.uint64)
    values[::7], values[1::7], coins[:50], coins[50:100] = high, low, 0, ONE - 1
    pairs = zip(values.tolist(), coins.tolist(), strict=True)
    exact = [round_to_levels(value, low, high, levels, coin) for value, coin in pairs]
    narrow = values.astype(kind)
    others = rng.integers(0, ONE, (2, 500), dtype=np.uint64)
    for ours in (round_columns, rounding(fused.LEAST_USERS)):  # without numba the same again
        for drawn in range(3):  # coins of a randomizer, before those that round
            words = np.column_stack((*others[:drawn], coins))
            assert np.array_equal(ours(narrow, low, high, levels, words), exact)
        matrix, words = narrow.reshape(50, 10), coins.reshape(50, 10)
        words = np.column_stack((others[0, :50], words))
        assert np.array_equal(ours(matrix, low, high, levels, words).ravel(), exact)
