"""Hadamard signs: draws for columns, the tally's law, and entries of `verify`.

A Hadamard sign is a fair coin to all but those who keep theirs: with p the chance of the own sign,
a report is *free* (any row, any sign) with probability 2 (1 - p), and else *bound*: a row, and its
entry there for the own value. The rows of each level's bound users are multinomial, and so are all
free reports: 2^m draws a level, whatever the number of users.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from askance_aggregator.families import HadamardFamily, hadamard_sign
from askance_client.randomizers import COIN_BITS, COIN_SPACE, HadamardSign
from askance_simulation.families import dispatch
from askance_simulation.families.drawing import big_endian
from askance_simulation.families.fused import Kernel, Loaded, kernel


@dispatch.draw.register
def _(randomizer: HadamardSign, levels: dispatch.Levels, coins: dispatch.Coins) -> dispatch.Reports:
    rows = np.zeros(len(levels), np.int64)
    if randomizer.row_bits:
        rows = (coins[:, 0] >> np.uint64(COIN_BITS - randomizer.row_bits)).astype(np.int64)
    minus = (np.bitwise_count(rows & (levels >> 1)) ^ levels) & 1
    kept = np.uint64(randomizer.threshold)
    plus = np.array([kept, COIN_SPACE - randomizer.threshold], dtype=np.uint64)[minus]
    plus[levels == 2 * randomizer.values] = COIN_SPACE // 2
    return big_endian(2 * rows + (coins[:, 1] >= plus), randomizer.width)


@kernel.register
def _(randomizer: HadamardSign) -> Kernel:
    def load() -> Loaded:
        from askance_simulation.kernels import hadamard  # numba is imported when it is used

        kept = np.uint64(randomizer.threshold)
        return hadamard.draw, (randomizer.values, randomizer.row_bits, kept)

    family = HadamardFamily(randomizer)
    sums = 2 << randomizer.row_bits
    return Kernel(load, sums, lambda sums: family.plus_counts(sums.reshape(-1, 2)))


@dispatch.draw_tally.register
def _(
    randomizer: HadamardSign, counts: dispatch.TallyCounts, rng: np.random.Generator
) -> dispatch.TallyCounts:
    """Draw free reports all at once, bound ones level by level."""
    rows = 1 << randomizer.row_bits
    kept = float(max(randomizer.threshold, COIN_SPACE - randomizer.threshold) / COIN_SPACE)
    contrary = randomizer.threshold < COIN_SPACE // 2
    bound = rng.binomial(counts[:, :-1], 2 * kept - 1)
    free = counts.sum(axis=1) - bound.sum(axis=1)
    signs = rng.multinomial(free, np.full(2 * rows, 1 / (2 * rows))).reshape(-1, rows, 2)
    for level in np.flatnonzero(bound.any(axis=0)):
        drawn = rng.multinomial(bound[:, level], np.full(rows, 1 / rows))
        minus = (np.bitwise_count(np.arange(rows) & (level >> 1)) + level + contrary) % 2
        signs[:, np.arange(rows), minus] += drawn
    return HadamardFamily(randomizer).plus_counts(signs)


dispatch.verified(
    HadamardSign,
    "hadamard_sign",
    {f"hadamard-sign({d})": partial(hadamard_sign, d) for d in (1, 8, 64, 1024)},
)
