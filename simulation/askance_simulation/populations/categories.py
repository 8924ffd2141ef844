"""Categories and words of many bits by Zipf's law: the v-th in proportion to 1 / (v + 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.learners import words_schema
from askance_aggregator.queries import EncodedColumns
from askance_client.errors import InvalidParameter
from askance_client.queries import Category, Schema
from askance_simulation.populations.columns import GuidedEdges, columns_of, draws, words_of_bits
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.populations.record_types import RecordTypes, drawn_types
from askance_simulation.randomness import Seed

_AT_ONCE = 1 << 16  # users drawn together: what they are drawn from stays near the processor


@catalogued(
    "categories",
    "one category per user, by Zipf's law, which may turn by cells from round to round",
)
def categories(size: int, seed: Seed, cells: int = 16, turn: int = 0) -> Population:
    """Make `size` users, each in one of `cells` cells, named "0" .. "cells-1", by Zipf's law.

    There are 2 .. 65536 `cells`. In round r, the first being 0, all users have moved on by r `turn`
    cells, 0 .. cells-1: cell (v + r turn) mod cells has the share that v had.
    """
    if not 2 <= cells <= 65_536:
        raise InvalidParameter(f"categories: expected 2 to 65536 cells, got {cells}")
    schema = Schema("categories", 1, category=Category(tuple(str(v) for v in range(cells))))
    if not 0 <= turn < cells:
        raise InvalidParameter(f"categories: expected a turn of 0 to {cells - 1}, got {turn}")
    ranks = zipf(seed / "people", cells)

    def in_round(number: int) -> Population:
        ahead = number * turn % cells

        def columns(start: int, stop: int) -> EncodedColumns:
            found = ranks(start, stop)
            return columns_of({"category": (found + ahead) % cells if ahead else found})

        return Population("categories", schema, size, columns, notes=notes, law=law)

    def law(seed: Seed) -> RecordTypes:
        cell = columns_of({"category": np.arange(cells)})
        return drawn_types(cell, np.array([weight >> 16 for weight in _weights(cells)]), size, seed)

    notes = (f"from round to round the law turned by {turn} of {cells} cells",) if turn else ()
    return replace(in_round(0), drift=in_round if turn else None)


def _weights(cells: int) -> list[int]:
    """Return the weight of each cell, in proportion to 1 / (v + 1)."""
    return [(1 << 64) // (v + 1) for v in range(cells)]


def zipf(people: Seed, cells: int) -> Callable[[int, int], NDArray[np.signedinteger[Any]]]:
    """Draw the cells of users start .. stop-1 by random access: v in proportion to 1 / (v + 1)."""
    weights = _weights(cells)
    total = sum(weights)
    edges = GuidedEdges(
        np.array(
            [int(Fraction(part, total) * (1 << 64)) for part in accumulate(weights[:-1])], np.uint64
        )
    )

    def ranks(start: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        parts = [
            edges.places(draws(people, first, min(first + _AT_ONCE, stop), 1)[:, 0])
            for first in range(start, max(stop, start + 1), _AT_ONCE)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    return ranks


_MAX_WORDS = 65_536


@catalogued("words", "one of a few words of many bits per user, by Zipf's law")
def words(size: int, seed: Seed, width: int = 16, words: int = 64) -> Population:
    """Make `size` users, each with a `word` of `width` bits: the v-th in proportion to 1 / (v + 1).

    `width` is 1 .. 256 and `words`, how many words there are, is 2 .. 65536. They are drawn with
    replacement, so that of few bits some may be the same.
    """
    schema = words_schema(width)
    if not 2 <= words <= _MAX_WORDS:
        raise InvalidParameter(f"words: expected 2 to {_MAX_WORDS} words, got {words}")
    written = words_of_bits(draws(seed / "words", 0, words, -(-width // 64)), width)
    ranks = zipf(seed / "people", words)

    def columns(start: int, stop: int) -> EncodedColumns:
        chosen = ranks(start, stop)
        return columns_of({"word": tuple(np.take(part, chosen) for part in written)})

    return Population("words", schema, size, columns)
