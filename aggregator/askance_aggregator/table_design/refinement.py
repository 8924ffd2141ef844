"""Refinement of decode values: alternately the best table for them, and better ones for it.

The linear program over windows: the best table whose symbols are likely at few levels.

Where e^eps is large, the best table has each symbol likely on a window of levels, those at which
its price is negative (`Dual`). So the table is a sum of columns, each a decode value with a
window, and the program has a variable per column and none per entry. Some hundred levels take
seconds, where a program of entries would take minutes.

Prices of a worst-case objective, and decode values, by a barrier method over intervals.

At its best a symbol is likely at the levels of an interval and unlikely at all others (`Dual`:
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

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from askance_aggregator.table_design import programme
from askance_aggregator.table_design.objectives import Terms, Vector, spaced
from askance_client.errors import InvalidParameter

CLOSE = 2e-5
"""The gap to the lower bound, of the bound, at which no better values are looked for."""

MAX_STEPS = 24

_START = 64  # values of either sign
_KEPT = 64  # values from one step to the next; optima on 33 levels use up to 49
_REACH = 1.5  # in units of C: optima at .25 to 8 nats use values up to 1.29 C
_SHORT_INTERVALS = exp(4)  # e^eps beyond which a symbol is likely at few levels
_UNUSED = 1e-10  # of a symbol's greatest probability
_SAME = 1e-9  # values nearer to each other than this, in units of C, are one


class Refined(NamedTuple):
    """The best table found, of floats, and the best lower bound met on the way."""

    solution: programme.Solution
    lower_bound: float
    dual: programme.Dual  # prices that prove the bound


def by_windows(terms: Terms, ratio: float) -> bool:
    """Return whether a table is made of windows of levels, and so may have up to 720."""
    return bool(terms.rise) and terms.symmetric and ratio > _SHORT_INTERVALS


def refine(terms: Terms, ratio: float) -> Refined:
    """The best table that fits the wire, on the terms' grid.

    Utility: starts from equally spaced values; each step keeps the cheapest at the prices found and
    adds the cheapest of every interval, until the figure is within CLOSE of the bound. A table of
    more symbols than fit has its nearest values joined and is solved again for what is left, which
    costs about 10^-5 of the figure at most where it was tried.
    """
    if by_windows(terms, ratio):
        return _by_windows(terms, ratio)
    duchi = (ratio + 1) / (ratio - 1)
    most = programme.SYMBOLS // 2 if terms.symmetric else programme.SYMBOLS
    # Duchi's two values make sure that there is a table.
    needed = np.array([duchi]) if terms.symmetric else np.array([-duchi, duchi])
    start = np.linspace(0.0 if terms.symmetric else -_REACH * duchi, _REACH * duchi, _START)
    values = _apart(np.concatenate([needed, start]), duchi)
    bound, best = 0.0, None  # second moments and variances are never below
    for _ in range(MAX_STEPS):
        solution = programme.solve(terms, values, ratio)
        found = solution.dual.lower_bound(terms, ratio)
        if best is None or found > bound:
            bound, best = max(bound, found), solution.dual
        if solution.figure - bound <= CLOSE * bound:
            break
        better = solution.dual.best_columns(terms, ratio)
        added = _variables(better.values[better.costs < 0], terms)
        # What is used costs 0; what is nearly as cheap keeps the prices from swinging back.
        cheapest = np.argsort(solution.dual.cheapest_at(terms, ratio, values).costs)[:_KEPT]
        values = _apart(np.concatenate([needed, values[cheapest], added]), duchi)
    used = _used(solution, terms)
    if len(used) > most:
        joined = _joined(used, _masses(solution, used), most - len(needed))
        solution = programme.solve(terms, _apart(np.concatenate([needed, joined]), duchi), ratio)
    return Refined(_trimmed(solution), bound, best or solution.dual)


def _by_windows(terms: Terms, ratio: float) -> Refined:
    """Return the best table with a window per symbol, and about as many symbols as levels."""
    priced = best_prices(terms, ratio)
    sent = priced.masses > _UNUSED
    most = max(len(terms.grid), programme.SYMBOLS) // 2 - 1
    joined = _joined(priced.values[sent], priced.masses[sent], most)
    values = _apart(np.append(joined, (ratio + 1) / (ratio - 1)), 1.0)
    windows = _moved(*_best_windows(terms, values, ratio, priced.dual), len(terms.grid), _SQUARE)
    solution = solve_windows(terms, values, ratio, windows)
    bounds = [(dual.lower_bound(terms, ratio), dual) for dual in (priced.dual, solution.dual)]
    bound, best = max(bounds, key=lambda pair: pair[0])
    return Refined(_trimmed(solution), max(0.0, bound), best)


def refine_from(
    terms: Terms, ratio: float, near: programme.Dual, values: Vector, near_ratio: float
) -> programme.Solution:
    """Compute a table of windows from the optimum of another ratio on the same levels.

    Args:
        terms: symmetric, with a rise.
        ratio: e^eps.
        near: prices of the other optimum.
        values: its decode values.
        near_ratio: its e^eps.
    """
    # At large ratios a best window's width is about in proportion to the ratio's cube root,
    # inverted: windows of the other optimum are stretched by that, and their ends moved. This takes
    # a linear program and no prices, a tenth of the time; from a ratio half a nat away figures are
    # within about half a percent of what the whole search attains.
    levels = len(terms.grid)
    half = _apart(np.append(values[values >= 0], (ratio + 1) / (ratio - 1)), 1.0)
    first, end = _best_windows(terms, half, near_ratio, near)
    stretch = (near_ratio / ratio) ** (1 / 3)
    middle, reach = (first + end) / 2, (end - first) / 2 * stretch
    # A window that ends with the grid is stretched inward.
    low = np.where(end == levels, levels - (levels - first) * stretch, middle - reach)
    high = np.where(first == 0, end * stretch, middle + reach)
    low = np.where(first == 0, 0, np.rint(low)).astype(np.int64)
    high = np.where(end == levels, levels, np.rint(high)).astype(np.int64)
    moves = _SQUARE if levels <= _FEW_LEVELS else _CROSS
    return _trimmed(solve_windows(terms, half, ratio, _moved(low, high, levels, moves)))


def _used(solution: programme.Solution, terms: Terms) -> Vector:
    return _variables(solution.values[solution.table.max(axis=0) > _UNUSED], terms)


def _variables(values: Vector, terms: Terms) -> Vector:
    """The values that the program has variables for."""
    return values[values >= 0] if terms.symmetric else values


def _masses(solution: programme.Solution, used: Vector) -> Vector:
    """Compute each value's frequency, averaged over levels."""
    return np.asarray(solution.table.mean(axis=0)[np.isin(solution.values, used)])


