"""The linear program over windows: the best table whose symbols are likely at few levels.

Where e^eps is large, the best table has each symbol likely on a window of levels, those at which
its price is negative (`duals`). So the table is a sum of columns, each a decode value with a
window, and the program has a variable per column and none per entry. Some hundred levels take
seconds, where a program of entries would take minutes.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.table_design.duals import Dual
from askance_aggregator.table_design.objectives import Terms, Vector
from askance_aggregator.table_design.programme import (
    EXACTLY,
    Solution,
    folds_of,
    unfolded,
)
from askance_client.errors import InvalidParameter

_REACH = 2  # levels by which the ends of a window are moved, either way
_ROUNDING = 1e-14  # part of an entry: a smaller step is rounding and becomes 0


class Windows(NamedTuple):
    """Columns of a table: a decode value, and the levels that it is likely at.

    Args:
        symbols: index of each column's value, shape (columns,).
        first: first level of its window, shape (columns,).
        end: level after the last of its window, shape (columns,).
    """

    symbols: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]


def solve_windows(terms: Terms, values: Vector, ratio: float, dual: Dual) -> Solution:
    """Compute the best table of windows near those that are best at given prices, as floats.

    Args:
        terms: the objective, on its grid; symmetric, with a rise.
        values: decode values of 0 or more, all different.
        ratio: e^eps.
        dual: prices near the best ones.

    Raises:
        InvalidParameter: the solver finds no table.
    """
    from scipy.optimize import linprog  # slow to import, and only needed here
    from scipy.sparse import csr_array

    windows, folds = _windows(terms, values, ratio, dual), folds_of(terms)
    each, inside = values[windows.symbols], _inside(windows, len(terms.grid))
    rows, slopes = folds.even @ inside, (folds.odd @ inside) * each
    count, half, odd = len(each), len(rows), len(slopes)
    likely, least, nothing = 1 - 1 / ratio, np.full((half, 1), 1 / ratio), np.zeros((half, 1))
    # Further variables: the sum of all columns, that of a^2 times them, V, and what a level's
    # second moment is below its cap.
    spare = np.zeros((half, half))
    blocks = [
        (np.hstack([likely * rows, least, nothing, nothing, spare]), np.ones(half)),
        (np.hstack([likely * slopes, np.zeros((odd, 3 + half))]), folds.odd @ terms.grid),
        (
            np.hstack(
                [likely * rows * each**2, nothing, least, nothing - terms.rise, np.eye(half)]
            ),
            folds.even @ terms.caps,
        ),
    ]
    totals = np.zeros((2, count + 3 + half))
    totals[0, :count], totals[1, :count] = 1.0, each**2
    totals[0, count] = totals[1, count + 1] = -1.0
    found = linprog(
        np.eye(1, count + 3 + half, count + 2)[0] * terms.rise,
        A_eq=csr_array(np.vstack([*(_steps(block) for block, _ in blocks), totals])),
        b_eq=np.concatenate([*(_steps(side) for _, side in blocks), np.zeros(2)]),
        method="highs-ds",
        options=EXACTLY,
    )
    if found.status != 0:
        raise InvalidParameter(
            f"epsilon: expected another one, got {log(ratio):.6g} nats, for which no table on"
            f" {len(terms.grid)} levels is found: {found.message}"
        )
    sums, means, caps, _ = (
        _of_steps(prices)
        for prices in np.split(found.eqlin.marginals, np.cumsum([half, odd, half]))
    )
    caps = np.maximum(-caps, 0.0)
    proof = Dual(sums @ folds.even, means @ folds.odd, (caps / caps.sum()) @ folds.even)
    weights = np.asarray(found.x[:count])
    entries = np.zeros((len(values), len(terms.grid)))
    np.add.at(entries, windows.symbols, (weights * (likely * inside + 1 / ratio)).T)
    table, every = unfolded(entries, values)
    return Solution(np.ascontiguousarray(table.T), every, float(found.fun), proof)


def _steps(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first row, and the difference of each other row from the one before it.

    A window has two ends and many levels, so most entries become 0: the program is solved in a
    fifth of the time.
    """
    stepped: NDArray[np.float64] = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))
    stepped[np.abs(stepped) < _ROUNDING * np.abs(rows)] = 0.0
    return stepped


def _of_steps(prices: Vector) -> Vector:
    """Return the prices of rows from those of their steps."""
    following: Vector = np.append(prices[1:], 0.0)
    return prices - following


def _windows(terms: Terms, values: Vector, ratio: float, dual: Dual) -> Windows:
    """Return each value's best window at the prices, and the windows with ends near its ends."""
    likelihoods = dual.cheapest_at(terms, ratio, values).likelihoods
    likely = likelihoods > 1
    likely[~likely.any(axis=1), -1] = True  # a value that no level pays for
    levels = len(terms.grid)
    first, end = likely.argmax(axis=1), levels - likely[:, ::-1].argmax(axis=1)
    moves = np.arange(-_REACH, _REACH + 1)
    every = np.stack(
        [
            np.broadcast_to(axis, (len(values), len(moves), len(moves))).ravel()
            for axis in (
                np.arange(len(values))[:, None, None],
                np.maximum(first[:, None, None] + moves[:, None], 0),
                np.minimum(end[:, None, None] + moves, levels),
            )
        ]
    )
    symbols, first, end = np.unique(every[:, every[1] < every[2]], axis=1)
    return Windows(symbols, first, end)


def _inside(windows: Windows, levels: int) -> NDArray[np.float64]:
    """Return 1 where a level is in a column's window, shape (levels, columns)."""
    level = np.arange(levels)[:, None]
    return ((level >= windows.first) & (level < windows.end)).astype(np.float64)
