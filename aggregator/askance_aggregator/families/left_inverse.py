"""Exact linear algebra for de-biasing: small integer systems solved in fractions."""

from __future__ import annotations

from fractions import Fraction

from askance_client.errors import InvalidParameter

Matrix = tuple[tuple[int, ...], ...]


_WEIGHT_BITS = 32  # of a symbol's weight: to round it costs a variance less than 2^-60 of itself


def left_inverse(table: Matrix, scale: int) -> tuple[tuple[Fraction, ...], ...]:
    """B with sum_y B[v][y] * table[x][y] / scale = [v = x] for all levels v and x.

    A square table has one such B. A table with more symbols than levels has many; this is the
    least-squares one with each symbol weighted by the inverse of its column's mass,
    (table W table^T)^-1 table W. It has the least variance summed over levels for users who are
    evenly at all levels, and symbols of equal likelihood ratios get equal scores, as if they were
    one symbol: to divide a symbol costs nothing.

    Args:
        table: levels x symbols integers, every row with the sum `scale`.
        scale: sum of a row.

    Raises:
        InvalidParameter: there is none: the rows are linearly dependent.
    """
    levels, symbols = len(table), len(table[0])
    if levels > symbols:
        raise InvalidParameter(
            f"shares of {levels} levels cannot be told apart by {symbols} symbols"
        )
    if levels == symbols:
        identity = tuple(tuple(int(i == j) for j in range(levels)) for i in range(levels))
        solution, divisor = solve(table, identity)
        solution = [list(column) for column in zip(*solution, strict=True)]
    else:
        weighted = _weighted(table)
        gram = tuple(
            tuple(sum(a * b for a, b in zip(one, two, strict=True)) for two in table)
            for one in weighted
        )
        solution, divisor = solve(gram, weighted)
    return tuple(tuple(Fraction(entry * scale, divisor) for entry in row) for row in solution)


def _weighted(table: Matrix) -> Matrix:
    """Multiply each column by a whole number in proportion to the inverse of its sum.

    Any positive weights give a left inverse, so the numbers may be rounded.
    """
    masses = [sum(column) for column in zip(*table, strict=True)]
    unit = max(masses) << _WEIGHT_BITS
    weights = [unit // mass for mass in masses]  # 2^32 or more each, so the rounding is relative
    return tuple(tuple(a * weight for a, weight in zip(row, weights, strict=True)) for row in table)


def solve(matrix: Matrix, right: Matrix) -> tuple[list[list[int]], int]:
    """(X, d) with matrix @ X = d * right, by fraction-free Gauss-Jordan elimination.

    Every division by the pivot before is exact, so the numbers stay minors of the system. A column
    is dropped once it is eliminated: its pivots all end as the same d.
    Source: E. H. Bareiss, Mathematics of Computation 22 (1968).

    Raises:
        InvalidParameter: the matrix is singular.
    """
    size = len(matrix)
    rows = [[*left, *values] for left, values in zip(matrix, right, strict=True)]
    before = 1
    for column in range(size):
        found = next((i for i in range(column, size) if rows[i][0]), None)
        if found is None:
            raise InvalidParameter("the levels' rows are linearly dependent: shares are not told")
        rows[column], rows[found] = rows[found], rows[column]
        pivot, *kept = rows[column]
        rows = [
            kept
            if i == column
            else [(pivot * a - factor * b) // before for a, b in zip(rest, kept, strict=True)]
            for i, (factor, *rest) in enumerate(rows)
        ]
        before = pivot
    return rows, before
