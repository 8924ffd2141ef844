"""Hash values of columns of users, equal to `LinearHashing.hash_value` of each."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_TABLE = 1 << 16  # entries of a table of products: small enough to stay near the processor


def hash_values(modulus: int, vectors: int, hashes: Numbers, cells: Numbers) -> Numbers:
    """Compute a.x mod q of each user, several digits at a time.

    Args:
      modulus: q.
      vectors: q^t, more than any hash and cell.
      hashes: a, shape (n,).
      cells: x, shape (n,).

    Returns:
      Shape (n,), in 0..q-1.
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
