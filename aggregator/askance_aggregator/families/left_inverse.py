"""Exact linear algebra for de-biasing: small integer systems solved in fractions."""

from __future__ import annotations

from fractions import Fraction

from askance_client.errors import InvalidParameter

Matrix = tuple[tuple[int, ...], ...]


def left_inverse(table: Matrix, scale: int) -> tuple[tuple[Fraction, ...], ...]:
    """B with sum_y B[v][y] * table[x][y] / scale = [v = x] for all levels v and x.

    A square table has one such B. A table with more symbols than levels has many; this is the
    unweighted least-squares one, table^T (table table^T)^-1 transposed.

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
        gram = tuple(
            tuple(sum(a * b for a, b in zip(one, two, strict=True)) for two in table)
            for one in table
        )
        solution, divisor = solve(gram, table)
    return tuple(tuple(Fraction(entry * scale, divisor) for entry in row) for row in solution)


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
