"""Certified ends of delta for reports of two symbols, over all populations.

The others are k users at the greatest chance of the symbol and n - 1 - k at the least: rows between
are mixtures. With B the number of their symbols, a target at the greatest chance `high`, compared
with `low`, lambda = e^epsilon and A = high - lambda low, the delta is

    D(n, k) = max over c of f(c),  f(c) = A Pr[B = c - 1] - (lambda - 1) Pr[B >= c],

since the chances of B are log-concave: f rises and then falls. For k0 <= k <= k0 + w it is at most
D(n - w, k0), a batch without the w users of whom the two populations may differ.

Small batches are convolved. In others Pr[B = c] and Pr[B >= c] are trapezoidal sums over a circle
of radius e^t, with a node per whole number of 18 deviations; what a sum has beside its value is
bounded by Bernstein's inequality, and rounding errors beside what they are of.

Source: docs/math/shuffled_batches.md section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.amplification.sums import UNIT, Floats
from askance_aggregator.families.comparisons import Bit

Ints = NDArray[np.int64]

CONVOLVED = 192  # answers up to which all populations are convolved: 7 million products
_PERIOD = 18.0  # deviations per period
_NODES = 64  # of a period, at least
_HALF = _NODES // 2
_ROUND = 3  # values of c tried on each side of the estimate
_CELLS = 40  # of the populations, at first
_UNDERFLOW = 1e-250  # more than all products lose that are below every float
_MOST = 6_000  # cells that are tried before an end is given up


@dataclass(frozen=True)
class BitBatch:
    """n answers of which the target's is one: ends of D(n, k), in one direction of the pair."""

    bit: Bit
    answers: int

    def values(self, ratio: float, n: Ints, k: Ints, sign: int) -> Floats:
        """Ends of D(n, k) at lambda = `ratio`, a float that is taken exactly.

        Args:
            ratio: lambda, >= 1.
            n: answers, each >= 1; shape (cells,).
            k: others at the greatest chance, 0 <= k < n; shape (cells,).
            sign: 1: from above; -1: from below.
        """
        high, low = (mass / self.bit.denominator for mass in (self.bit.high, self.bit.low))
        scaled = ratio * low
        gain = high - scaled + sign * UNIT * (high + 2 * scaled)
        if gain <= 0:
            return np.zeros(len(n))
        if self.answers <= CONVOLVED and (n == self.answers).all():
            return self._convolved(ratio, gain, sign)[k]
        return np.clip(_integrated(high, low, ratio, gain, n, k, sign), 0.0, 1.0)

    @cached_property
    def _laws(self) -> tuple[Floats, Floats]:
        """Chances of B = c and of B >= c: row k, column c = 0..n - 1; each to some 8 n units."""
        n, whole = self.answers, self.bit.denominator
        high, low = (
            _binomials(mass / whole, (whole - mass) / whole, n)
            for mass in (self.bit.high, self.bit.low)
        )
        rows = [np.convolve(high[k, : k + 1], low[n - 1 - k, : n - k]) for k in range(n)]
        equal = np.array(rows)
        return equal, np.cumsum(equal[:, ::-1], axis=1)[:, ::-1]

    def _convolved(self, ratio: float, gain: float, sign: int) -> Floats:
        equal, tail = self._laws
        loss = np.zeros_like(tail)
        loss[:, :-1] = (ratio - 1) * tail[:, 1:]  # c = 1..n; B >= n is impossible
        each = gain * equal - loss + sign * UNIT * 8 * (self.answers + 4) * (gain * equal + loss)
        best: Floats = np.maximum(each.max(axis=1), 0.0) + (_UNDERFLOW if sign > 0 else 0.0)
        return best


def _binomials(chance: float, complement: float, n: int) -> Floats:
    """Chances of k draws: row k, column c, for k < n."""
    rows = np.zeros((n, n))
    rows[0, 0] = 1.0
    for k in range(1, n):
        rows[k] = rows[k - 1] * complement
        rows[k, 1:] += rows[k - 1, :-1] * chance
    return rows


