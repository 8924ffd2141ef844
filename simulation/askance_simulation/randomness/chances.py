"""Chances by random access: one word per user under each seed, held against an exact threshold."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.numbers import Rational, rational
from askance_client.errors import InvalidParameter
from askance_client.randomizers import COIN_SPACE
from askance_simulation.randomness.coins import keystream
from askance_simulation.randomness.seeds import Seed

Ordinals = NDArray[np.int64]
Words = NDArray[np.uint64]
Which = NDArray[np.bool_]

_CHUNK_BITS = 16  # ordinals further apart than this are looked up apart


def read_chance(value: Rational, name: str) -> Fraction:
    """Return a chance, exactly; both ends of 0 .. 1 are chances."""
    chance = rational(value, name)
    if not 0 <= chance <= 1:
        raise InvalidParameter(f"{name}: expected a chance from 0 to 1, found {float(chance):g}")
    return chance


def threshold(chance: Fraction) -> int:
    """Return the number of the 2^64 words below the chance: it within 2^-64, from below."""
    return chance.numerator * COIN_SPACE // chance.denominator


def below(words: Words, bound: int) -> Which:
    """Return which words are below a threshold; 2^64 itself is above them all."""
    if bound >= COIN_SPACE:
        return np.ones(len(words), np.bool_)
    return words < np.uint64(bound)


def words(seed: Seed, ordinals: Ordinals) -> Words:
    """Compute word o of the keystream under `seed`, for each ordinal o.

    Utility: neighbours are read in one run, whatever the order; a chunk of 65,536 in well under 2
    milliseconds.
    """
    if _is_run(ordinals):
        return keystream(seed.key[:16], int(ordinals[0]), len(ordinals))
    found = np.empty(len(ordinals), np.uint64)
    places = ordinals >> _CHUNK_BITS
    cuts = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(ordinals)]
    for start, stop in pairwise(cuts):
        here = ordinals[start:stop]
        if len(here):
            first, last = int(here.min()), int(here.max())
            found[start:stop] = keystream(seed.key[:16], first, last + 1 - first)[here - first]
    return found


def _is_run(ordinals: Ordinals) -> bool:
    """Return whether the ordinals are consecutive and ascending."""
    if not len(ordinals) or ordinals[-1] - ordinals[0] != len(ordinals) - 1:
        return False
    return bool((ordinals[1:] > ordinals[:-1]).all())