def _trimmed(solution: programme.Solution) -> programme.Solution:
    """Remove the symbols that are never sent."""
    kept = solution.table.max(axis=0) > _UNUSED
    return solution._replace(table=solution.table[:, kept], values=solution.values[kept])


def _apart(values: Vector, scale: float) -> Vector:
    """In order, one of each group of values that are the same; the first ones given stay."""
    kept: list[float] = []
    for value in values.tolist():
        if all(abs(value - other) > _SAME * scale for other in kept):
            kept.append(value)
    return np.sort(np.array(kept))


def _joined(values: Vector, masses: Vector, most: int) -> Vector:
    """Merge to at most this many: join the two neighbours of least joint spread, again (Ward)."""
    order = np.argsort(values)
    at, mass = values[order], np.maximum(masses[order], _UNUSED)
    while len(at) > most:
        together = mass[1:] + mass[:-1]
        first = int(np.argmin(mass[1:] * mass[:-1] / together * np.diff(at) ** 2))
        pair = slice(first, first + 2)
        at[first] = at[pair] @ mass[pair] / together[first]
        mass[first] = together[first]
        at, mass = np.delete(at, first + 1), np.delete(mass, first + 1)
    return at


_SQUARE = tuple((first, end) for first in range(-2, 3) for end in range(-2, 3))
"""Levels by which both ends of a window move."""
_CROSS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
_FEW_LEVELS = 200  # up to so many the program of a square takes a tenth of a second
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


