"""Words of many bits, a few of them frequent: Zipf's law over words drawn by the seed."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners import words_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_simulation.populations.categories import zipf
from askance_simulation.populations.columns import columns_of, draws, words_of_bits
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.seeds import Seed

_MAX_WORDS = 65_536


@catalogued("words", "one of a few words of many bits per user, by Zipf's law")
def words(size: int, seed: Seed, width: int = 16, words: int = 64) -> Population:
    """Make `size` users, each with a `word` of `width` bits: the v-th in proportion to 1 / (v + 1).

    `width` is 1 .. 256 and `words`, how many words there are, is 2 .. 65536. They are drawn with
    replacement, so that of few bits some may be the same.
    """
    schema = words_schema(width)
    if not 2 <= words <= _MAX_WORDS:
        raise InvalidParameter(f"words: expected 2 to {_MAX_WORDS} words, found {words}")
    written = words_of_bits(draws(seed / "words", 0, words, -(-width // 64)), width)
    ranks = zipf(seed / "people", words)

    def columns(start: int, stop: int) -> EncodedColumns:
        chosen = ranks(start, stop)
        return columns_of({"word": tuple(np.take(part, chosen) for part in written)})

    return Population("words", schema, size, columns)
