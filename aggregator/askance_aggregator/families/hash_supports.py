"""Support counts of hashed reports, by integer sums over one digit after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.randomizers.digits import digits_of, power

Numbers = NDArray[np.int64]

_DENSE = 8  # entries a report up to which a table of all reports there can be is the faster


def sums_taken(cells: int, modulus: int) -> int:
    """Return the number of additions that `supports` makes beside those for each report."""
    digits = digits_of(cells, modulus)
    each = ((digits - 2) * modulus + 1) * power(modulus, digits)
    return _leading(cells, modulus, digits) * each


def supports(codes: Numbers, cells: int, modulus: int) -> Numbers:
    """For each cell x, how many reports (a, c) have a.x = c modulo q.

    A report is one number to base q: the digits of a, the most significant first, then c. The table
    of how many there are of each is summed, a digit at a time:

        N'[.., x_i, .., c] = sum over a_i of N[.., a_i, .., c + a_i x_i]

    and of the last digit's sums only those with c = 0 are wanted. Where reports are few for such a
    table, the leading digit is taken from themselves: for each of its values v they are counted by
    what is left of a, and by c - a_1 v in place of c. All sums are of integers, so neither order
    nor shards of reports change them.

    Args:
        codes: shape (n,), each below q^(t + 1).
        cells: more than the modulus.
        modulus: q, a prime.

    Returns:
        Shape (cells,).
    """
    q, digits = modulus, digits_of(cells, modulus)
    leading, size = _leading(cells, q, digits), power(q, digits + 1)
    small: np.dtype[np.signedinteger[Any]] = np.dtype(
        np.int32 if len(codes) < 1 << 31 else np.int64
    )
    if size <= _DENSE * len(codes):
        table = np.bincount(codes, minlength=size).astype(small)
        return _summed(table, q, digits, leading)[:cells].astype(np.int64)
    lead, rest = np.divmod(codes, np.int64(power(q, digits)))
    value = rest % q
    left = rest - value
    blocks = []
    for _ in range(leading):
        table = np.bincount(left + value, minlength=power(q, digits)).astype(small)
        blocks.append(_summed(table, q, digits - 1, q))
        value -= lead
        value += q * (value < 0)
    return np.concatenate(blocks)[:cells].astype(np.int64)


def _leading(cells: int, modulus: int, digits: int) -> int:
    """Return the number of values that the leading digit of a cell takes."""
    return -(-cells // power(modulus, digits - 1))


def _summed(
    table: NDArray[np.signedinteger[Any]], q: int, digits: int, leading: int
) -> NDArray[np.signedinteger[Any]]:
    """The sums over all digits of a, for c = 0; the leading digit of x takes this many values.

    Shape (leading q^(digits - 1),).
    """
    done = 1  # how many leading parts of x there are, each with its own table
    for later in range(digits - 1, 0, -1):
        rest = power(q, later)
        table = table.reshape(done, q, rest, q)
        twice = np.concatenate((table, table), axis=-1)  # c + a x needs no remainder
        summed = np.zeros((done, leading, rest, q), dtype=table.dtype)
        for x in range(leading):
            for a in range(q):
                shift = a * x % q
                summed[:, x] += twice[:, a, :, shift : shift + q]
        table, done, leading = summed, done * leading, q
    places = np.arange(q, dtype=np.int64)
    table = table.reshape(done, q * q)
    last = [table[:, places * q + places * x % q].sum(axis=1) for x in range(leading)]
    return np.stack(last, axis=1).reshape(-1)
