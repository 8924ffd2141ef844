"""Composition of curves: a dominating pair from a curve, its convolution and its Renyi divergence.

Statements and proofs: docs/math/two_guarantees.md, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import expm1, inf, log, nextafter, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.amplification.ends import Curve
from askance_aggregator.bisection import halved
from askance_aggregator.composition.events import outward, upward
from askance_client.errors import InvalidParameter

_Floats = NDArray[np.float64]
_PER_DEVIATION = 24  # lattice steps per standard deviation: a step's splits add 1/2,304 of variance
_MAX_LATTICE = 1 << 22
_CUT_SHARE = 1e-5  # of delta, for all losses that are raised to infinity
_HALVINGS = 60  # of a search for an epsilon
_SPLIT_ERROR = 2.0**-30  # of a mass, added to both neighbours; floats err by less than 2^-40 here


@dataclass(frozen=True, slots=True, eq=False)
class LossPair:
    """Law of the privacy loss of a pair that dominates a batch in both directions.

    Args:
        losses: rising, nats, rounded upward; shape (atoms,).
        masses: of each under the numerator's law, rounded upward; shape (atoms,).
    """

    losses: _Floats
    masses: _Floats

    def delta(self, epsilon: float) -> float:
        """Return an upper end of delta at an epsilon of 0 or more."""
        above = self.losses > epsilon
        gains = -np.expm1(epsilon - self.losses[above])
        return min(1.0, outward(float((self.masses[above] * gains).sum())))

    def epsilon(self, delta: Fraction) -> float:
        """Return an epsilon at which delta suffices; the largest loss if delta is 0."""
        if self.delta(0.0) <= delta:
            return 0.0
        most = max(float(self.losses[-1]), 0.0)
        return halved(lambda epsilon: self.delta(epsilon) <= delta, 0.0, most, _HALVINGS)[1]

    def cut(self, delta: Fraction) -> float:
        """Return the least loss above which lies a mass of at most delta."""
        beyond = np.concatenate((np.cumsum(self.masses[::-1])[::-1][1:], [0.0])) * (1 + 2.0**-40)
        return float(self.losses[int(np.argmax(beyond <= float(delta)))])

    def renyi(self, alpha: float, cut: float = inf) -> float:
        """Return an upper end of the Renyi divergence of an order above 1, of losses up to a cut.

        0 or more, and at most the largest loss that counts.
        """
        kept = self.losses <= cut
        losses, masses = self.losses[kept], self.masses[kept]
        greatest = float(losses[-1])
        with np.errstate(under="ignore"):
            scaled = float((masses * np.exp((alpha - 1) * (losses - greatest))).sum())
        found = greatest + log(scaled) / (alpha - 1) + 1e-14
        return max(0.0, min(greatest, found))


def pair_of(curve: Curve) -> LossPair:
    """Return the pair of the lower convex hull of a curve's points in e^epsilon."""
    # Q's masses are the hull's changes of slope, P's at gamma are gamma times these, and P's at
    # 1 / gamma are Q's at gamma, as the curve is of both directions. Exact, but for the rounding of
    # gamma and of the masses, which is upward.
    if len(curve.epsilons) < 2:
        raise InvalidParameter("a curve: expected two points or more, found one")
    points = [(Fraction(1), Fraction(curve.deltas[0]))] + [
        (Fraction(nextafter(float(np.exp(epsilon)) * (1 + 2.0**-51), inf)), Fraction(delta))
        for epsilon, delta in zip(curve.epsilons[1:], curve.deltas[1:], strict=True)
    ]
    hull = _lower_hull(points)
    (_, first), (gamma, second) = hull[0], hull[1]
    # delta(1) is at most what the slope (delta(1) - 1) / 2 at 1 leads to: else P would have less
    # than no mass at 0.
    steepest = (second + (gamma - 1) / 2) / (1 + (gamma - 1) / 2)
    if first > steepest:
        hull = _lower_hull([(Fraction(1), steepest), *hull[1:]])
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(hull)]
    slopes.append(Fraction(0))
    losses, masses = [], []
    for at in range(1, len(hull)):
        gamma, lower = hull[at][0], slopes[at] - slopes[at - 1]
        loss = log(gamma) * (1 + 2.0**-50)
        losses += [loss, -log(gamma) * (1 - 2.0**-50)]
        masses += [gamma * lower, lower]
    losses.append(0.0)
    masses.append(max(Fraction(0), 1 - sum(masses, Fraction(0))))
    order = np.argsort(losses)
    return LossPair(
        np.array(losses)[order], np.array([upward(Fraction(mass)) for mass in masses])[order]
    )


