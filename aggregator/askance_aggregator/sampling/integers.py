"""Uniform whole numbers and orders, by rejection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.sampling.words import Words
from askance_client.errors import InvalidParameter

_SPACE = 1 << 64


def integers_below(words: Words, bound: int, count: int) -> NDArray[np.int64]:
    """`count` independent uniform integers in 0 .. bound-1, shape (count,).

    Raises:
      InvalidParameter: a bound outside 1 .. 2^62.
    """
    if not 1 <= bound <= 1 << 62:
        raise InvalidParameter(f"bound: expected 1 .. 2^62, found {bound}")
    last = np.uint64(_SPACE - _SPACE % bound - 1)  # what is above it would favour small remainders
    drawn = words.take(count)
    while (refused := np.flatnonzero(drawn > last)).size:
        drawn = drawn.copy()
        drawn[refused] = words.take(refused.size)
    return (drawn % np.uint64(bound)).astype(np.int64)


def permutation(words: Words, count: int) -> NDArray[np.int64]:
    """A uniform order of 0 .. count-1: sorted by a word each, drawn anew where two are equal."""
    while True:
        keys = words.take(count)
        order = np.argsort(keys, kind="stable")
        sorted_keys = keys[order]
        if not (sorted_keys[1:] == sorted_keys[:-1]).any():
            return order.astype(np.int64)
