"""Linear hashing: reports, and the number of each, or reports alone where they are too many."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_simulation.kernels.compiling import compiled, product_high, store
from askance_simulation.kernels.responses import ResponseConstants, respond, response_of

_PRODUCTS = 1 << 14  # most entries of a table of products: it stays in a core's first cache
_LISTED = 1 << 15  # most hashes whose parts are listed

Parts = NDArray[np.uint16]


class Hashing(NamedTuple):
    """Constants of a linear hashing over vectors of several digits, a few digits at a time.

    Args:
        hashes: number of hashes: q^t - 1.
        modulus: q.
        base: q^d for the d digits that are multiplied at a time.
        parts: number of such parts of a vector.
        listed: the parts of each hash, times `base`; shape (q^t, parts), or (0, parts) if they are
            too many.
        cells: the parts of each cell, shape (cells, parts).
        products: sums of products of digits, by part of a hash and of a cell; shape (base^2,).
        response: the response about a hash value.
    """

    hashes: np.uint64
    modulus: np.uint64
    base: np.uint64
    parts: int
    listed: Parts
    cells: Parts
    products: NDArray[np.uint32]
    response: ResponseConstants


@lru_cache(maxsize=16)
def hashing_of(cells: int, modulus: int, digits: int, own: int, other: int) -> Hashing:
    """Compute the constants of a linear hashing.

    Args:
        cells: number of cells.
        modulus: q, at most 128.
        digits: t.
        own: number of coins that keep the hash value.
        other: number of coins of each other value.
    """
    most = 1
    while modulus ** (2 * most + 2) <= _PRODUCTS:
        most += 1
    parts = -(-digits // most)
    at_once = -(-digits // parts)
    base, vectors = modulus**at_once, modulus**digits
    numbers = np.arange(base)
    products = np.zeros((base, base), np.uint32)
    for place in range(at_once):
        digit = numbers // modulus**place % modulus
        products += np.outer(digit, digit).astype(np.uint32)
    hashes = np.arange(vectors if vectors <= _LISTED else 0)
    return Hashing(
        hashes=np.uint64(vectors - 1),
        modulus=np.uint64(modulus),
        base=np.uint64(base),
        parts=parts,
        listed=(_parts(hashes, base, parts) * base).astype(np.uint16),
        cells=_parts(np.arange(cells), base, parts).astype(np.uint16),
        products=products.ravel(),
        response=response_of(own, other, modulus),
    )


def _parts(numbers: NDArray[np.int64], base: int, parts: int) -> NDArray[np.int64]:
    """Compute the digits of numbers to a base, the lowest first; shape (n, parts)."""
    return numbers[:, np.newaxis] // base ** np.arange(parts) % base


@compiled
def _parted(levels: Any, coins: Any, codes: Any, values: Any, hashing: Any) -> None:
    """Compute each user's hash and own hash value, part by part of the two vectors."""
    hashes, modulus, base, parts = hashing.hashes, hashing.modulus, hashing.base, hashing.parts
    cells, products = hashing.cells, hashing.products
    for row in range(len(levels)):
        level = np.uint64(levels[row])
        chosen = product_high(coins[2 * row], hashes) + np.uint64(1)
        total, rest = np.uint64(0), chosen
        for part in range(parts):
            start = (rest % base) * base
            rest //= base
            total += np.uint64(products[start + np.uint64(cells[level, part])])
        codes[row], values[row] = chosen, total % modulus


@compiled
def _listed(levels: Any, coins: Any, codes: Any, values: Any, hashing: Any) -> None:
    """Compute each user's hash and own hash value, by lists in place of divisions."""
    hashes, parts, listed = hashing.hashes, hashing.parts, hashing.listed
    cells, products = hashing.cells, hashing.products
    remainders = np.arange(parts * products[-1] + 1) % np.int64(hashing.modulus)
    for row in range(len(levels)):
        level = np.uint64(levels[row])
        chosen = product_high(coins[2 * row], hashes) + np.uint64(1)
        total = np.uint64(0)
        for part in range(parts):
            start = np.uint64(listed[chosen, part])
            total += np.uint64(products[start + np.uint64(cells[level, part])])
        codes[row], values[row] = chosen, np.uint64(remainders[total])


@compiled
def draw(levels: Any, coins: Any, reports: Any, sums: Any, hashing: Any) -> None:
    """Draw reports and, where there are sums, count the reports of each number."""
    users, words = len(levels), np.ascontiguousarray(coins).reshape(-1)
    codes, values = np.empty(users, np.uint64), np.empty(users, np.uint64)
    if len(hashing.listed):
        _listed(levels, words, codes, values, hashing)
    else:
        _parted(levels, words, codes, values, hashing)
    own, other, shift, factor, down = hashing.response
    modulus = hashing.modulus
    for row in range(users):
        value = respond(words[2 * row + 1], values[row], own, other, shift, factor, down)
        codes[row] = codes[row] * modulus + value
    for row in range(users):
        store(reports, row, codes[row])
    if len(sums):
        for row in range(users):
            sums[codes[row]] += 1