def _integrated(
    high: float, low: float, ratio: float, gain: float, n: Ints, k: Ints, sign: int
) -> Floats:
    """Ends of D(n, k) by trapezoidal sums over circles; see the module."""
    at_high, at_low = (k.astype(np.float64))[:, None], (n - 1 - k).astype(np.float64)[:, None]
    less = ratio - 1  # exact for ratio in [1, 2], else to a unit
    slope = gain + less
    best = np.log1p(less / gain)  # ln of Pr[B = c - 1] / Pr[B = c] where f is greatest
    plain = at_high * high * (1 - high) + at_low * low * (1 - low)
    tilt = np.maximum(best, 1 / np.sqrt(plain + 1))
    raised = np.expm1(tilt)
    chances = [each * np.exp(tilt) / (1 + each * raised) for each in (high, low)]
    variances = [each * (1 - each) for each in chances]
    mean = at_high * chances[0] + at_low * chances[1]
    variance = at_high * variances[0] + at_low * variances[1]
    most = n.astype(np.float64)[:, None]
    centre = np.clip(np.rint(mean + 0.5 + variance * (best - tilt)), 1, most)

    period = np.maximum(_NODES, np.ceil(_PERIOD * np.sqrt(variance)))
    index = np.arange(_HALF + 1)
    theta = 2 * np.pi * index / period
    # Each node stands for its conjugate too, but 0 and, where the circle is whole, its last.
    weight = np.where((index == 0) | (2 * index == period), 1.0, 2.0) / period
    sine = np.sin(theta / 2)
    power = np.zeros(theta.shape, np.complex128)
    wrong, loose = np.zeros(theta.shape), np.zeros(theta.shape)
    for count, each, spread in zip((at_high, at_low), chances, variances, strict=True):
        square = -4 * spread * sine**2
        modulus = np.log1p(np.maximum(square, -1 + 1e-300)) / 2
        angle = np.arctan2(each * np.sin(theta), 1 - 2 * each * sine**2)
        power += count * (modulus + 1j * angle)
        # Relative where |1 + y| is above 1/2; else of a power of at most 1/2, absolutely.
        near = square > -0.75
        wrong += 128 * UNIT * count * np.where(near, each * theta, 0.0)
        loose += np.where(near, 0.0, 64 * UNIT)
    # The phase is the difference of two that are rounded beside themselves.
    wrong += 8 * UNIT * (np.abs(power.imag) + theta * centre + variance * theta**2 + 8)
    far = np.exp(power.real)
    power = np.exp(power - 1j * theta * centre)
    # Nodes that are left out: the modulus falls up to pi.
    left = np.maximum(0.0, period - _NODES) / period * far[:, -1:] * (1 + wrong[:, -1:])

    offset = np.arange(-_ROUND - 1, _ROUND + 1)
    shifted = power[:, None, :] * np.exp(-1j * theta[:, None, :] * offset[:, None])
    equal = (shifted.real * weight[:, None, :]).sum(axis=2)  # tilted, at c = centre + offset
    off = far * (wrong + 192 * UNIT) + loose
    equal_off = (weight * off).sum(axis=1, keepdims=True) + left
    pole = -np.expm1(-tilt) + 2 * np.exp(-tilt) * sine**2 + 1j * np.exp(-tilt) * np.sin(theta)
    tail = ((shifted / pole[:, None, :]).real * weight[:, None, :]).sum(axis=2)
    tail_off = (weight * off / np.abs(pole)).sum(axis=1, keepdims=True)
    tail_off += left / -np.expm1(-tilt)
    # What a sum has beside its value at c + period, in tilted chances, and at c - period.
    reach = period - np.abs(centre - mean) - _ROUND - 2
    beyond = 2 * np.exp(-(reach**2) / (2.001 * (variance + reach / 3)))

    at = centre + offset[1:]
    scale_log = at_high * np.log1p(high * raised) + at_low * np.log1p(low * raised) - tilt * centre
    scale_off = (
        16
        * UNIT
        * (at_high * np.log1p(high * raised) + at_low * np.log1p(low * raised) + tilt * centre + 1)
    )
    decay = np.exp(-tilt * (offset[1:]))
    before = np.exp(-tilt * (offset[:-1]))
    wrap = np.exp(-tilt * period)
    wrap = wrap / (1 - wrap)
    plus = gain * before * equal[:, :-1]
    minus = less * decay * tail[:, 1:]
    plus_off = gain * before * (equal_off + beyond)
    minus_off = less * decay * (tail_off + beyond)
    around = 8 * UNIT * (np.abs(plus) + np.abs(minus))
    value = plus - minus + sign * (plus_off + minus_off + around)
    scaled = value * np.exp(scale_log) * (1 + sign * np.sign(value) * np.expm1(2 * scale_off))
    low_side = _bernstein(at_high * high + at_low * low, plain, period - _ROUND - 1 - centre)
    scaled = scaled + less * wrap * (1 + sign * UNIT * (32 + 8 * tilt * period))
    if sign < 0:
        scaled = scaled - (gain + less) * wrap * low_side
    inside = (at >= 1) & (at <= most)
    best_end: Floats = np.where(inside, scaled, -np.inf).max(axis=1)
    if sign < 0:
        return best_end
    # f rises before the first c and falls after the last, or the end is not certified.
    change = gain * before * equal[:, :-1] - slope * decay * equal[:, 1:]
    change_off = (gain * before + slope * decay) * (equal_off + beyond + 8 * UNIT)
    change_off += 4 * UNIT * (high + 2 * ratio * low) * (before + decay)
    rises = (change[:, 0] <= -change_off[:, 0]) | (at[:, 0] <= 1)
    falls = (change[:, -1] >= change_off[:, -1]) | (at[:, -1] >= most[:, 0])
    return np.where(rises & falls, best_end, 1.0)


