"""Sizes for the sides of levels on which a value, or sums of shares, lie.

A search for a quantile asks on which side of a level the share of users below a threshold is, and
any answer is right where that share is nearer to the level than tau. So each sign fails to one side
only, and it fails most often where the share is exactly tau away: the law of a report is known
there. Let m be the question's tau, q a level and P the share (of a number: its value).

**Two kinds of report** (a predicate, a number that is rounded at random onto two ends, cells in
order by k-ary response): a report is on the first side with the chance p(P) = c + g P, g > 0, and
the estimate of P is below q if and only if fewer than n p(q) of n reports are. For P <= q - m

    P[X >= n p(q)] <= I_s(n t, n (1 - t) + 1)   with t = p(q), s = p(q - m),

since X grows with P; the right side falls with n (docs/math/cells.md, section 2). P >= q + m is the
same for n - X.

**Three kinds** (k-ary response with a cell of users without a value): with weights 1 - q, -q and 0
for the first side, the other one and none, the mean of W over reports is K + g G_hat for a constant
K, and G = P_t - q s <= -m. The chance of each kind is affine in G and in the share u of users
without a value, and E[e^(aW)] grows with G, so that it is at most its greater value at the ends of
u, 0 and 1 - present, with G = -m. Chernoff's bound takes the greater one, and the factor before it
(`estimation.landing`) the least deviation of the two tilted laws: a mixture varies at least as much
as one of its parts. Both fall with n. G >= m is the same for -W.

The conclusion is wrong only if one of `Crossing.signs` signs is, each with a chance of at most the
greatest of these bounds over thresholds, levels and sides. As every bound falls with n, a size is
enough at every larger number, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import least_whole
from askance_aggregator.estimation import relative_landing
from askance_aggregator.learners import Crossing
from askance_aggregator.planning.tails import Failure, Reals, Tail, least_tau
from askance_client.errors import InvalidParameter

_NEARLY = 1 - 1e-12  # of tau: rounding hides no population that is just so far from a level
_UPWARD = 1 + 1e-8  # more than the relative error of the special functions and of rounding
_STEEPEST = 60.0  # tilts beyond it, a weight's range being 1, are not looked at
_SEARCH_STEPS = 40  # each leaves .618 of the interval
_GOLDEN = (sqrt(5) - 1) / 2
_TINY = 1e-300
_FINE_TAU = 1e-4


@dataclass(frozen=True, slots=True)
class Crossed(Tail):
    """The tail of a `Crossing`, of one coin or of k-ary response.

    Its `beta` is that of a value among `decision.values`: the conclusion is wrong with a chance of
    at most as many times beta.

    Args:
        own: the chance of a cell's report from a user in it; of a value, that of the coin's second
            side at the end of the value's range.
        other: from a user elsewhere; of a value, that of the second side at its start.
        low: start of the value's range, 0 for shares.
        spread: length of that range, 1 for shares.
        present: the promised share of users who have a value.
    """

    decision: Crossing
    own: float
    other: float
    low: float = 0.0
    spread: float = 1.0
    present: float = 1.0

    def exponent(self, tau: float) -> float:
        """Return Hoeffding's exponent, which no sign falls short of."""
        return 2 * (tau * self.gap) ** 2

    def failure(self, tau: float) -> Failure:
        """Bound the chance that a sign is wrong, whichever it is."""
        return _signs(self, tau)

    def least_variance(self) -> float:
        """Return 0, or infinity for sums of shares: no interval of a share ends them early."""
        return 0.0 if self.decision.values == 1 else inf

    def users(self, tau: float, beta: float) -> int:
        """Return the least number of users that is shown to be enough, as is every larger one."""
        low, high = 0, max(1, ceil(log(2 / self._chance(beta)) / self.exponent(tau)))
        while not self._surely_enough(high, tau, beta):
            low, high = high, 2 * high
        return least_whole(lambda users: self._surely_enough(users, tau, beta), low, high)

    def tolerance(self, users: int, beta: float) -> float:
        """Compute approximately the least tau for which `users` are enough, rounded upward."""
        if users < 1:
            raise InvalidParameter(f"a tolerance needs at least one user, found {users}")
        high = self.spread
        if not self._surely_enough(users, high, beta):
            return high
        return least_tau(lambda tau: self._surely_enough(users, tau, beta), 0.0, high, _FINE_TAU)

    def _surely_enough(self, users: int, tau: float, beta: float) -> bool:
        return self.failure(tau)(users) * _UPWARD <= self._chance(beta)

    def _chance(self, beta: float) -> float:
        """Return the chance with which a sign may be wrong."""
        return beta * self.decision.values / self.decision.signs

    @property
    def gap(self) -> float:
        """Change of a chance that a change of the value by 1 makes."""
        return (self.own - self.other) / self.spread


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Bounds of sums of three kinds of term: exponents and the factors before them."""

    rates: Reals
    landings: Reals

    def chances(self, users: float) -> Reals:
        """Return the bound of each sum."""
        before = np.minimum(self.landings / sqrt(users), 1.0)
        return np.asarray(before * np.exp(-users * self.rates))


def _coins(coins: Reals, users: float) -> Reals:
    """Return I_s(n t, n (1 - t) + 1) for each coin; they have shape (signs, 2), of s and t."""
    from askance_aggregator.special_functions import betainc

    s, t = coins.T
    return np.asarray(betainc(users * t, users * (1 - t) + 1, s))


@lru_cache(maxsize=256)
def _signs(tail: Crossed, tau: float) -> Failure:
    """Return the greatest bound of a sign by the number of users."""
    decision, gap = tail.decision, tail.gap
    first = np.arange(1, decision.cells) if decision.values > 1 else np.array([1])
    levels = np.array([float(level) for level in decision.levels])
    if decision.missing:
        sums = _sums(tail, levels, first, tau)
        return lambda users: float(max(sums.chances(users), default=0.0))
    at = (tail.other * first + gap * (levels - tail.low)[:, None]).ravel()
    room = np.repeat(levels - tail.low, len(first))
    reached = _NEARLY * tau
    below = np.stack((at - gap * tau, at))[:, room >= reached]
    above = np.stack((1 - at - gap * tau, 1 - at))[:, tail.spread - room >= reached]
    coins = np.maximum(np.concatenate((below, above), axis=1).T, 0.0)
    return lambda users: float(max(_coins(coins, users), default=0.0))


def _sums(tail: Crossed, levels: Reals, first: NDArray[np.int64], tau: float) -> _Sums:
    """Bound all wrong signs where a cell has the users without a value."""
    # G is -tau and the sign above 0 (side -1), or G is tau and the sign below 0 (side 1), at every
    # level and threshold that a population can be so far from.
    cells = tail.decision.cells
    laws, weights, constants = [], [], []
    for level, side in product(levels.tolist(), (-1, 1)):
        room = level if side < 0 else 1 - level
        if room < _NEARLY * tau:
            continue
        ends = []
        for absent in (0.0, min(1 - tail.present, max(1 - tau / room, 0.0))):
            before = level * (1 - absent) + side * tau
            truth = tail.gap * np.array([before, 1 - absent - before, absent])
            kinds = np.stack((first, cells - first, np.ones_like(first)), axis=1)
            ends.append(tail.other * kinds + truth)
        laws.append(np.stack(ends, axis=1))
        weights += [-side * np.array([1 - level, -level, 0.0])] * len(first)
        constants.append(-side * tail.other * (first * (1 - level) - (cells - first) * level))
    if not laws:
        return _Sums(np.zeros(0), np.zeros(0))
    return _bounded(np.concatenate(laws), np.array(weights), np.concatenate(constants))


def _bounded(laws: Reals, weights: Reals, at: Reals) -> _Sums:
    """Bound P[mean of the weights >= at] for every mixture of two laws."""
    # Shapes: laws (sums, 2, kinds), weights (sums, kinds), at (sums,). Any tilt gives a bound.

    def exponents(tilts: Reals) -> Reals:
        powers = np.exp(tilts[:, None] * (weights - at[:, None]))
        return np.asarray(np.log(np.einsum("sek,sk->se", laws, powers)).max(axis=1))

    low, high = np.zeros(len(at)), np.full(len(at), _STEEPEST)
    for _ in range(_SEARCH_STEPS):
        one, two = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        left = exponents(one) <= exponents(two)
        low, high = np.where(left, low, one), np.where(left, two, high)
    tilts = (low + high) / 2
    tilted = laws * np.exp(tilts[:, None] * weights)[:, None]
    tilted /= tilted.sum(axis=2, keepdims=True)
    means = np.einsum("sek,sk->se", tilted, weights)
    variances = (np.einsum("sek,sk->se", tilted, weights**2) - means**2).min(axis=1)
    deviations = np.sqrt(np.maximum(variances, _TINY))
    return _Sums(
        np.maximum(-exponents(tilts), 0.0), relative_landing(tilts, deviations, np.ones(len(at)))
    )
