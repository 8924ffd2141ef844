"""Exact tails of a sum of reports' scores, by inversion of their law's transform.

S is the sum of n independent scores W, each of one of the values w_y with probability pi_y, and
M(z) = E[e^(z W)]. Let U >= 0 be independent of S: the sum of r = 4 uniform variables on
[0, h / r]. With M_U its transform, a tilt t > 0, a spacing d > 0 and z_k = t + i k d,

    P[S >= 0] <= P[S + U >= 0] <= T = (d / 2 pi) sum over integers k of M(z_k)^n M_U(z_k) / z_k.

*Proof.* The first step is U >= 0. For the second let f(x) = e^(t x) P[S + U >= x]. It is
continuous, and falls exponentially on both sides; its transform at s is
E[e^((t + i s) (S + U))] / (t + i s), which falls as |s|^-(r + 1). So Poisson's summation holds: T
is the sum of f over the multiples of 2 pi / d. Its terms are >= 0, and f(0) = P[S + U >= 0].

*The rest of the sum.* |M(z)| <= M(t), and |M_U(z)| <= ((e^(t h / r) + 1) r / (h |z|))^r, so what
lies beyond |k| = K is at most M(t)^n (c / K)^r / (pi r) with c = (e^(t h / r) + 1) r / (h d).

*Cells of populations.* Let M depend on parameters that differ from those of a centre, where it is
M_0, by at most some half widths; t, d and h do not depend on them. Let L be the linear part of
M - M_0, with |L| <= R_1 and |M - M_0 - L| <= R_2 in the cell, and R = R_1 + R_2. Then
M^n - M_0^n - n M_0^(n - 1) L is at most

    E = (|M_0| + R)^n - |M_0|^n - n |M_0|^(n - 1) R_1

in size: the binomial series of M^n about M_0, term by term. As |M(z)| <= M(t) <= B, the greatest
in the cell, it is also at most B^n + |M_0|^n + n |M_0|^(n - 1) R_1. So in the cell T is at most T_0
plus the half widths times the sizes of its derivatives at the centre plus the sum with the lesser
bound in place of M^n, all of it in absolute values.

Floats: each step errs by a few units in the last place, and M^n by n of them; `_BESIDE` of every
term is more for n up to `MOST_USERS`, and so is a score's rounding, of which M errs by as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Complexes = NDArray[np.complex128]

MOST_USERS = 10**8
_UNIFORMS = 4  # r
_WIDTH = 9.0  # of the period 2 pi / d, in deviations of the sum
_REST = 2e-3  # of beta, what the rest of the sum may be
_BESIDE = 1e-6  # of a term's size, its error
_MOST_TERMS = 1 << 13
_BLOCK = 32  # terms that share a factor
_GENTLEST, _STEEPEST = 1e-6, 60.0  # tilts, the span of the scores being 1
_BISECTIONS = 24  # to a tilt; any tilt gives a bound that holds
_LARGE = 300.0  # ln of a bound that says nothing
_SMALL = 25.0  # -ln of a part of beta that is bounded and not computed
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class CellLaws:
    """Laws of a score at the centres of cells of populations, and how far they move within.

    Args:
        scores: w, shape (cells, symbols).
        chances: pi, shape (cells, symbols).
        moves: per parameter the half width times the derivative of M, as the coefficients of 1, z
            and z^2 in what stands before e^(z w); each of shape (cells, symbols).
            Empty, as are curves: the cells are their centres.
        curves: so the second derivatives, times half the product of two half widths (of a mixed
            one, times the product).
        highest: the greatest scores within the cell, shape (cells, symbols).
        bends: so the third derivatives' absolute bounds, as coefficients of |z|, |z|^2 and |z|^3
            before e^(t highest); shape (3, cells, symbols).
    """

    scores: Reals
    chances: Reals
    moves: tuple[tuple[Reals, ...], ...]
    curves: tuple[tuple[Reals, ...], ...]
    highest: Reals
    bends: Reals

    @cached_property
    def tilt(self) -> float:
        """Find t > 0 where M(t) is least for the cell in which its least value is greatest."""
        span = np.ptp(self.scores, axis=1)
        low, high = _GENTLEST / span, _STEEPEST / span
        for _ in range(_BISECTIONS):  # M is convex in t: its slope rises
            middle = np.sqrt(low * high)
            raised = self.chances * np.exp(middle[:, None] * self.scores)
            rising = (raised * self.scores).sum(axis=1) > 0
            low, high = np.where(rising, low, middle), np.where(rising, middle, high)
        least = (self.chances * np.exp(low[:, None] * self.scores)).sum(axis=1)
        return float(low[np.argmax(least)])


def tails(laws: CellLaws, users: int, width: float, beta: float) -> Reals:
    """Bound P[S >= 0] within each cell, S the sum of `users` scores.

    Args:
        laws: the cells.
        users: n, in 1..`MOST_USERS`.
        width: h > 0.
        beta: the chance that matters: what is not computed is a small part of it.

    Returns:
        The bounds, shape (cells,); of a cell that is too wide for one they are above 1.
    """
    tilt = laws.tilt
    raised = laws.chances * np.exp(tilt * laws.scores)
    greatest = raised.sum(axis=1)  # M(t)
    variances = (raised * laws.scores**2).sum(axis=1) / greatest
    variances -= ((raised * laws.scores).sum(axis=1) / greatest) ** 2
    spacing = 2 * pi / (_WIDTH * sqrt(users * max(float(variances.max()), _TINY)))
    bends = (laws.bends * np.exp(tilt * laws.highest)).sum(axis=2)[:, :, None]
    _, moves, second = _sums(laws, tilt, spacing, 1, bends)
    moved = _absolute(moves, second) + second
    top = np.minimum(users * np.log(greatest[:, None] + moved), _LARGE)  # n ln B

    reach = (exp(tilt * width / _UNIFORMS) + 1) * _UNIFORMS / (width * spacing)
    wanted = exp(min(float(top.max()), 0.0)) / (pi * _UNIFORMS * _REST * beta)
    count = ceil(min(max(reach * wanted ** (1 / _UNIFORMS), 1.0), _MOST_TERMS)) + 1
    found, moves, second = _sums(laws, tilt, spacing, count, bends)
    points = _points(tilt, spacing, count)
    count = len(points)
    beyond = top[:, 0] + _UNIFORMS * log(reach / (count - 1)) - log(pi * _UNIFORMS)
    rest = np.exp(np.minimum(beyond, _LARGE))

    kernel = points * (width / _UNIFORMS)
    smooth = (np.expm1(kernel) / kernel) ** _UNIFORMS / points * (spacing / pi)
    smooth[0] /= 2  # a term of -k is the conjugate of that of k
    linear = _absolute(moves, second)
    sizes = np.maximum(np.abs(found), _TINY)
    above = users * np.log(sizes + linear + second)
    small = log(beta) - _SMALL
    cells, places = np.nonzero(above > small)
    left = np.exp(np.where(above > small, -np.inf, above))
    total = rest + 3 * (left * np.abs(smooth)).sum(axis=1)  # |M_0|^n, and two bounds beside it

    near, kept = found[cells, places], sizes[cells, places]
    power = np.exp(np.minimum(users * np.log(kept), _LARGE))
    turn = np.exp(1j * users * np.angle(near)) * smooth[places]
    along = power * linear[cells, places] * (users / kept)
    highest = np.exp(np.minimum(above[cells, places], _LARGE))
    cap = np.exp(top[cells, 0]) + power + along
    beside = np.minimum(np.maximum(highest - power - along, 0.0), cap)
    weight = np.abs(smooth[places])
    error = weight * (beside + _BESIDE * (power + along + beside))
    number = len(laws.scores)
    total = total + np.bincount(cells, power * turn.real + error, minlength=number)
    for move in moves:
        slope = move[cells, places] / near
        part = np.bincount(cells, users * power * (turn * slope).real, minlength=number)
        total = total + np.abs(part)
    return np.asarray(total)


def _points(tilt: float, spacing: float, count: int) -> Complexes:
    """z_k, of `count` points or up to as many more as fill a block."""
    number = count if count == 1 else -(-count // _BLOCK) * _BLOCK
    return np.asarray(tilt + 1j * spacing * np.arange(number))


def _sums(
    laws: CellLaws, tilt: float, spacing: float, count: int, bends: Reals
) -> tuple[Complexes, list[Complexes], Reals]:
    """Return M_0, the half width times each derivative, and R_2, at z_k; shape (cells, points)."""
    # e^(z_k w) is e^(t w), a factor per block of terms and one per place in a block: the sums over
    # symbols are products of matrices.
    points = _points(tilt, spacing, count)
    length = min(len(points), _BLOCK)
    place = 1j * spacing * laws.scores
    inner = np.exp(place[:, :, None] * np.arange(length))
    steps = length * np.arange(len(points) // length)
    outer = np.exp(place[:, None, :] * steps[:, None])
    tilted = np.exp(tilt * laws.scores)

    def summed(parts: Sequence[Reals]) -> Complexes:
        found = np.zeros((len(laws.scores), len(points)), dtype=np.complex128)
        for part in reversed(parts):
            left = outer * (part * tilted)[:, None, :]
            found = found * points + (left @ inner).reshape(found.shape)
        return found

    sizes, second = np.abs(points), np.zeros((len(laws.scores), len(points)))
    if laws.moves:  # else the cells are their centres
        second += ((bends[2] * sizes + bends[1]) * sizes + bends[0]) * sizes
    for curve in laws.curves:
        second += np.abs(summed(curve))
    return summed([laws.chances]), [summed(move) for move in laws.moves], second


def _absolute(moves: Sequence[Complexes], like: Reals) -> Reals:
    """R_1: the sum of the sizes of the moves, shape (cells, points)."""
    return np.asarray(sum((np.abs(move) for move in moves), np.zeros_like(like)))
