"""The report that moves an estimate furthest, for each family of randomizers.

What is to be moved is a weighted sum of the levels' estimated shares: weight 1 at a target and 0
elsewhere for its share, the levels' numbers for a mean, 1 and -1 at the two cells of a signed
value. An estimate is a sum over reports, so that the one report which is best alone is best
whatever others say.

A family has a case of its own (`favour.register`) where its reports are too many to be looked at
one by one; every other goes through the general one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, singledispatch
from itertools import islice

import numpy as np

from askance_aggregator.families import TableFamily, family_of
from askance_client.exact_laws import probability
from askance_client.randomizers import COIN_BITS, Randomizer

Weights = tuple[tuple[int, int], ...]
"""(level, weight) in the order of levels; other levels weigh 0."""

Draw = Callable[[int], Sequence[int]]
"""Source of uniform words: `draw(count)`."""

_FEW = 4096  # reports of an alphabet that is searched
_INVERTED = 64  # levels of a table that is inverted exactly
TRIES = 64  # honest reports of which the best is taken, where the alphabet is larger


@singledispatch
def favour(randomizer: Randomizer, weights: Weights, draw: Draw) -> bytes:
    """Choose the report that moves the weighted sum of shares up the most; by chance among several.

    Utility: the best of all reports for an alphabet of at most 4096. For a larger one of a family
    without a case of its own, the likeliest under the heaviest level of 64 honest reports: valid,
    and no more than that.

    `weights` is not empty, and `draw` is called once.
    """
    best = _best(randomizer, weights)
    if best is not None:
        return best[index(draw(words_below(len(best))), len(best))]
    heaviest, _ = max(weights, key=lambda pair: pair[1])
    size = randomizer.coins
    words = draw(TRIES * size)
    tries = [
        randomizer.randomize(heaviest, words[start : start + size])
        for start in range(0, TRIES * size, size)
    ]
    return max(tries, key=lambda report: _likelihood(randomizer, weights, report))


def uniform(randomizer: Randomizer, words: Sequence[int]) -> bytes:
    """Return a report drawn evenly from the alphabet."""
    # For an alphabet of more than 4096, the honest report of a uniformly drawn level: the same for
    # k-ary response and subset selection, which treat all levels and all reports alike.
    reports = _reports(randomizer)
    if reports is not None:
        return reports[index(words, len(reports))]
    first = words_below(randomizer.levels)
    level = index(words, randomizer.levels)
    return randomizer.randomize(level, words[first : first + randomizer.coins])


@lru_cache(maxsize=64)
def _reports(randomizer: Randomizer) -> tuple[bytes, ...] | None:
    """Return the whole alphabet, unless it is large."""
    found = tuple(islice(family_of(randomizer).alphabet(), _FEW + 1))
    return None if len(found) > _FEW else found


@lru_cache(maxsize=256)
def _best(randomizer: Randomizer, weights: Weights) -> tuple[bytes, ...] | None:
    """Return the reports of a small alphabet that move the sum up the most."""
    # A table of more than 64 levels is not inverted: its reports are those of the greatest
    # likelihood gain.
    reports = _reports(randomizer)
    if reports is None:
        return None
    inverted = isinstance(family_of(randomizer), TableFamily) and randomizer.levels <= _INVERTED
    measure = _gain if inverted else _likelihood
    gains = [measure(randomizer, weights, report) for report in reports]
    most = max(gains)
    return tuple(report for report, gain in zip(reports, gains, strict=True) if gain == most)


def _gain(randomizer: Randomizer, weights: Weights, report: bytes) -> Fraction:
    """Compute the decoded value of one report alone."""
    counts = family_of(randomizer).tally(np.frombuffer(report, np.uint8).reshape(1, -1))
    shares = family_of(randomizer).frequencies(counts, 1)
    return sum((weight * shares[level] for level, weight in weights), Fraction())


def _likelihood(randomizer: Randomizer, weights: Weights, report: bytes) -> Fraction:
    """Compute the likelihood gain: equivalent to decoding if a family treats all levels alike."""
    return sum(
        (weight * probability(randomizer, level, report) for level, weight in weights),
        Fraction(),
    )


def index(words: Sequence[int], size: int) -> int:
    """Return a place below `size`, however large, from uniform words (see `words_below`)."""
    needed = words_below(size)
    number = 0
    for word in words[:needed]:
        number = number << COIN_BITS | word
    return (number * size) >> (COIN_BITS * needed)


def words_below(size: int) -> int:
    """Return the number of words that `index` consumes.

    A small number of cells needs 64 bits; all sign patterns need more.
    """
    return 1 + (size.bit_length() - 1) // COIN_BITS


def _some(items: Sequence[int], size: int, words: Sequence[int]) -> list[int]:
    """Choose `size` of the items uniformly: the beginning of a Fisher-Yates shuffle."""
    if size == len(items):
        return list(items)
    mixed, left = list(items), len(items)
    for place in range(size):
        other = place + ((words[place] * (left - place)) >> COIN_BITS)
        mixed[place], mixed[other] = mixed[other], mixed[place]
    return mixed[:size]


def heaviest(items: range, weights: Weights, size: int, words: Sequence[int]) -> list[int]:
    """Choose `size` of the items, the heaviest first; among equals all choices are alike."""
    found: list[int] = []
    for weight in sorted({0, *(weight for _, weight in weights)}, reverse=True):
        if len(found) == size:
            break
        equals = [level for level, its in weights if its == weight] if weight else None
        equals = others(items, weights) if equals is None else equals
        found += _some(equals, min(len(equals), size - len(found)), words[len(found) :])
    return found


def others(items: range, weights: Weights) -> list[int]:
    """Return the items that weigh nothing."""
    heavy = {level for level, weight in weights if weight}
    return [item for item in items if item not in heavy]
