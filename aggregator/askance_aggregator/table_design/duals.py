"""Lower bounds for every randomizer there is, from prices of the program's constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.table_design.objectives import Terms, Vector


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
