"""Prices of a worst-case objective, and decode values, by a barrier method over intervals.

At its best a symbol is likely at the levels of an interval and unlikely at all others (`duals`:
where a price is negative). With W_s the weight of the symbol of an interval s and b_s = W_s a_s for
its decode value, rows and means are linear in (W, b), and a second moment is the sum of b_s^2 / W_s
times a likelihood: the best table over all intervals and decode values is a convex program, with as
many constraints as levels. Its dual has three prices a level and one cone an interval:

    maximise sum_i u_i + sum_i v_i x_i - sum_i t_i c_i    subject to    sum_i t_i = 1, t >= 0,
    and for every interval s    4 (s.t) (-s.u) >= (s.v)^2,    s.u <= 0.

Newton's method with the logarithmic barrier of the cones follows its path; the barrier's slopes are
the (W, b) of the primal. What is found is believed only as far as `Dual.lower_bound` proves it, for
all symbols and not for intervals alone.

Source: Nesterov and Nemirovskii 1994 (a short-step path; the cones' barrier has parameter 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.table_design.duals import Dual
from askance_aggregator.table_design.objectives import Terms, Vector

_GAP = 1e-5  # of the figure, at which the path ends
_GROWTH = 8.0  # of the objective's weight from one point of the path to the next
_CENTRED = 1e-3  # Newton's decrement, squared, at which a point is near enough to the path
_NEWTON_STEPS = 40  # a point; more are a sign of rounding, and the prices hold as they are

_SHORTEST = 1e-8  # part of a step that is still made

Matrix = NDArray[np.float64]


class Priced(NamedTuple):
    """Prices, and the symbols that are best at them.

    Args:
        dual: any prices prove a bound.
        values: decode values of 0 or more; a symbol and its mirror image are one.
        masses: their frequencies, averaged over levels.
    """

    dual: Dual
    values: Vector
    masses: Vector


class _Cones:
    """The cones of all intervals, in the prices of one half of the levels.

    Args:
        terms: symmetric, with a rise.
        ratio: e^eps.
    """

    def __init__(self, terms: Terms, ratio: float) -> None:
        levels = len(terms.grid)
        ends = np.array(
            [
                (first, end)
                for first in range(levels)
                for end in range(max(first + 1, levels - first), levels + 1)
            ]
        )
        level = np.arange(levels)
        inside = (level >= ends[:, :1]) & (level < ends[:, 1:])
        self.likelihoods = np.where(inside, 1.0, 1 / ratio)
        plain = np.eye(levels)
        self.even = (plain + plain[::-1])[: (levels + 1) // 2]
        if levels % 2:
            self.even[-1] /= 2  # the middle level is its own image
        self.odd = (plain - plain[::-1])[: levels // 2]
        self.sums, self.slopes = self.likelihoods @ self.even.T, self.likelihoods @ self.odd.T
        self.gain = np.concatenate(
            [self.even.sum(axis=1), self.odd @ terms.grid, -(self.even @ terms.caps)]
        )
        self.whole = np.concatenate([np.zeros(levels), self.even.sum(axis=1)])  # of the t

    def split(self, prices: Vector) -> tuple[Vector, Vector, Vector]:
        """Return u, v and t."""
        half, odd = len(self.even), len(self.odd)
        return prices[:half], prices[half : half + odd], prices[half + odd :]

    def images(self, prices: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """For each interval s.u, s.v, s.t and the cone's slack 4 (s.t) (-s.u) - (s.v)^2."""
        u, v, t = self.split(prices)
        row, mean, square = self.sums @ u, self.slopes @ v, self.sums @ t
        return row, mean, square, -4 * square * row - mean * mean

    def inside(self, prices: Vector) -> bool:
        """Return whether prices keep all constraints with slack."""
        row, _, square, slack = self.images(prices)
        t = self.split(prices)[2]
        return bool(min(slack.min(), (-row).min(), square.min(), t.min()) > 0)

    def slope(self, prices: Vector) -> tuple[Vector, Matrix]:
        """Gradient and Hessian of the barrier -sum ln slack - sum ln t."""
        row, mean, square, slack = self.images(prices)
        t = self.split(prices)[2]
        sides = (-4 * square, -2 * mean, -4 * row)  # slopes of the slack along s.u, s.v and s.t
        maps = (self.sums, self.slopes, self.sums)
        bend = {(0, 2): 4 / slack, (1, 1): 2 / slack}
        gradient = [-(each.T @ (side / slack)) for each, side in zip(maps, sides, strict=True)]
        gradient[2] -= 1 / t
        blocks: list[list[Matrix]] = [[np.empty(0)] * 3 for _ in range(3)]
        for i in range(3):
            for j in range(i, 3):
                weight = sides[i] * sides[j] / slack**2 + bend.get((i, j), 0.0)
                blocks[i][j] = maps[i].T @ (weight[:, None] * maps[j])
                blocks[j][i] = blocks[i][j].T
        blocks[2][2] = blocks[2][2] + np.diag(1 / t**2)
        return np.concatenate(gradient), np.block(blocks)