def composed_epsilon(steps: Sequence[tuple[LossPair, int]], delta: Fraction) -> float:
    """Bound epsilon of steps whose pairs are fixed before the first (Zhu, Dong, Wang 2022).

    Args:
        steps: pairs, each with how often it is taken.
        delta: above 0.

    Returns:
        At most the sum of the steps' largest losses.
    """
    # Losses are split onto a lattice so that both laws keep their masses, which is in convex order;
    # those above a cut count as infinite. Powers are taken by FFT of laws that are tilted towards
    # the answer, so that the transform's error is small beside delta; it is added.
    if not steps or delta <= 0 or any(count < 1 for _, count in steps):
        raise InvalidParameter("composition: expected steps, counts of 1 or more and a delta > 0")
    total = sum(count for _, count in steps)
    pure = outward(sum(count * float(pair.losses[-1]) for pair, count in steps))
    each = delta * Fraction(_CUT_SHARE) / total
    cuts = [max(pair.cut(each), 1e-9) for pair, _ in steps]
    variance = sum(
        count * float((pair.masses * np.clip(pair.losses, -cut, cut) ** 2).sum())
        for (pair, count), cut in zip(steps, cuts, strict=True)
    )
    span = 2 * sum(count * cut for (_, count), cut in zip(steps, cuts, strict=True))
    step = max(sqrt(variance / total) / _PER_DEVIATION, span / (_MAX_LATTICE - 4 * total))
    laws = [
        (_on_lattice(pair, cut, step), count)
        for (pair, count), cut in zip(steps, cuts, strict=True)
    ]
    infinite = float(delta * Fraction(_CUT_SHARE)) * (1 + 2.0**-40)
    length = 1 << int(sum(count * (len(law) - 1) for law, count in laws) + 1).bit_length()
    theta = _tilt(laws, step, float(delta))
    transform = np.ones(length // 2 + 1, np.complex128)
    scale, first = 0.0, 0
    for law, count in laws:
        tilted, exponent = _tilted(law, theta * step)
        scale += count * exponent
        first -= count * (len(law) // 2)
        transform *= np.fft.rfft(tilted, length) ** count
    masses = np.maximum(np.fft.irfft(transform, length), 0.0).astype(np.float64)
    losses = step * (first + np.arange(length, dtype=np.float64))
    error = (total + 3) * 8 * np.log2(length) * 2.0**-52  # in the 2-norm, of a law of norm <= 1
    return min(pure, _solve(losses, masses, error, scale, theta, float(delta) - infinite))


def _solve(
    losses: _Floats, masses: _Floats, error: float, scale: float, theta: float, delta: float
) -> float:
    """Return the least epsilon at which tilted masses, with their error, leave at most delta."""

    def enough(epsilon: float) -> bool:
        above = losses > epsilon
        with np.errstate(under="ignore"):
            # A weight above e^300 makes the error alone larger than any delta.
            weights = np.exp(np.minimum(scale - theta * losses[above], 300.0))
            weights *= -np.expm1(epsilon - losses[above])
            found = float((weights * masses[above]).sum()) + error * sqrt(
                float((weights * weights).sum())
            )
        return found * (1 + 1e-9) <= delta

    return outward(halved(enough, 0.0, float(losses[-1]), _HALVINGS)[1])


def _on_lattice(pair: LossPair, cut: float, step: float) -> _Floats:
    """Split losses up to the cut onto the multiples -half .. half of a step; less is raised."""
    half = int(np.ceil(cut / step)) + 1
    kept = pair.losses <= cut
    losses = np.maximum(pair.losses[kept], -cut)
    masses = pair.masses[kept]
    below = np.floor(losses / step).astype(np.int64)
    # Q's mass is split in proportion to the distances in e^loss, P's follows.
    share = np.clip(np.expm1(losses - below * step) / expm1(step), 0.0, 1.0)
    up = share * np.exp((below + 1) * step - losses)
    law = np.zeros(2 * half + 1)
    np.add.at(law, below + half, masses * (np.clip(1 - up, 0.0, 1.0) + _SPLIT_ERROR))
    np.add.at(law, below + half + 1, masses * (np.clip(up, 0.0, 1.0) + _SPLIT_ERROR))
    return law


def _tilt(laws: Sequence[tuple[_Floats, int]], step: float, delta: float) -> float:
    """Return the exponent with the least Chernoff bound of epsilon; any exponent is valid."""
    grid = np.geomspace(1e-3, 1e5, 97)
    best, found = inf, 0.0
    for theta in grid:
        exponent = sum(count * _tilted(law, float(theta) * step)[1] for law, count in laws)
        bound = (exponent - log(delta)) / theta
        if bound < best:
            best, found = bound, float(theta)
    return found


def _tilted(law: _Floats, slope: float) -> tuple[_Floats, float]:
    """Return a law on a lattice times e^(slope place), of sum 1, and the logarithm of its sum."""
    places = np.arange(len(law)) - len(law) // 2
    top = int(places[np.flatnonzero(law)[-1]])  # from there, so that nothing overflows
    with np.errstate(under="ignore"):
        tilted = law * np.exp(np.minimum(slope * (places - top), 0.0))
    weight = float(tilted.sum())
    return tilted / weight, log(weight) + slope * top


def _lower_hull(points: Sequence[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    """Return the corners of the lower convex hull of points with rising first coordinates."""
    hull: list[tuple[Fraction, Fraction]] = []
    for point in points:
        while len(hull) > 1 and _turns_down(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns_down(
    a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction], c: tuple[Fraction, Fraction]
) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) >= (c[1] - b[1]) * (b[0] - a[0])
