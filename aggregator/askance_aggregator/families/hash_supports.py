"""Support counts of hashed reports: by sums over a table of reports, or report by report."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance_client.randomizers.digits import digits_of, power

Numbers = NDArray[np.int64]

_DENSE = 8  # entries a report up to which a table of all reports there can be is kept in memory
_EACH_SUM = 10  # additions of whole tables that take as long as an entry counted by its own index
_CELLS_AT_ONCE = 1 << 22  # supported cells of a block of reports: bounds memory, changes no count


def table_sums(cells: int, modulus: int) -> int:
    """Return the number of additions that a table takes beside those for each report."""
    digits = digits_of(cells, modulus)
    each = ((digits - 2) * modulus + 1) * power(modulus, digits)
    return _leading(cells, modulus, digits) * each


def each_sums(cells: int, modulus: int) -> int:
    """Return the number of cells that one report supports, at most except for rare hashes."""
    return -(-cells // modulus)


def supports(codes: Numbers, cells: int, modulus: int) -> Numbers:
    """For each cell x, how many reports (a, c) have a.x = c modulo q.

    A report is one number to base q: the digits of a, the most significant first, then c. There are
    three ways to count, and the one that takes the fewest sums is taken: report by report
    (`_counted`); by a table per value of the leading digit (`_by_leading`); by one table of all
    reports there can be (`_dense`). All sums are of integers, so neither the way nor shards of
    reports change them.

    Codes have shape (n,), are below q^(t + 1) and have a > 0. The modulus q is a prime; there are
    more cells than that.
    """
    n, digits = len(codes), digits_of(cells, modulus)
    leading, size = _leading(cells, modulus, digits), power(modulus, digits + 1)
    ways = [
        (_EACH_SUM * n * each_sums(cells, modulus), _counted),
        (_EACH_SUM * n * leading + table_sums(cells, modulus), _by_leading),
    ]
    if size <= _DENSE * n:
        ways.append((_EACH_SUM * n + (digits - 1) * leading * size, _dense))
    _, count = min(ways, key=lambda way: way[0])
    return count(codes, cells, modulus, digits)


def table_supports(
    table: NDArray[np.signedinteger[Any]], cells: int, modulus: int
) -> NDArray[np.signedinteger[Any]]:
    """For each cell x, how many reports (a, c) have a.x = c, from how many there are of each.

    The table has, for each number a q + c (see `supports`), how many reports there are of it: shape
    (q^(t + 1),).
    """
    digits = digits_of(cells, modulus)
    return _summed(table, modulus, digits, _leading(cells, modulus, digits))[:cells]


def _counted(codes: Numbers, cells: int, q: int, digits: int) -> Numbers:
    """Count report by report: every leading part of a cell has one last digit that agrees.

    If the last digit a_t of a is not 0, a cell with the leading digits x' is supported exactly if
    its last digit is (c - a'.x') / a_t. If it is 0, that digit plays no part: the report is one
    about the leading digits.
    """
    heads = -(-cells // q)  # how many leading parts of cells there are
    a, c = np.divmod(codes, np.int64(q))
    rest, last = np.divmod(a, np.int64(q))
    even = last == 0
    counts = np.zeros(heads * q, dtype=np.int64)
    if even.any():  # then rest > 0, so that there is a leading digit
        counts += np.repeat(_counted(rest[even] * q + c[even], heads, q, digits - 1), q)
    inverse = _inverses(q)[last[~even]]
    rest, value = rest[~even], c[~even] * inverse % q
    parts, columns = [], []
    numbers = np.arange(heads, dtype=np.int64)
    starts = numbers * q
    for _ in range(digits - 1):
        rest, digit = np.divmod(rest, np.int64(q))
        numbers, column = np.divmod(numbers, np.int64(q))
        parts.append(digit * inverse % q)
        columns.append(column)
    step = max(1, _CELLS_AT_ONCE // heads)
    for start in range(0, len(value), step):
        block = slice(start, start + step)
        found = np.repeat(value[block, np.newaxis], heads, axis=1)
        for part, column in zip(parts, columns, strict=True):
            found -= part[block, np.newaxis] * column
        found %= q
        found += starts
        counts += np.bincount(found.ravel(), minlength=heads * q)
    return counts[:cells]


def _inverses(q: int) -> Numbers:
    """Return the inverse of each number modulo a prime q, shape (q,); 0 for 0."""
    found = [0, 1]
    for number in range(2, q):
        found.append(-(q // number) * found[q % number] % q)
    return np.array(found, dtype=np.int64)


def _by_leading(codes: Numbers, cells: int, q: int, digits: int) -> Numbers:
    """Count by tables without the leading digit of a, which is taken from the reports.

    For each value v of a cell's leading digit reports are counted by what is left of a, and by
    c - a_1 v in place of c.
    """
    lead, rest = np.divmod(codes, np.int64(power(q, digits)))
    value = rest % q
    left = rest - value
    blocks = []
    for _ in range(_leading(cells, q, digits)):
        table = np.bincount(left + value, minlength=power(q, digits)).astype(_small(codes))
        blocks.append(_summed(table, q, digits - 1, q))
        value -= lead
        value += q * (value < 0)
    return np.concatenate(blocks)[:cells].astype(np.int64)


def _dense(codes: Numbers, cells: int, q: int, digits: int) -> Numbers:
    """Count by a table of how many reports there are of each."""
    table = np.bincount(codes, minlength=power(q, digits + 1)).astype(_small(codes))
    return table_supports(table, cells, q).astype(np.int64)


def _small(codes: Numbers) -> np.dtype[np.signedinteger[Any]]:
    return np.dtype(np.int32 if len(codes) < 1 << 31 else np.int64)


def _leading(cells: int, modulus: int, digits: int) -> int:
    """Return the number of values that the leading digit of a cell takes."""
    return -(-cells // power(modulus, digits - 1))


def _summed(
    table: NDArray[np.signedinteger[Any]], q: int, digits: int, leading: int
) -> NDArray[np.signedinteger[Any]]:
    """The sums over all digits of a, for c = 0; the leading digit of x takes this many values.

    The table N is summed a digit at a time, and of the last digit's sums only those with c = 0 are
    wanted:

        N'[.., x_i, .., c] = sum over a_i of N[.., a_i, .., c + a_i x_i]

    Index c stands first, and the digit that is summed second; the digit of x that takes its place
    goes to the end, so that each sum is of long runs of numbers.

    Shape (leading q^(digits - 1),).
    """
    table = np.ascontiguousarray(table.reshape(-1, q).T)
    for _ in range(digits - 1):
        rest = table.size // (q * q)
        twice = np.concatenate((table, table)).reshape(2 * q, q, rest)  # c + a x needs no remainder
        summed = np.empty((q, rest, leading), dtype=table.dtype)
        for x in range(leading):
            total = twice[:q, 0].copy()
            for a in range(1, q):
                shift = a * x % q
                total += twice[shift : shift + q, a]
            summed[:, :, x] = total
        table, leading = summed, q
    table = table.reshape(q, q, -1)
    places = np.arange(q)
    last = [table[places * x % q, places].sum(axis=0) for x in range(leading)]
    return np.stack(last, axis=1).reshape(-1)
