"""Certified ends of E(L_1 + ... + L_n)_+ / n, the delta of one comparison in a batch of n reports.

The L_i are independent, each (record - lambda other) / rest at a symbol with the chance `rest`, and
0 with what chance is left; lambda = e^epsilon. Small batches are enumerated. For others the sum is
smoothed by a Gaussian of deviation tau, which raises the expectation, and the expectation written
as an integral along a vertical line of the complex plane:

    E(S + tau N)_+ = 1/(2 pi) * integral of M(z)^n e^(tau^2 z^2 / 2) / z^2,  z = t + i theta,

M(z) = E e^(z L), t > 0. The trapezoidal sum of step 2 pi / P is that value plus e^(-t k P) times
E(S + tau N + k P)_+ for all k other than 0: positive terms, so that the sum is an upper end as it
is, and a lower end less their bound. The smoothing adds at most tau^2 times the density of
S + tau N at 0. Each rounding error is bounded beside the value that it is of, and added outward.

Source: docs/math/shuffled_batches.md sections 2 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, comb, e, exp, inf, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.families.comparisons import Comparison

Floats = NDArray[np.float64]

UNIT = 2.0**-52  # twice the greatest relative error of one operation
_FUNCTION = 8  # units: more than numpy's and libm's exp, log, sine and cosine are off

_ENUMERATED = 1 << 20  # outcomes of a batch that is listed one by one, times symbols: 8 MB
_SMALL = 64  # reports of such a batch; w^c / c! is then far from underflow
UNDERFLOW = 1e-200  # of delta: more than all terms lose that are below every float

_SMOOTHING = 0.01  # tau over the deviation of the tilted sum; it costs its square of epsilon
_ROUGH = 0.1  # the same for a quick end
_PERIOD = 18.0  # P in these deviations, at first
_CUT = 7.5  # theta tau at which the sum is cut off: e^(-28)
_LEAST_TILT = 1e-12
_HALVINGS = 14  # of a search for t over some 34 nats: any t is valid, a near one is quick
_LARGEST = 600.0  # exponents up to which e^x is a float, with a margin
_ALIASED = 1e-6  # share of the other terms of the trapezoidal sum that is borne
_BLOCK = 1 << 20  # sines at a time: 8 MB


@dataclass(frozen=True, slots=True)
class Law:
    """Law of L for each lambda: the symbols' two ratios and chances, each to half a unit.

    Args:
        record: Pr[symbol | the target's record] / Pr[symbol | others].
        other: the ratio at the record that it is compared with.
        chance: Pr[symbol | others], times the number of such symbols.
        idle: what chance is left.
    """

    record: Floats
    other: Floats
    chance: Floats
    idle: float

    @classmethod
    def of(cls, comparison: Comparison, less: Fraction = Fraction(0)) -> Law:
        """Read a comparison; symbols of no mass are left out."""
        atoms = [atom for atom in comparison.atoms if atom.rest]
        kept, unit = (1 - less).numerator, less.denominator
        whole = comparison.denominator * unit
        masses = [atom.rest * kept * atom.symbols for atom in atoms]
        return cls(
            np.array([atom.record * unit / (atom.rest * kept) for atom in atoms]),
            np.array([atom.other * unit / (atom.rest * kept) for atom in atoms]),
            np.array([mass / whole for mass in masses]),
            (whole - sum(masses)) / whole,
        )

    def values(self, ratio: float, sign: int) -> Floats:
        """L at each symbol for lambda = `ratio`, rounded upward (`sign` 1) or downward (-1)."""
        scaled = ratio * self.other
        return self.record - scaled + sign * 4 * UNIT * (self.record + scaled)


@dataclass(frozen=True)
class ReportSum:
    """n reports compared: `upper` and `lower` are ends of delta at a given e^epsilon.

    Args:
        law: of one report.
        answers: n, >= 1.
        kept: the records' masses are a device's up to a factor of this, at most 1, or its inverse
            (`Comparisons.bias`): the ends then give way (docs/math/shuffled_families.md section 2).
        lost: what the lower end gives up for that beside factors.
    """

    law: Law
    answers: int
    kept: float = 1.0
    lost: float = 0.0

    def upper(self, ratio: float, *, smoothing: float = _SMOOTHING) -> float:
        """Bound delta at every e^epsilon >= `ratio` from above."""
        if self.kept == 1:
            return min(1.0, self._end(ratio, 1, smoothing) + UNDERFLOW)
        found = self._end(ratio * self.kept**2 * (1 - 4 * UNIT), 1, smoothing)
        return min(1.0, found / self.kept * (1 + 4 * UNIT) + UNDERFLOW)

    def stays_within(self, ratio: float, delta: float) -> bool:
        """Return whether an upper end is at most `delta`; coarse ends are tried first."""
        return (
            self.ceiling(ratio) <= delta
            or self.upper(ratio, smoothing=_ROUGH) <= delta
            or self.upper(ratio) <= delta
        )

    def lower(self, ratio: float) -> float:
        """Bound delta at every e^epsilon <= `ratio` from below."""
        if self.kept == 1:
            return max(0.0, self._end(ratio, -1, _SMOOTHING) - self.lost)
        found = self._end(ratio / self.kept**2 * (1 + 4 * UNIT), -1, _SMOOTHING) - self.lost
        return max(0.0, found * self.kept * (1 - 4 * UNIT))

    def ceiling(self, ratio: float) -> float:
        """Bound delta at every e^epsilon >= `ratio` by M(t)^n / (e t n): quicker than `upper`."""
        values = self.law.values(ratio * self.kept**2 * (1 - 4 * UNIT), 1)
        if values.max() <= 0:
            return 0.0
        line = _Line.through(self.law.chance, values, self.answers, 0.0)
        height = exp(min(_LARGEST, line.log_mass(1)))
        found = height / (e * line.tilt * self.answers) / self.kept
        return min(1.0, found * (1 + 32 * UNIT) + UNDERFLOW)

    def _end(self, ratio: float, sign: int, smoothing: float) -> float:
        values = self.law.values(ratio, sign)
        if values.max() <= 0:
            return 0.0
        if self._outcomes is not None:
            return self._enumerated(values, sign)
        return self._integrated(values, sign, smoothing)

    @cached_property
    def _outcomes(self) -> tuple[Floats, Floats] | None:
        """Return counts of symbols, shape (outcomes, symbols), and chances; None: too many."""
        # A chance is a product of some 2 n + symbols positive floats, each to a unit.
        n, symbols = self.answers, len(self.law.chance) + 1
        if n > _SMALL or symbols * comb(n + symbols - 1, symbols - 1) > _ENUMERATED:
            return None
        steps = np.arange(1.0, n + 1)
        counts = np.zeros((1, 0))
        rest = np.array([n])
        weight = np.array([float(np.prod(steps))])
        for chance in self.law.chance:
            power = np.cumprod(np.concatenate(([1.0], chance / steps)))
            repeats = rest + 1
            at = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
            counts = np.column_stack((np.repeat(counts, repeats, axis=0), at))
            weight = np.repeat(weight, repeats) * power[at]
            rest = np.repeat(rest, repeats) - at
        power = np.cumprod(np.concatenate(([1.0], self.law.idle / steps)))
        return counts, weight * power[rest]

    def _enumerated(self, values: Floats, sign: int) -> float:
        assert self._outcomes is not None
        counts, chances = self._outcomes
        n, symbols = self.answers, len(values)
        sums = counts @ values + sign * UNIT * (symbols + 4) * (counts @ np.abs(values))
        total = float(np.maximum(sums, 0) @ chances) / n
        relative = UNIT * (6 * n + 4 * symbols + len(chances) + 8)
        return total * (1 + sign * relative)

    def _integrated(self, values: Floats, sign: int, smoothing: float) -> float:
        """Integrate along a line through the saddle point; a wider period if the first is short."""
        line = _Line.through(self.law.chance, values, self.answers, smoothing)
        for period in (_PERIOD, 2 * _PERIOD, 4 * _PERIOD):
            value, others = line.end(period * line.width, sign)
            if others <= _ALIASED * abs(value):
                break
        return value / self.answers * (1 + sign * 4 * UNIT)


@dataclass(frozen=True, slots=True)
class _Line:
    """The vertical line through t, and what the integrand is made of."""

    # chance: the symbols' chances.
    # values: L there, taken to be exact.
    # answers: n.
    # tilt: t.
    # tilted: chance e^(t value) / M(t).
    # spread: sum of chance |e^(t value) - 1|, over M(t).
    # height: ln M(t).
    # width: deviation of the tilted sum and of 1 / z^2 together.
    # smoothing: tau.

    chance: Floats
    values: Floats
    answers: int
    tilt: float
    tilted: Floats
    spread: float
    height: float
    width: float
    smoothing: float

    @classmethod
    def through(cls, chance: Floats, values: Floats, n: int, smoothing: float) -> _Line:
        """Find the saddle point of M(z)^n / z^2, n M'(t) / M(t) = 2 / t; near it is enough."""
        low, high = log(_LEAST_TILT), log(_LARGEST / float(np.abs(values).max()))
        _, high = halved(
            lambda t: _slope(chance, values, exp(t)) * n * exp(t) >= 2, low, high, _HALVINGS
        )
        line = cls.at(chance, values, n, exp(high), 0.0)
        return replace(line, smoothing=smoothing * line.width)

    @classmethod
    def at(cls, chance: Floats, values: Floats, n: int, tilt: float, smoothing: float) -> _Line:
        """Prepare the line through a tilt; `smoothing` is tau."""
        raised = chance * np.expm1(tilt * values)
        added = float(raised.sum())
        tilted = chance * np.exp(tilt * values) / (1 + added)
        mean = float(tilted @ values)
        variance = n * max(0.0, float(tilted @ values**2) - mean**2)
        return cls(
            chance,
            values,
            n,
            tilt,
            tilted,
            float(np.abs(raised).sum()) / (1 + added),
            log1p(added),
            sqrt(variance + 2 / tilt**2),
            smoothing,
        )

    def log_mass(self, sign: int) -> float:
        """Return n ln M(t) + tau^2 t^2 / 2, outward."""
        main = self.answers * self.height
        bend = (self.smoothing * self.tilt) ** 2 / 2
        error = UNIT * (self.answers * self.spread * self._weight + _FUNCTION * (abs(main) + bend))
        return main + bend + sign * error

    @property
    def _weight(self) -> float:
        """Units by which a sum over the symbols of tilted chances is off, relative to its terms."""
        return len(self.values) + 4 * _FUNCTION + 4 * self.tilt * float(np.abs(self.values).max())

    def end(self, period: float, sign: int) -> tuple[float, float]:
        """Return an end of E S_+, and the bound of what the trapezoidal sum has beside it."""
        tau, t = self.smoothing, self.tilt
        step = 2 * pi / period
        nodes = ceil(_CUT / (tau * step))
        theta: Floats = step * np.arange(nodes + 1, dtype=np.float64)
        power, error = self._powers(theta)
        pole = (1 + 1j * theta / t) ** 2
        each = np.full(nodes + 1, 2.0)
        each[0] = 1.0
        cut = 2 * exp(-((tau * theta[-1]) ** 2) / 2) / (step * tau**2 * theta[-1])
        size = each @ (np.abs(power) / np.abs(pole))
        off = (
            each @ (error / np.abs(pole)) + UNIT * (nodes + 32) * size + cut * (t / theta[-1]) ** 2
        )
        value = float(each @ (power / pole).real)
        scale = step / (2 * pi * t**2)
        upper = scale * (value + off) * exp(self.log_mass(1)) * (1 + 16 * UNIT)
        others = self._aliased(period, upper)
        if sign > 0:
            return upper, others
        density = float(each @ power.real)
        density_off = each @ error + UNIT * (nodes + 32) * (each @ np.abs(power)) + cut
        added = (tau * t) ** 2 * scale * (density + density_off) * exp(self.log_mass(1))
        lower = scale * (value - off) * exp(self.log_mass(-1)) * (1 - 16 * UNIT)
        return lower - others - added * (1 + 16 * UNIT), others

    def _powers(self, theta: Floats) -> tuple[NDArray[np.complex128], Floats]:
        """(M(t + i theta) / M(t))^n e^(- tau^2 theta^2 / 2 + i tau^2 t theta), and error bounds."""
        n, tau = self.answers, self.smoothing
        real, imaginary = np.empty(len(theta)), np.empty(len(theta))
        block = max(1, _BLOCK // len(self.values))
        for start in range(0, len(theta), block):
            part = slice(start, start + block)
            half = np.multiply.outer(theta[part], self.values / 2)
            sine = np.sin(half)
            real[part] = (sine * sine) @ (-2 * self.tilted)
            imaginary[part] = (sine * np.cos(half)) @ (2 * self.tilted)
        # |sin x| and 1 - cos x are at most |x| and 2 |x|: errors are relative to the sum of these.
        size = np.abs(theta) * float(self.tilted @ np.abs(self.values))
        wrong = UNIT * (self._weight * (1 + self.spread) + 64) * size
        square = 2 * real + real**2 + imaginary**2  # |1 + y|^2 - 1
        near = square > -0.75
        modulus = np.log(np.hypot(1 + real, imaginary) + 1e-300)
        modulus[near] = np.log1p(square[near]) / 2
        angle = np.arctan2(imaginary, 1 + real)
        damping = np.exp(-((tau * theta) ** 2) / 2)
        turn = tau**2 * self.tilt * theta
        power = np.exp(n * modulus + 1j * (n * angle + turn)) * damping
        wrong[~near] += 4 * UNIT
        length = np.exp(modulus)
        steep = np.where(near, modulus + wrong / length, np.log(length + wrong))
        error = 2 * n * wrong * np.exp((n - 1) * steep) * damping
        error += UNIT * _FUNCTION * (8 + turn + n * np.abs(modulus)) * np.abs(power)
        return power, error

    def _aliased(self, period: float, upper: float) -> float:
        """Bound the sum of e^(-t k P) E(S + tau N + k P)_+ over all k other than 0."""
        # For k > 0 the expectation is at most E(S + tau N)_+ + k P; for k < 0 it is at most M(s)^n
        # e^(tau^2 s^2 / 2 - s |k| P) / (e s), for each s > t.
        ratio = exp(-self.tilt * period)
        if ratio >= 0.5:
            return inf
        above = (upper + period / (1 - ratio)) * ratio / (1 - ratio)
        below = inf
        for steps in (3, 6, 9, 12):
            tilt = self.tilt + steps / self.width
            if tilt * float(np.abs(self.values).max()) > _LARGEST:
                continue
            line = _Line.at(self.chance, self.values, self.answers, tilt, self.smoothing)
            ratio = exp(-(tilt - self.tilt) * period)
            below = min(
                below, exp(min(_LARGEST, line.log_mass(1))) / (e * tilt) * ratio / (1 - ratio)
            )
        return (above + below) * (1 + 2.0**-30)


def _slope(chance: Floats, values: Floats, tilt: float) -> float:
    """M'(t) / M(t)."""
    raised = chance * np.exp(tilt * values)
    return float(raised @ values) / (1 + float((chance * np.expm1(tilt * values)).sum()))
