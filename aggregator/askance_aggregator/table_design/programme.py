"""The linear program: the best table for given decode values, and the prices of its constraints."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.table_design.objectives import Terms, Vector
from askance_client.errors import InvalidParameter


class Columns(NamedTuple):
    """Symbols at their best: for each a decode value, a likelihood a level, and what it costs."""

    values: Vector
    likelihoods: NDArray[np.float64]
    costs: Vector


@dataclass(frozen=True, eq=False, slots=True)
class Dual:
    """Prices of the constraints; any prices at all give a lower bound.

    A randomizer's symbol is a decode value a and a column w r of its table, with r_i in [1, e^eps]
    and the least of them 1. Priced, it costs w sum_i r_i c_i(a) with
    c_i(a) = t_i a^2 - v_i a - u_i, t = weights + caps: least where r_i is e^eps if c_i(a) < 0 and 1
    otherwise, so all symbols that can be are searched by searching a, in closed form between the
    zeros of the c_i. The columns of a table have sum_y w_y <= 1 (every r is at least 1 and rows sum
    to 1), so with the least such cost -g, g >= 0, no randomizer has a figure below
    sum_i u_i + sum_i v_i x_i - sum_i caps_i b_i - g, whatever its alphabet, finite or not.

    Args:
        rows: u, of the rows' sums; one a level, of any sign.
        means: v, of the rows' means.
        caps: of the caps b on second moments, >= 0; where the program has a rise, they sum to 1.
    """

    rows: Vector
    means: Vector
    caps: Vector

    def best_columns(self, terms: Terms, ratio: float) -> Columns:
        """The cheapest symbol on each interval of decode values between zeros of the c_i."""
        square = terms.weights + self.caps
        # The weights sum to 1 or the caps do, so each parabola opens upward; none has its vertex
        # farther out, so neither is the cheapest symbol of all.
        reach = 1 + ratio * np.abs(self.means).sum() / (2 * square.sum())
        zeros = _zeros(square, self.means, self.rows)
        edges = np.unique(np.concatenate([[-reach, reach], zeros[np.abs(zeros) < reach]]))
        inside = (edges[1:] + edges[:-1]) / 2
        likelihoods = self.cheapest_at(terms, ratio, inside).likelihoods
        vertex = (likelihoods @ self.means) / (2 * (likelihoods @ square))
        values = np.clip(vertex, edges[:-1], edges[1:])
        return self.cheapest_at(terms, ratio, values)

    def cheapest_at(self, terms: Terms, ratio: float, values: Vector) -> Columns:
        """The cheapest symbol of each given decode value."""
        at = values[:, None]
        prices = ((terms.weights + self.caps) * at - self.means) * at - self.rows
        likelihoods = np.where(prices < 0, ratio, 1.0)
        return Columns(values, likelihoods, np.sum(likelihoods * prices, axis=1))

    def lower_bound(self, terms: Terms, ratio: float) -> float:
        """Lower bound of every randomizer, up to the rounding of floats."""
        paid = self.rows.sum() + self.means @ terms.grid - self.caps @ terms.caps
        return float(paid + min(0.0, self.best_columns(terms, ratio).costs.min()))


def _zeros(square: Vector, linear: Vector, constant: Vector) -> Vector:
    """The real zeros of all square a^2 - linear a - constant, and the odd point that is none."""
    root = np.sqrt(np.maximum(linear**2 + 4 * square * constant, 0))
    # The zero that does not cancel, and the other by their product.
    large = linear + np.where(linear < 0, -root, root)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        zeros = np.concatenate([large / (2 * square), -2 * constant / large])
    return np.asarray(zeros[np.isfinite(zeros)])


SYMBOLS = 64
"""Most symbols, and levels, of a table that is solved entry by entry: its message has 40 kB."""

# The least that the solver takes: what a row's mean is off by becomes bias.
EXACTLY = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Solution(NamedTuple):
    """A table of floats, levels x symbols; its decode values, figure on the grid and prices."""

    table: NDArray[np.float64]
    values: Vector
    figure: float
    dual: Dual


class Folds(NamedTuple):
    """Level of a folded constraint: itself, or the mean of it and its mirror image.

    Args:
        even: for row sums and second moments, which mirroring keeps.
        odd: for means, whose sign mirroring changes.
    """

    even: NDArray[np.float64]
    odd: NDArray[np.float64]


def solve(terms: Terms, values: Vector, ratio: float) -> Solution:
    """The best table whose symbols decode to the given values, as floats."""
    # Variables are a ceiling w_y a symbol and what an entry is above its floor: with
    # Q[y, i] = e^-eps w_y + d[y, i], constraints are rows that sum to 1, means that are the grid,
    # and 0 <= d[y, i] <= (1 - e^-eps) w_y. So all variables are of the same order, however large
    # eps is. Where the terms are symmetric, there is an optimum that is its own mirror image
    # (average a table and its image), and half of the symbols, those with a value of 0 or more,
    # stand for all.
    #
    # Decode values are all different. Among them is one of at least C (and, of terms that are not
    # symmetric, one of at most -C), or no table is unbiased. The ratio is e^eps.
    from scipy.optimize import linprog  # slow to import, and only needed here
    from scipy.sparse import csr_array

    levels, symbols = len(terms.grid), len(values)
    folds = folds_of(terms)
    rows, means = np.kron(np.ones(symbols), folds.even), np.kron(values, folds.odd)
    squares = np.kron(values**2, folds.even)

    def with_floors(block: NDArray[np.floating[Any]], last: float) -> NDArray[np.float64]:
        floors = block.reshape(len(block), symbols, levels).sum(axis=2) / ratio
        return np.hstack([block, floors, np.full((len(block), 1), last)])

    costs = with_floors(np.kron(values**2, terms.weights)[None], terms.rise)[0]
    found = linprog(
        costs,
        A_ub=_stacked(with_floors(squares, -terms.rise), _ceilings(levels, symbols, ratio)),
        b_ub=np.concatenate([folds.even @ terms.caps, np.zeros(levels * symbols)]),
        A_eq=csr_array(np.vstack([with_floors(rows, 0.0), with_floors(means, 0.0)])),
        b_eq=np.concatenate([folds.even.sum(axis=1), folds.odd @ terms.grid]),
        method="highs-ds",
        options=EXACTLY,
    )
    if found.status != 0:
        raise InvalidParameter(
            f"epsilon: expected another one, got {log(ratio):.6g} nats, for which no table on"
            f" {levels} levels is found: {found.message}"
        )
    prices = np.maximum(-found.ineqlin.marginals[: len(rows)], 0.0) @ folds.even
    if terms.rise:
        prices /= prices.sum()
    sums, slopes = np.split(found.eqlin.marginals, [len(rows)])
    dual = Dual(sums @ folds.even, slopes @ folds.odd, prices)
    above, ceilings = np.split(np.asarray(found.x[:-1]), [levels * symbols])
    entries = above.reshape(symbols, levels) + ceilings[:, None] / ratio
    table, every = unfolded(entries, values) if terms.symmetric else (entries, values)
    return Solution(np.ascontiguousarray(table.T), every, float(found.fun), dual)


def folds_of(terms: Terms) -> Folds:
    """Return the levels of the constraints; with symmetric terms one per level and its image."""
    levels = len(terms.grid)
    plain = np.eye(levels)
    if not terms.symmetric:
        return Folds(plain, plain)
    # The middle level of an odd number is its own image: its mean is 0 of itself.
    even, odd = (plain + plain[::-1]) / 2, (plain - plain[::-1]) / 2
    return Folds(even[: (levels + 1) // 2], odd[: levels // 2])


def _ceilings(levels: int, symbols: int, ratio: float) -> NDArray[np.float64]:
    """d[y, i] - (1 - e^-eps) w_y <= 0, as rows and columns and entries."""
    cell = np.arange(levels * symbols)
    ceiling = levels * symbols + cell // levels
    one = np.ones(len(cell))
    entries = np.concatenate([one, -(1 - 1 / ratio) * one])
    return np.array([np.tile(cell, 2), np.concatenate([cell, ceiling]), entries])


def _stacked(first: NDArray[np.float64], block: NDArray[np.float64]) -> object:
    """Stack into one sparse matrix: a dense block of rows, and a block of entries."""
    from scipy.sparse import csr_array

    at, column = np.nonzero(first)
    below = block + np.array([[len(first)], [0], [0]])
    row, across, entries = np.concatenate(
        [np.array([at, column, first[at, column]]), below], axis=1
    )
    shape = (int(row.max()) + 1, first.shape[1])
    return csr_array((entries, (row.astype(np.int64), across.astype(np.int64))), shape=shape)


def unfolded(entries: NDArray[np.float64], values: Vector) -> tuple[NDArray[np.float64], Vector]:
    """Return the whole table and its values from the symbols of value 0 or more."""
    # A symbol of value a > 0 becomes two, a and -a, each with half of its chance; a symbol of value
    # 0 is its own mirror image. Entries have shape (symbols, levels).
    signed = values > 0
    plus, zero = entries[signed] / 2, entries[~signed]
    table = np.vstack([plus[::-1, ::-1], (zero + zero[:, ::-1]) / 2, plus])
    return table, np.concatenate([-values[signed][::-1], values[~signed], values[signed]])
