"""Coins are a function of (seed, request, ordinal, count), alone or in columns."""

import numpy as np
import pytest

from askance_client.errors import InvalidParameter
from askance_simulation.randomness import Seed, SeededCoins, keystream, keystream_at


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_device_draws_what_the_columns_hold(count: int) -> None:
    coins = SeededCoins(Seed.of(5))
    columns = coins.columns(b"r" * 32, 3, 40, count)
    for ordinal in range(3, 40):
        assert coins.at(ordinal).words(b"r" * 32, count) == tuple(
            int(word) for word in columns[ordinal - 3]
        )


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_places_that_are_far_between_have_the_same_words(count: int) -> None:
    key, places = SeededCoins(Seed.of(5)).key(b"r" * 32), np.array([0, 1, 2, 5, 900, 2**39 + 1])
    words = keystream_at(key, places, count)
    assert words.shape == (len(places), count)
    for place, row in zip(places.tolist(), words, strict=True):
        assert np.array_equal(row, keystream(key, place * count, count))


def test_a_long_run_is_its_parts() -> None:
    key = bytes(range(16))
    whole = keystream(key, 3, 20_000)
    parts = [keystream(key, 3 + start, 2500) for start in range(0, 20_000, 2500)]
    assert np.array_equal(whole, np.concatenate(parts))


def test_another_seed_request_or_device_draws_other_words() -> None:
    draws = {
        SeededCoins(Seed.of(seed)).at(ordinal).words(request, 2)
        for seed in (0, 1, 2**40, 2**40 + 2**32)
        for request in (b"a", b"b")
        for ordinal in (0, 1)
    }
    assert len(draws) == 16


def test_words_are_uniform() -> None:
    """10^5 words; each bit's count is Binomial(10^5, 1/2): 5.8 standard deviations, ALPHA 1e-6."""
    words = SeededCoins(Seed.of(1)).columns(b"x", 0, 100_000, 1)[:, 0]
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert abs(ones - 50_000) < 5.8 * (100_000 / 4) ** 0.5


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(
        InvalidParameter, match="seed: expected a whole number of 0 or more, got -1"
    ):
        Seed.of(-1)
