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

from askance_aggregator.amplification.sums import UNDERFLOW, UNIT, Floats
from askance_aggregator.families.comparisons import TwoSymbols

Ints = NDArray[np.int64]

CONVOLVED = 192  # answers up to which all populations are convolved: 7 million products
_PERIOD = 18.0  # deviations per period
_NODES = 64  # of a period, at least
_ROUND = 3  # values of c tried on each side of the estimate
_OFFSETS = np.arange(-_ROUND - 1, _ROUND + 1)
_ZERO: Floats = np.zeros((1, 1))
_CELLS = 40  # of the populations, at first
_MOST = 6_000  # cells that are tried before an end is given up


@dataclass(frozen=True)
class BitBatch:
    """n answers of which the target's is one: ends of D(n, k), in one direction of the pair."""

    bit: TwoSymbols
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
            found = self._convolved(ratio, gain, sign)[k]
        else:
            found = _integrated(high, low, ratio, gain, n, k, sign)
        return np.clip(found + (UNDERFLOW if sign > 0 else 0.0), 0.0, 1.0)

    @cached_property
    def _laws(self) -> tuple[Floats, Floats]:
        """Chances of B = c and of B >= c: row k, column c = 0..n - 1; each to some 8 n units."""
        n, whole = self.answers, self.bit.denominator
        high, low = (
            binomials(mass / whole, (whole - mass) / whole, n)
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
        best: Floats = np.maximum(each.max(axis=1), 0.0)
        return best


def binomials(chance: float, complement: float, n: int) -> Floats:
    """Chances of k draws: row k, column c, for k < n."""
    rows = np.zeros((n, n))
    rows[0, 0] = 1.0
    for k in range(1, n):
        rows[k] = rows[k - 1] * complement
        rows[k, 1:] += rows[k - 1, :-1] * chance
    return rows


@dataclass(frozen=True)
class _Circle:
    """Law of B for many cells, tilted by e^t, by trapezoidal sums over a circle of radius e^t."""

    # Shapes are (cells, 1), or (cells, 2 _ROUND + 2) for the values c = centre + `_OFFSETS`.
    #
    # tilt: t.
    # centre: where f is greatest, nearly.
    # period: nodes of the circle.
    # mean: of B, and `plain` its variance, not tilted.
    # scale: ln of E e^(t (B - centre)), and `scale_off` a bound of its error.
    # equal: Pr[B = c] e^(t (c - centre)) / scale; off by `equal_off`.
    # tail: sum over d >= c of Pr[B = d] e^(t (c - centre)) / scale, with what the circle adds at
    # c - period and so on, where all of Pr[B >= c] is 1; off by `tail_off`.

    tilt: Floats
    centre: Floats
    period: Floats
    mean: Floats
    plain: Floats
    scale: Floats
    scale_off: Floats
    equal: Floats
    equal_off: Floats
    tail: Floats
    tail_off: Floats

    @classmethod
    def of(cls, high: float, low: float, best: float, n: Ints, k: Ints) -> _Circle:
        """Sum over the circle for n - 1 others, k of them at `high`."""
        # high: the greatest chance.
        # low: the least.
        # best: ln of Pr[B = c - 1] / Pr[B = c] where f is greatest.
        # n: answers per cell.
        # k: others at the greatest chance.
        counts = (k[:, None].astype(np.float64), (n - 1 - k)[:, None].astype(np.float64))
        levels = (high, low)
        mean = sum((count * each for count, each in zip(counts, levels, strict=True)), _ZERO)
        plain = sum((m * p * (1 - p) for m, p in zip(counts, levels, strict=True)), _ZERO)
        tilt = np.maximum(best, 1 / np.sqrt(plain + 1))
        raised = np.expm1(tilt)
        chances = [each * np.exp(tilt) / (1 + each * raised) for each in levels]
        moved = sum((m * p for m, p in zip(counts, chances, strict=True)), _ZERO)
        variance = sum((m * p * (1 - p) for m, p in zip(counts, chances, strict=True)), _ZERO)
        centre = np.clip(np.rint(moved + 0.5 + variance * (best - tilt)), 1, n[:, None])
        period = np.maximum(_NODES, np.ceil(_PERIOD * np.sqrt(variance)))
        index = np.arange(_NODES // 2 + 1)
        theta = 2 * np.pi * index / period
        # Each node stands for its conjugate too, but 0 and, where the circle is whole, its last.
        weight = np.where((index == 0) | (2 * index == period), 1.0, 2.0) / period
        power, size, off = _powers(counts, chances, theta, centre, variance)
        # Nodes that are left out: the modulus falls up to pi.
        left = np.maximum(0.0, period - _NODES) / period * (size + off)[:, -1:]
        # Bound of what a sum has beside its value: at c + period, and c - period but for a tail.
        reach = np.maximum(0.0, period - np.abs(centre - moved) - _ROUND - 2)
        beyond = left + 2 * np.exp(-(reach**2) / (2.001 * (variance + reach / 3)))

        shifted = power[:, None, :] * np.exp(-1j * theta[:, None, :] * _OFFSETS[:, None])
        less, sine = -np.expm1(-tilt), np.sin(theta / 2)
        pole = less + np.exp(-tilt) * (2 * sine**2 + 1j * np.sin(theta))  # 1 - e^-(t + i theta)
        tail = ((shifted / pole[:, None, :]).real * weight[:, None, :]).sum(axis=2)
        heights = [m * np.log1p(p * raised) for m, p in zip(counts, levels, strict=True)]
        return cls(
            tilt,
            centre,
            period,
            mean,
            plain,
            heights[0] + heights[1] - tilt * centre,
            16 * UNIT * (heights[0] + heights[1] + tilt * centre + 1),
            (shifted.real * weight[:, None, :]).sum(axis=2),
            (weight * off).sum(axis=1, keepdims=True) + beyond,
            tail,
            (weight * off / np.abs(pole)).sum(axis=1, keepdims=True) + beyond / less,
        )


def _powers(
    counts: tuple[Floats, Floats],
    chances: list[Floats],
    theta: Floats,
    centre: Floats,
    variance: Floats,
) -> tuple[NDArray[np.complex128], Floats, Floats]:
    """E e^(i theta (B - centre)) under the tilted chances, its modulus, and bounds of its error."""
    log_power = np.zeros(theta.shape, np.complex128)
    wrong, loose = np.zeros(theta.shape), np.zeros(theta.shape)
    sine = np.sin(theta / 2)
    for count, each in zip(counts, chances, strict=True):
        square = -4 * each * (1 - each) * sine**2  # |1 + y|^2 - 1, y = each (e^(i theta) - 1)
        modulus = np.log1p(np.maximum(square, -1 + 1e-300)) / 2
        angle = np.arctan2(each * np.sin(theta), 1 - 2 * each * sine**2)
        log_power += count * (modulus + 1j * angle)
        # Relative where |1 + y| is above 1/2; else of a power of at most 1/2, absolutely.
        near = square > -0.75
        wrong += 128 * UNIT * count * np.where(near, each * theta, 0.0)
        loose += np.where(near, 0.0, 64 * UNIT)
    # The phase is the difference of two that are rounded beside themselves.
    wrong += 8 * UNIT * (np.abs(log_power.imag) + theta * centre + variance * theta**2 + 32)
    size = np.exp(log_power.real)
    return np.exp(log_power - 1j * theta * centre), size, size * wrong + loose


def _integrated(
    high: float, low: float, ratio: float, gain: float, n: Ints, k: Ints, sign: int
) -> Floats:
    """Ends of D(n, k): the greatest f(c) near the estimate of the best c."""
    less = ratio - 1  # exactly
    slope = gain + less
    law = _Circle.of(high, low, float(np.log1p(less / gain)), n, k)
    before, decay = (np.exp(-law.tilt * offsets) for offsets in (_OFFSETS[:-1], _OFFSETS[1:]))
    plus = gain * before * law.equal[:, :-1]
    minus = less * decay * law.tail[:, 1:]
    off = gain * before * law.equal_off + less * decay * law.tail_off
    off += 8 * UNIT * (np.abs(plus) + np.abs(minus))
    value = plus - minus + sign * off
    value *= np.exp(law.scale) * (1 + sign * np.sign(value) * np.expm1(2 * law.scale_off))
    # The tail's sum has e^(-t period) Pr[B >= c - period] and so on beside it: at most e^(...).
    wrap = np.exp(-law.tilt * law.period)
    wrap = wrap / (1 - wrap)
    value += less * wrap * (1 + sign * UNIT * (32 + 8 * law.tilt * law.period))
    if sign < 0:
        short = _bernstein(law.mean, law.plain, law.period - _ROUND - 1 - law.centre)
        value -= slope * wrap * short
    at = law.centre + _OFFSETS[1:]
    most = n[:, None]
    found: Floats = np.where((at >= 1) & (at <= most), value, -np.inf).max(axis=1)
    if sign < 0:
        return found
    # f rises before the first c and falls after the last, or the end is not certified.
    change = gain * before * law.equal[:, :-1] - slope * decay * law.equal[:, 1:]
    change_off = (gain * before + slope * decay) * (law.equal_off + 8 * UNIT)
    change_off += 4 * UNIT * (high + 2 * ratio * low) * (before + decay)
    rises = (change[:, 0] <= -change_off[:, 0]) | (at[:, 0] <= 1)
    falls = (change[:, -1] >= change_off[:, -1]) | (at[:, -1] >= most[:, 0])
    return np.where(rises & falls, found, 1.0)


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

    bit: TwoSymbols
    answers: int

    @cached_property
    def _directions(self) -> tuple[BitBatch, ...]:
        bit, n = self.bit, self.answers
        turned = TwoSymbols(bit.denominator - bit.low, bit.denominator - bit.high, bit.denominator)
        return tuple(BitBatch(each, n) for each in ({bit: 0, turned: 0}))

    def lower(self, ratio: float, tried: Ints) -> tuple[float, int]:
        """Bound the worst delta at every e^epsilon <= `ratio` from below.

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