def _bernstein(mean: Floats, variance: Floats, above: Floats) -> Floats:
    """Bound Pr[B <= -above], where `above` + mean is how far below the mean that is."""
    reach = np.maximum(0.0, mean + above)
    return np.exp(-(reach**2) / (2.001 * (variance + reach / 3)))


@dataclass(frozen=True)
class AllPopulations:
    """Ends of delta over all populations and both directions, for reports of two symbols.

    Args:
        bit: the extreme chances.
        answers: n, >= 1.
    """

    bit: Bit
    answers: int

    @cached_property
    def _directions(self) -> tuple[BitBatch, ...]:
        bit, n = self.bit, self.answers
        turned = Bit(bit.denominator - bit.low, bit.denominator - bit.high, bit.denominator)
        return tuple(BitBatch(each, n) for each in ({bit: 0, turned: 0}))

    def lower(self, ratio: float, tried: Ints) -> tuple[float, int]:
        """Bound the worst delta at every e^epsilon <= `ratio` from below.

        Args:
            ratio: lambda.
            tried: values of k.

        Returns:
            The end, and the k of the population that attains it.
        """
        n = np.full(len(tried), self.answers)
        found = [each.values(ratio, n, tried, -1) for each in self._directions]
        best = max(found, key=lambda values: float(values.max()))
        at = int(best.argmax())
        turned = best is not found[0]
        return float(best[at]), int(self.answers - 1 - tried[at] if turned else tried[at])

    def grid(self, first: int, last: int) -> Ints:
        """Populations to try: all of a small batch, else evenly from `first` to `last`."""
        if self.answers <= CONVOLVED:
            return np.arange(self.answers)
        return np.unique(np.linspace(first, last, _CELLS + 1).round().astype(np.int64))

    def upper(self, ratio: float, bound: float) -> float | None:
        """Bound the worst delta at every e^epsilon >= `ratio` from above.

        Returns:
            An end that is at most `bound`; None: some population passes it, or the cells that show
            that no population does are too many.
        """
        found = [self._covered(batch, ratio, bound) for batch in self._directions]
        return None if None in found else max(value for value in found if value is not None)

    def _covered(self, batch: BitBatch, ratio: float, bound: float) -> float | None:
        """Halve cells k0..k0 + w until D(n - w, k0) is at most `bound` for each."""
        n = self.answers
        if n <= CONVOLVED:
            every = np.arange(n)
            worst = float(batch.values(ratio, np.full(n, n), every, 1).max())
            return worst if worst <= bound else None
        edges = np.linspace(0, n, _CELLS + 1).round().astype(np.int64)
        first, wide = edges[:-1], np.diff(edges) - 1
        worst, tried = 0.0, 0
        while len(first):
            tried += len(first)
            if tried > _MOST:
                return None
            values = batch.values(ratio, n - wide, first, 1)
            above = values > bound
            worst = max(worst, float(values[~above].max(initial=0.0)))
            first, wide = first[above], wide[above]
            if (wide == 0).any():
                return None
            half = wide // 2  # k0..k0 + half, and the rest
            first = np.concatenate((first, first + half + 1))
            wide = np.concatenate((half, wide - half - 1))
        return worst
