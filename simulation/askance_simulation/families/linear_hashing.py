"""Linear hashing: draws for columns, the tally, statements, the best lie, and `verify`.

There is no cheap law for what linear hashing counts: q^(t + 1) reports for each of k levels would
have to be drawn. Its users are drawn one by one, in columns, as devices draw them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.families import HashingFamily, linear_hashing
from askance_aggregator.families.linear_hashing import table_supports
from askance_client.randomizers import LinearHashing
from askance_client.randomizers.digits import digits_of
from askance_simulation.families import dispatch
from askance_simulation.families.drawing import big_endian, responses, scaled
from askance_simulation.families.favouring import TRIES, Draw, Weights, favour, index
from askance_simulation.families.fused import Kernel, Loaded, kernel
from askance_simulation.families.tallies import tally_by_users

Numbers = NDArray[np.int64]

_TABLE = 1 << 16  # entries of a table of products: small enough to stay near the processor


def hash_values(modulus: int, vectors: int, hashes: Numbers, cells: Numbers) -> Numbers:
    """Compute a.x mod q of each user, several digits at a time.

    `modulus` is q and `vectors` q^t, more than any hash and cell. `hashes` (a), `cells` (x) and the
    result, in 0..q-1, have the shape (n,).
    """
    digits = _digits_at_once(modulus)
    base = modulus**digits
    total = np.zeros_like(hashes)
    while vectors > 1:
        if vectors > base:
            hashes, first = np.divmod(hashes, base)
            cells, second = np.divmod(cells, base)
        else:
            first, second = hashes, cells
        if digits > 1:
            total += _products(modulus, digits)[first * base + second]
        else:
            total += first * second
        vectors //= base
    return total % modulus


def _digits_at_once(modulus: int) -> int:
    digits = 1
    while modulus ** (2 * digits + 2) <= _TABLE:
        digits += 1
    return digits


@lru_cache(maxsize=16)
def _products(modulus: int, digits: int) -> NDArray[np.uint16]:
    """Compute the sum of the products of digits, for each pair of numbers."""
    base = modulus**digits
    table = np.zeros((base, base), np.uint16)
    for place in range(digits):
        digit = np.arange(base) // modulus**place % modulus
        table += np.outer(digit, digit).astype(np.uint16)
    return table.ravel()


_SUMS = 1 << 16  # sums of products of digits that a kernel has 16 bits for
_NARROW = 1 << 16  # numbers of reports that a kernel computes in 16 bits
_COUNTED = 1 << 18  # numbers of reports up to which each is counted where it is drawn


@dispatch.draw.register
def _(
    randomizer: LinearHashing, levels: dispatch.Levels, coins: dispatch.Coins
) -> dispatch.Reports:
    vectors = randomizer.vectors
    hashes = scaled(coins[:, 0], vectors - 1) + 1
    own = hash_values(randomizer.modulus, vectors, hashes, levels)
    codes = hashes * randomizer.modulus + responses(randomizer, own, coins[:, 1])
    return big_endian(codes, randomizer.width)


@kernel.register
def _(randomizer: LinearHashing) -> Kernel | None:
    cells, modulus = randomizer.cells, randomizer.modulus
    digits = digits_of(cells, modulus)
    if digits * (modulus - 1) ** 2 >= _SUMS:
        return None

    def load() -> Loaded:
        from askance_simulation.kernels import hashing  # numba is imported when it is used

        compiled = hashing.draw_narrow if reports <= _NARROW else hashing.draw_wide
        own, other = randomizer.own, randomizer.other
        return compiled, (hashing.hashing_of(modulus, digits, own, other),)

    reports = randomizer.vectors * modulus
    counted = reports if reports <= _COUNTED else 0
    return Kernel(load, counted, lambda sums: table_supports(sums, cells, modulus))


@dispatch.draw_tally.register
def _(
    randomizer: LinearHashing, counts: dispatch.TallyCounts, rng: np.random.Generator
) -> dispatch.TallyCounts:
    return np.array([tally_by_users(randomizer, row, rng) for row in counts])


@dispatch.draws_by_users.register
def _(randomizer: LinearHashing) -> bool:
    return True


@dispatch.of_many.register
def _(randomizer: LinearHashing, law: dispatch.Law) -> dispatch.Statements:
    cells = sorted({0, randomizer.cells - 1, *law})
    rates = HashingFamily(randomizer).rates
    shares = [float(rates.other + law.get(c, 0) * (rates.own - rates.other)) for c in cells]

    def count(symbols: Sequence[bytes]) -> NDArray[np.int64]:
        counts = np.zeros(len(cells) + 1, dtype=np.int64)
        for symbol, times in Counter(symbols).items():
            code = int.from_bytes(symbol, "big")
            hashing, value = divmod(code, randomizer.modulus)
            agree = [randomizer.hash_value(hashing, cell) == value for cell in cells]
            whole = len(symbol) == randomizer.width and 0 < hashing < randomizer.vectors
            counts += times * np.array([*agree, whole], dtype=np.int64)
        return counts

    names = [*(f"a hash that agrees with cell {cell}" for cell in cells), "a hash and its value"]
    return dispatch.Statements(np.array([*shares, 1.0]), count, names.__getitem__)


@favour.register
def _(randomizer: LinearHashing, weights: Weights, draw: Draw) -> bytes:
    """Choose, out of 64 hashes, the one that puts the most weight on one value, and that value."""
    q, best = randomizer.modulus, (-1, b"")
    for word in draw(TRIES):
        hashing = 1 + index([word], randomizer.vectors - 1)
        sums = [0] * q
        for cell, weight in weights:
            sums[randomizer.hash_value(hashing, cell)] += weight
        value = max(range(q), key=sums.__getitem__)
        if not best[1] or sums[value] > best[0]:
            best = (sums[value], (hashing * q + value).to_bytes(randomizer.width, "big"))
    return best[1]


dispatch.verified(
    LinearHashing,
    "linear_hashing",
    {f"linear-hashing({k})": partial(linear_hashing, k) for k in (4, 17, 64, 1024, 65536, 1 << 20)},
)