def best_prices(terms: Terms, ratio: float) -> Priced:
    """The best prices over intervals, and the symbols that go with them.

    Args:
        terms: symmetric, with a rise: a worst-case objective.
        ratio: e^eps.
    """
    cones = _Cones(terms, ratio)
    levels = len(terms.grid)
    half, odd = len(cones.even), len(cones.odd)
    # Inside all cones: no price of means, and rows at a price below 0.
    prices = np.concatenate([np.full(half, -0.5), np.zeros(odd), np.ones(half)]) / levels
    parameter = 2 * len(cones.likelihoods) + half
    weight = float(parameter)
    while True:
        prices = _centred(cones, prices, weight)
        if parameter <= weight * _GAP * abs(cones.gain @ prices):
            break
        weight *= _GROWTH
    _, mean, square, slack = cones.images(prices)
    known = slack > 0  # in floats
    weights, moments = 4 * square[known] / slack[known], 2 * mean[known] / slack[known]
    u, v, t = cones.split(prices)
    dual = Dual(u @ cones.even, v @ cones.odd, t @ cones.even)
    masses = weights * cones.likelihoods[known].mean(axis=1)
    return Priced(dual, np.abs(moments / weights), masses / masses.sum())


def _centred(cones: _Cones, prices: Vector, weight: float) -> Vector:
    """Return the point of the path at a weight of the objective, by Newton's method."""
    for _ in range(_NEWTON_STEPS):
        step, decrement = _newton(cones, prices, weight)
        length = 1.0
        while length > _SHORTEST and not cones.inside(prices + length * step):
            length *= 0.7
        if not length > _SHORTEST or not np.isfinite(decrement):
            break  # floats have no more digits
        prices = prices + (length if length == 1 else 0.9 * length) * step  # not onto the border
        if decrement < _CENTRED:
            break
    return prices


def _newton(cones: _Cones, prices: Vector, weight: float) -> tuple[Vector, float]:
    """Return Newton's step along prices t that sum to 1, and the square of its decrement."""
    with np.errstate(all="ignore"):
        gradient, hessian = cones.slope(prices)
        uphill = weight * cones.gain - gradient
        scale = 1 / np.sqrt(np.diag(hessian))
        size = len(prices)
        system = np.zeros((size + 1, size + 1))
        system[:size, :size] = hessian * np.outer(scale, scale)
        system[size, :size] = system[:size, size] = cones.whole * scale
    if not np.isfinite(system).all():
        return np.zeros(size), np.inf
    try:
        solution = np.linalg.solve(system, np.append(uphill * scale, 0.0))
    except np.linalg.LinAlgError:
        return np.zeros(size), np.inf
    step = solution[:size] * scale
    return step, float(uphill @ step)
