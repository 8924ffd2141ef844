"""MASKED-PARITY's world: uniform (x, i, b), labelled by a concept c_{r,a} (KLNRS08 section 5)."""

from __future__ import annotations

import numpy as np

from askance_aggregator.learners import MaskedParity, masked_parity_schema
from askance_aggregator.queries import EncodedColumns
from askance_simulation.populations.columns import columns_of, draws, parity_of, words_of_bits
from askance_simulation.populations.population import Population, catalogued
from askance_simulation.randomness.seeds import Seed


@catalogued("masked-parity", "uniform (x, i, b) labelled by a random MASKED-PARITY concept")
def masked_parity(size: int, seed: Seed, d: int = 8) -> Population:
    """Make `size` users of MASKED-PARITY.

    x is uniform on d bits, i uniform on 0..d-1, b a fair bit, y = c_{r,a}(x,i,b). A chance of i
    is 1/d to within 2^-63, and exactly 1/d where d is a power of two.

    The concept (r, a) is uniform and drawn from the seed too.
    `d` is 2 .. 1024.
    """
    schema = masked_parity_schema(d)
    law, people = seed / "concept", seed / "people"
    secret = draws(law, 0, 1, d // 64 + 2)[0]
    r = tuple(int(secret[j // 64] >> np.uint64(j % 64)) & 1 for j in range(d))
    a = int(secret[-1]) & 1
    mask = np.array(
        [
            sum(bit << (j % 32) for j, bit in enumerate(r) if j // 32 == w)
            for w in range((d + 31) // 32)
        ],
        dtype=np.int64,
    )
    answers = np.array(r, dtype=np.int64)

    def columns(start: int, stop: int) -> EncodedColumns:
        words = draws(people, start, stop, (d + 63) // 64 + 1)
        x = words_of_bits(words, d)
        last = words[:, -1]
        b = (last & np.uint64(1)).astype(np.int64)
        i = ((last >> np.uint64(1)) % np.uint64(d)).astype(np.int64)
        minus = np.where(b == 1, answers[i], parity_of(x, mask) ^ a)
        return columns_of({"x": x, "i": i, "b": b, "y": minus})  # label 0 is +1, label 1 is -1

    return Population("masked-parity", schema, size, columns, target=MaskedParity(r, a))
