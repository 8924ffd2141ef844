"""The report that moves an estimate furthest, for each family of randomizers.

What is to be moved is a weighted sum of the levels' estimated shares: weight 1 at a target and 0
elsewhere for its share, the levels' numbers for a mean, 1 and -1 at the two cells of a signed
value. An estimate is a sum over reports, so that the one report which is best alone is best
whatever others say.

A family has a case of its own (`favour.register`) where its reports are too many to be looked at
one by one; every other goes through the general one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, singledispatch
from itertools import islice

import numpy as np

from askance.client.randomizers import COIN_BITS, KaryResponse, Randomizer, SubsetSelection

Weights = tuple[tuple[int, int], ...]
"""(level, weight) in the order of levels; other levels weigh 0."""

_FEW = 4096  # reports of an alphabet that is searched
_DECODED = 64  # levels up to which each report is decoded; beyond, the likeliest one is taken
_TRIES = 64  # honest reports of which the best is taken, where the alphabet is larger


@singledispatch
def favour(randomizer: Randomizer, weights: Weights, words: Sequence[int]) -> bytes:
    """The report that moves the weighted sum of shares up the most; by chance where several do.

    Utility: the best of all reports for an alphabet of at most 4096. For a larger one of a family
    without a case of its own, the likeliest under the heaviest level of 64 honest reports: valid,
    and no more than that.

    Args:
      weights: not empty; levels that the randomizer has.
      words: `words_for(randomizer)` of them, uniform in 0..2^64-1.
    """
    best = _best(randomizer, weights)
    if best is not None:
        return best[index(words, len(best))]
    heaviest, _ = max(weights, key=lambda pair: pair[1])
    size = randomizer.coins
    tries = [
        randomizer.randomize(heaviest, words[start : start + size])
        for start in range(0, _TRIES * size, size)
    ]
    return max(tries, key=lambda report: _likelihood(randomizer, weights, report))


@favour.register
def _(randomizer: KaryResponse, weights: Weights, words: Sequence[int]) -> bytes:
    most = max(weight for _, weight in weights)
    cells = [level for level, weight in weights if weight == most]
    if most <= 0 and len(weights) < randomizer.cells:  # a cell that weighs nothing is better
        given = dict(weights)
        cells = [cell for cell in range(randomizer.cells) if not given.get(cell, 0)]
    return cells[index(words, len(cells))].to_bytes(randomizer.width, "big")


@favour.register
def _(randomizer: SubsetSelection, weights: Weights, words: Sequence[int]) -> bytes:
    """The heaviest cells that fit; among equals, and to fill up, by a shuffle."""
    given = dict(weights)
    members: list[int] = []
    for weight in sorted({0, *given.values()}, reverse=True):
        if len(members) == randomizer.size:
            break
        if weight:
            equals = [level for level, its in weights if its == weight]
        else:
            equals = [cell for cell in range(randomizer.cells) if not given.get(cell, 0)]
        taken = min(len(equals), randomizer.size - len(members))
        members += _some(equals, taken, words[len(members) :])
    bitmap = bytearray(randomizer.width)
    for cell in members:
        bitmap[cell >> 3] |= 128 >> (cell & 7)
    return bytes(bitmap)


def words_for(randomizer: Randomizer) -> int:
    """How many words `favour` takes at the most."""
    return max(1, _TRIES * randomizer.coins if _reports(randomizer) is None else randomizer.coins)


def uniform(randomizer: Randomizer, words: Sequence[int]) -> bytes:
    """A report drawn evenly from the alphabet.

    For an alphabet of more than 4096, the honest report of a uniformly drawn level: the same for
    k-ary response and subset selection, which treat all levels and all reports alike.
    """
    reports = _reports(randomizer)
    if reports is not None:
        return reports[index(words, len(reports))]
    first = words_below(randomizer.levels)
    level = index(words, randomizer.levels)
    return randomizer.randomize(level, words[first : first + randomizer.coins])


@lru_cache(maxsize=64)
def _reports(randomizer: Randomizer) -> tuple[bytes, ...] | None:
    """The whole alphabet, unless it is large."""
    found = tuple(islice(randomizer.alphabet(), _FEW + 1))
    return None if len(found) > _FEW else found


@lru_cache(maxsize=256)
def _best(randomizer: Randomizer, weights: Weights) -> tuple[bytes, ...] | None:
    """The reports of a small alphabet that move the sum up the most."""
    reports = _reports(randomizer)
    if reports is None:
        return None
    measure = _gain if randomizer.levels <= _DECODED else _likelihood
    gains = [measure(randomizer, weights, report) for report in reports]
    most = max(gains)
    return tuple(report for report, gain in zip(reports, gains, strict=True) if gain == most)


def _gain(randomizer: Randomizer, weights: Weights, report: bytes) -> Fraction:
    """What one report alone is decoded to."""
    counts = randomizer.tally(np.frombuffer(report, np.uint8).reshape(1, -1))
    shares = randomizer.frequencies(counts, 1)
    return sum((weight * shares[level] for level, weight in weights), Fraction())


def _likelihood(randomizer: Randomizer, weights: Weights, report: bytes) -> Fraction:
    return sum(
        (weight * randomizer.probability(level, report) for level, weight in weights), Fraction()
    )


def index(words: Sequence[int], size: int) -> int:
    """A place below `size`, however large, from uniform words (see `words_below`)."""
    needed = words_below(size)
    number = 0
    for word in words[:needed]:
        number = number << COIN_BITS | word
    return (number * size) >> (COIN_BITS * needed)


def words_below(size: int) -> int:
    """How many words `index` takes: a few places share 64 bits, all sign patterns need more."""
    return 1 + (size.bit_length() - 1) // COIN_BITS


def _some(items: Sequence[int], size: int, words: Sequence[int]) -> list[int]:
    """`size` of the items, all choices alike: the beginning of a shuffle (Fisher and Yates)."""
    if size == len(items):
        return list(items)
    mixed = list(items)
    for place in range(size):
        other = place + index(words[place:], len(mixed) - place)
        mixed[place], mixed[other] = mixed[other], mixed[place]
    return mixed[:size]