def solve_windows(
    terms: Terms, values: Vector, ratio: float, windows: Windows
) -> programme.Solution:
    """Compute the best table of given windows, as floats.

    The terms are symmetric, with a rise; decode values are 0 or more, all different.
    """
    from scipy.optimize import linprog  # slow to import, and only needed here
    from scipy.sparse import csr_array

    folds = programme.folds_of(terms)
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
        options=programme.EXACTLY,
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
    proof = programme.Dual(sums @ folds.even, means @ folds.odd, (caps / caps.sum()) @ folds.even)
    weights = np.asarray(found.x[:count])
    entries = np.zeros((len(values), len(terms.grid)))
    np.add.at(entries, windows.symbols, (weights * (likely * inside + 1 / ratio)).T)
    table, every = programme.unfolded(entries, values)
    return programme.Solution(np.ascontiguousarray(table.T), every, float(found.fun), proof)


def _steps(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first row, and the difference of each other row from the one before it."""
    # A window has two ends and many levels, so most entries become 0: the program is solved in a
    # fifth of the time.
    stepped: NDArray[np.float64] = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))
    stepped[np.abs(stepped) < _ROUNDING * np.abs(rows)] = 0.0
    return stepped


def _of_steps(prices: Vector) -> Vector:
    """Return the prices of rows from those of their steps."""
    following: Vector = np.append(prices[1:], 0.0)
    return prices - following


def _best_windows(
    terms: Terms, values: Vector, ratio: float, dual: programme.Dual
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first level, and the one after the last, of each value's best window at prices."""
    likely = dual.cheapest_at(terms, ratio, values).likelihoods > 1
    likely[~likely.any(axis=1), -1] = True  # a value that no level pays for
    return likely.argmax(axis=1), len(terms.grid) - likely[:, ::-1].argmax(axis=1)


def _moved(
    first: NDArray[np.int64],
    end: NDArray[np.int64],
    levels: int,
    moves: Sequence[tuple[int, int]],
) -> Windows:
    """Return each value's window with its ends moved in each way, each window of a value once."""
    at_first, at_end = np.array(moves).T
    every = np.stack(
        [
            np.repeat(np.arange(len(first)), len(moves)),
            np.maximum(first[:, None] + at_first, 0).ravel(),
            np.minimum(end[:, None] + at_end, levels).ravel(),
        ]
    )
    symbols, low, high = np.unique(every[:, every[1] < every[2]], axis=1)
    return Windows(symbols, low, high)


def _inside(windows: Windows, levels: int) -> NDArray[np.float64]:
    """Return 1 where a level is in a column's window, shape (levels, columns)."""
    level = np.arange(levels)[:, None]
    return ((level >= windows.first) & (level < windows.end)).astype(np.float64)


_GAP = 1e-5  # of the figure, at which the path ends
_GROWTH = 8.0  # of the objective's weight from one point of the path to the next
_CENTRED = 1e-3  # Newton's decrement, squared, at which a point is near enough to the path
_NEWTON_STEPS = 40  # a point; more are a sign of rounding, and the prices hold as they are

_DAMPING = 1e-14  # part of the Hessian's diagonal: the size of its rounding
_SHORTEST = 1e-8  # part of a step that is still made
_COARSE = 64  # levels up to which intervals of all lengths are admitted
_RARE = 1e-3  # intervals that have less than this part of the reports count as unused
_LONGER = 2  # times the longest interval that is used: the longest one that is admitted

Matrix = NDArray[np.float64]


class Priced(NamedTuple):
    """Prices, and the symbols that are best at them.

    Args:
        dual: any prices prove a bound.
        values: decode values of 0 or more; a symbol and its mirror image are one.
        masses: their frequencies, averaged over levels.
        longest: number of levels of the longest interval that is used.
    """

    dual: programme.Dual
    values: Vector
    masses: Vector
    longest: int


class _Cones:
    """Cones of all intervals up to a length, in the prices of all levels: shape (3, levels)."""

    # Arrays over intervals have shape (levels, longest): first level, and length less one. An
    # interval that would leave the grid has no cone.
    #
    # terms: symmetric, with a rise.
    # longest: the most levels of an interval.

    def __init__(self, terms: Terms, ratio: float, longest: int) -> None:
        levels = len(terms.grid)
        self.longest = longest
        self.outside = 1 / ratio
        ends = np.arange(levels)[:, None] + np.arange(1, longest + 1)
        self.known = ends <= levels
        self.gain = np.stack([np.ones(levels), terms.grid, -terms.caps])
        self.parameter = 2 * int(self.known.sum()) + levels

    def images(self, prices: Matrix) -> tuple[Matrix, Matrix]:
        """For each interval (s.u, s.v, s.t), and the cone's slack 4 (s.t) (-s.u) - (s.v)^2."""
        padded = np.pad(prices, ((0, 0), (0, self.longest - 1)))
        inside = np.cumsum(sliding_window_view(padded, self.longest, axis=1), axis=2)
        totals = prices.sum(axis=1)[:, None, None]
        image = self.outside * totals + (1 - self.outside) * inside
        nothing = np.array([-1.0, 0.0, 1.0])[:, None, None]
        row, mean, square = image = np.where(self.known, image, nothing)
        return image, -4 * square * row - mean * mean

    def inside(self, prices: Matrix) -> bool:
        """Return whether prices keep all constraints with slack."""
        (row, _, square), slack = self.images(prices)
        return bool(min(slack.min(), (-row).min(), square.min(), prices[2].min()) > 0)

    def pairs(self, weights: Matrix) -> Matrix:
        """For each distance d and level i the sum over the intervals that hold i and i + d."""
        # From shape (..., levels, longest) to shape (longest, ..., levels).
        longer = np.cumsum(np.where(self.known, weights, 0.0)[..., ::-1], axis=-1)[..., ::-1]
        sums = np.zeros((self.longest, *weights.shape[:-1]))
        sums[-1] = longer[..., -1]
        for distance in range(self.longest - 2, -1, -1):
            # Those that begin at i, and those that begin before it and hold i - 1 and i + d.
            sums[distance] = longer[..., distance]
            sums[distance][..., 1:] += sums[distance + 1][..., :-1]
        return sums


def best_prices(terms: Terms, ratio: float) -> Priced:
    """The best prices over intervals, and the symbols that go with them."""
    # The terms are symmetric, with a rise: a worst-case objective. On more than 64 levels intervals
    # are at most twice as long as the longest that 64 levels use: longer ones are as many again,
    # and are hardly used.
    levels = len(terms.grid)
    if levels <= _COARSE:
        return _priced(terms, ratio, levels)
    grid = spaced(_COARSE)
    weights, caps = (np.interp(grid, terms.grid, each) for each in (terms.weights, terms.caps))
    coarse = _priced(Terms(weights, caps, terms.rise), ratio, _COARSE)
    return _priced(terms, ratio, min(_LONGER * coarse.longest * levels // _COARSE, levels))


def _priced(terms: Terms, ratio: float, longest: int) -> Priced:
    levels = len(terms.grid)
    cones = _Cones(terms, ratio, longest)
    # Inside all cones: no price of means, and rows at a price below 0.
    prices = np.stack([np.full(levels, -0.5), np.zeros(levels), np.ones(levels)]) / levels
    weight = float(cones.parameter)
    while True:
        prices = _centred(cones, prices, weight)
        if cones.parameter <= weight * _GAP * abs(np.sum(cones.gain * prices)):
            break
        weight *= _GROWTH
    (_, mean, square), slack = cones.images(prices)
    known = cones.known & (slack > 0)  # in floats
    weights, moments = 4 * square[known] / slack[known], 2 * mean[known] / slack[known]
    lengths = np.broadcast_to(np.arange(1, longest + 1), known.shape)[known]
    inside = lengths / levels
    masses = weights * (inside + cones.outside * (1 - inside))
    masses /= masses.sum()
    by_length = np.bincount(lengths, masses)[::-1].cumsum()[::-1]  # of intervals this long or more
    used = int(np.flatnonzero(by_length > _RARE)[-1])
    return Priced(programme.Dual(*prices), np.abs(moments / weights), masses, used)


def _centred(cones: _Cones, prices: Matrix, weight: float) -> Matrix:
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


def _newton(cones: _Cones, prices: Matrix, weight: float) -> tuple[Matrix, float]:
    """Return Newton's step along prices t that sum to 1, and the square of its decrement."""
    # An interval's image is its own levels' prices and, times e^-eps, the sums of all prices. Of
    # these that of t is 1, that of v is 0 (by symmetry) and that of u is a variable of its own, so
    # the Hessian has a band of the levels that share an interval, and one row and column more.
    from scipy.linalg import LinAlgError, solveh_banded

    inside, levels = 1 - cones.outside, prices.shape[1]
    with np.errstate(all="ignore"):
        (row, mean, square), slack = cones.images(prices)
        sides = np.stack([-4 * square, -2 * mean, -4 * row])  # slopes of the slack along the image
        bend = sides[:, None] * sides[None] / slack**2
        bend[0, 2] += 4 / slack
        bend[2, 0] += 4 / slack
        bend[1, 1] += 2 / slack
        pairs = inside**2 * cones.pairs(bend)
        pairs[0, 2, 2] += 1 / prices[2] ** 2
        slopes = np.where(cones.known, sides / slack, 0.0)
        uphill = weight * cones.gain + inside * cones.pairs(slopes)[0]
        uphill[2] += 1 / prices[2]
        total_uphill = cones.outside * slopes[0].sum()
        crossing = inside * cones.outside * cones.pairs(bend[0])[0]
        total_bend = cones.outside**2 * bend[0, 0][cones.known].sum()
        scale = 1 / np.sqrt(np.einsum("kki->ki", pairs[0]).T.ravel())
    if not np.isfinite(scale).all():
        return np.zeros_like(prices), np.inf
    band = _band(pairs) * scale
    for below in range(1, len(band)):
        band[below, :-below] *= scale[below:]
        band[below, -below:] = 0.0
    sums = np.kron(np.ones((levels, 1)), np.eye(3))  # of u, v and t
    right = np.column_stack([uphill.T.ravel(), crossing.T.ravel(), sums]) * scale[:, None]
    if not (np.isfinite(band).all() and np.isfinite(right).all()):
        return np.zeros_like(prices), np.inf
    band[0] = 1.0 + _DAMPING
    try:
        solved = solveh_banded(band, right, lower=True) * scale[:, None]
        steps = np.column_stack([crossing.T.ravel(), sums]).T @ solved
        # Unknowns: the step of the sum of u, and a multiplier for each of the three sums.
        small = steps[:, 1:].copy()
        small[0, 0] -= total_bend
        small[0, 1] += 1
        small[1, 0] += 1
        known = steps[:, 0].copy()
        known[0] -= total_uphill
        unknown = np.linalg.solve(small, known)
    except (LinAlgError, np.linalg.LinAlgError):
        return np.zeros_like(prices), np.inf
    step = (solved[:, 0] - solved[:, 1:] @ unknown).reshape(levels, 3).T
    decrement = np.sum(uphill * step) + total_uphill * step[0].sum()
    return step, float(decrement)


def _band(pairs: Matrix) -> Matrix:
    """Arrange blocks of levels at each distance as the lower band of a symmetric matrix."""
    longest, _, _, levels = pairs.shape
    band = np.zeros((3 * longest, 3 * levels))
    for distance, block in enumerate(pairs):
        for at in range(3):
            for other in range(3):
                below = 3 * distance + other - at
                if below >= 0:
                    band[below, at::3] = block[at, other]
    return band
