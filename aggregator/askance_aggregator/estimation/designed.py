"""The answer of a table that was designed with its decode values, and how far it may be off.

Interval of a mean by betting: from a tally, and narrow where reports vary little.

A bet with the stake s against the mean m has, after n reports, the wealth prod (1 + s (W_i - m)).
If m is the mean of every W_i, the expected wealth is 1, whatever their law. So a mean is rejected
if a bet against it reaches a threshold, and the interval has the means that neither a positive nor
a negative stake rejects. A stake that is fixed in advance makes the wealth a function of the tally.

Source: Waudby-Smith and Ramdas 2024 (section 4, hedged capital). Deviations: stakes are fixed, so
that the order of reports plays no part; and the threshold is less than Markov's 1 / alpha
(`Bets.threshold`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.bisection import halved
from askance_aggregator.estimation.deviations import Deviations, deviations
from askance_aggregator.estimation.landing import relative_landing
from askance_aggregator.estimation.statistics import Decode, bias_of
from askance_aggregator.families import TableFamily
from askance_aggregator.families.family import check_counts
from askance_aggregator.learners import PriorMean, Question
from askance_aggregator.table_design import Prior, prior_at
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text

Ends = tuple[float, float]
_GENTLE = 0.25  # times the stake for the prior: for a population that varies more
_SHARES = (0.90, 0.07, 0.03)
"""Parts of alpha: bets with the stake for the prior, bets with the gentle stake, the worst law."""

Found = tuple[list[Fraction], tuple[NDArray[np.float64], NDArray[np.float64]]]


def designed(
    question: Question,
    table: TableFamily,
    decode: Decode,
    counts: Sequence[int] | NDArray[np.int64],
    n: int,
    alpha: float,
) -> Found:
    """The mean of the decode values, in real units, and the ends of its interval, not clipped.

    Utility: the value is off in expectation by `TableFamily.bias` half ranges at most, which is
    added to the interval on both sides. With probability 1 - alpha the interval contains what the
    question is for: the population's mean, or that of the users who answered (`SampleMean`). Its
    width is that of the worst population or sample (`deviations`), half of alpha a side; under a
    prior it is that of the reports at hand (`Bets`) wherever that is narrower for a population like
    the prior. The choice does not depend on the reports.
    """
    plain = check_counts(counts, n, table.randomizer.symbols, n)
    if sum(plain) != n:
        raise InvalidParameter(f"counts expect a tally of {n} reports, found one of {sum(plain)}")
    mean = sum((a * count for a, count in zip(decode, plain, strict=True)), Fraction()) / n
    law = deviations(question, table.randomizer, decode)
    ends = _worst(law, float(mean), n, alpha)
    expected = expected_moments(question, table, decode)
    if expected is not None:
        bets = Bets(np.array([float(value) for value in decode]), n)
        centre, variance = map(float, expected)
        own, gentle, rest = (share * alpha for share in _SHARES)
        stake = bets.stake(centre, variance, own)
        if 2 * bets.promised(stake, centre, variance, own) < ends[1] - ends[0]:
            tally = np.array(plain, dtype=np.float64)
            ends = _common(
                _worst(law, float(mean), n, rest),
                bets.interval(tally, stake, own),
                bets.interval(tally, _GENTLE * stake, gentle),
            )
    low, half = question.bounds[0], question.spread / 2
    value, bias = low + half * (mean + 1), float(bias_of(table, decode))
    down, up = float(mean) - ends[0] + bias, ends[1] - float(mean) + bias
    return [value], (
        np.array([float(value) - float(half) * down]),
        np.array([float(value) + float(half) * up]),
    )


def _worst(law: Deviations, mean: float, n: int, alpha: float) -> Ends:
    """Compute the interval by the law of the worst population or sample, half of alpha a side."""
    above, below = _half_widths(law, n, alpha / 2)
    return mean - above, mean + below


@lru_cache(maxsize=64)
def _half_widths(law: Deviations, n: int, alpha: float) -> tuple[float, float]:
    above, below = (side.half_width(n, alpha) * law.span for side in law[:2])
    return above, below


def _common(*intervals: Ends) -> Ends:
    """Intersect intervals; each contains the mean of the reports."""
    lows, highs = zip(*intervals, strict=True)
    return max(lows), min(highs)


def expected_moments(
    question: Question, table: TableFamily, decode: Decode
) -> tuple[Fraction, Fraction] | None:
    """Return a decode value's mean and variance under the question's prior; None without one."""
    if not isinstance(question.aim, PriorMean):
        return None
    weights = Prior(prior_weights(question, table.randomizer.levels)).weights
    grid = table.moved_grid(decode)
    mean = sum((w * x for w, x in zip(weights, grid, strict=True)), Fraction())
    return mean, Prior(weights).figure(table.randomizer, decode) - mean * mean


def prior_weights(question: Question, levels: int) -> tuple[Fraction, ...]:
    """The question's prior, on levels; a question without one is refused."""
    return prior_at(prior_points(question), levels)


def prior_points(question: Question) -> list[tuple[Fraction, Fraction]]:
    """The points of the question's prior, on [-1, 1], with weights; refused if it has none."""
    if not isinstance(question.aim, PriorMean):
        raise InvalidParameter(
            f"a question expects a prior, got the aim {value_text(question.aim)}"
        )
    low, half = question.bounds[0], question.spread / 2
    return [((at - low) / half - 1, weight) for at, weight in question.aim.points]


Reals = NDArray[np.float64]

_MOST_STAKE = 0.9  # times the span: no report takes all of the wealth
_LEAST_STAKE = 1e-5  # times that one
_STAKES = 24  # number of stakes that are compared
_TILTS = 1 + np.concatenate([[0.0], np.geomspace(0.02, 60, 24)])[np.newaxis, :]
_EDGES = np.geomspace(1e-2, 100, 50)  # of n E[Y^2]: each interval between two has its bound
_HALVINGS = 40  # of a span of values: the end of an interval is exact to 1e-12 of it


@dataclass(frozen=True, eq=False, slots=True)
class Bets:
    """Bets on the mean of values that are drawn independently from one law, whichever it is.

    Args:
        values: values that a draw may have, shape (symbols,), not all equal.
    """

    values: Reals
    n: int

    def stake(self, mean: float, variance: float, alpha: float) -> float:
        """Return the stake with about the least `promised` half width."""
        most = _MOST_STAKE / float(np.ptp(self.values))
        stakes: list[float] = (most * np.geomspace(_LEAST_STAKE, 1.0, _STAKES)).tolist()
        return min(stakes, key=lambda s: self.promised(s, mean, variance, alpha))

    def promised(self, stake: float, mean: float, variance: float, alpha: float) -> float:
        """Approximate half the width of `interval` for a law with this mean and variance."""
        sides = (self.threshold(side, mean, alpha / 2) for side in (stake, -stake))
        return max(sides) / (self.n * stake) + stake * variance / 2

    def threshold(self, stake: float, mean: float, alpha: float) -> float:
        """Return b with P[sum of ln(1 + s (W - m)) >= b] <= alpha, for every law of mean m.

        The wealth of a draw, 1 + s (W - m) = e^Y, is also the density of another law Q. By
        Chernoff's bound with its prefactor (`relative_landing`), for every tilt t >= 1,

            P[sum >= b] <= M(t)^n e^(-t b) min(1, A / sqrt(n)),  M(t) = E[e^(tY)] = E_Q[e^((t-1)Y)].

        All factors are bounded by x = E_Q[Y^2]. Let f(y) = (e^y - 1 - y) / y^2, which increases, so
        that e^y <= 1 + y + y^2 f(c) up to y = c. As E_Q[e^(-Y)] = 1, 0 <= E_Q[Y] <= f(-min Y) x; so

            M(t) <= 1 + (t - 1) f(-min Y) x + (t - 1)^2 f((t - 1) max Y) x.

        The law tilted by t has the density e^((t-1)Y) / M(t) to Q, and so a variance of Y of at
        least e^((t-1) min Y) / M(t) times Q's, which is at least x - (f(-min Y) x)^2; its mean is
        between 0 and f(-min Y) x + x (e^((t-1) max Y) - 1) / max Y.

        x is not known. If it is small, a steep tilt makes the bound small; if large, the prefactor.
        So b is the greatest over x of what the best tilt needs; x is taken between `_EDGES`, with
        each part at its worse end.
        """
        least, most = np.sort(np.log1p(stake * (np.array([self._least, self._most]) - mean)))
        square = max(least * least, most * most)
        edges = _EDGES[self.n * square > _EDGES] / self.n
        low = np.concatenate([[0.0], edges])[:, np.newaxis]
        high = np.concatenate([edges, [square]])[:, np.newaxis]
        up, drift = _TILTS - 1, _curve(-least)
        moments = 1 + high * up * (drift + up * _curve(up * most))
        spread = np.minimum(low - (drift * low) ** 2, high - (drift * high) ** 2)
        deviation = np.sqrt(np.maximum(spread, 0.0) * np.exp(up * least) / moments)
        centre = high * (drift + np.expm1(up * most) / most)
        reach = np.minimum(np.maximum(most, centre - least), most - least)
        with np.errstate(divide="ignore"):
            landed = np.minimum(relative_landing(_TILTS, deviation, reach) / np.sqrt(self.n), 1.0)
        needed = (self.n * np.log(moments) + np.log(landed) - log(alpha)) / _TILTS
        return max(float(needed.min(axis=1).max()), 0.0)

    def interval(self, counts: Reals, stake: float, alpha: float) -> tuple[float, float]:
        """Return the least and the greatest mean that bets of this size do not reject."""
        # The stake is chosen before the draws. A chance of alpha / 2 is on each side.
        middle = float(counts @ self.values) / self.n
        low = self._end(counts, stake, alpha / 2, self._least, middle)
        return low, self._end(counts, -stake, alpha / 2, self._most, middle)

    @property
    def _least(self) -> float:
        return float(self.values.min())

    @property
    def _most(self) -> float:
        return float(self.values.max())

    def _end(self, counts: Reals, stake: float, alpha: float, far: float, near: float) -> float:
        """Bisect between a mean that the bet rejects, and one that it does not."""
        # Toward `far` the sum of ln(1 + s (W - m)) grows by at least n |s| / 2 per unit, and b by
        # far less.

        def rejects(mean: float) -> bool:
            log_wealth = float(counts @ np.log1p(stake * (self.values - mean)))
            return log_wealth >= self.threshold(stake, mean, alpha)

        if near == far or not rejects(far + (near - far) * 1e-9):
            return far  # a mean at the end itself needs every draw there
        return halved(lambda mean: not rejects(mean), far, near, _HALVINGS)[0]


def _curve(number: Reals | float) -> Reals:
    """Compute (e^y - 1 - y) / y^2, near 0 by its first terms."""
    y = np.asarray(number, dtype=np.float64)
    small = np.abs(y) < 1e-3
    away = np.where(small, 1.0, y)
    curve: Reals = np.where(small, 0.5 + y / 6 + y * y / 24, (np.expm1(away) - away) / away**2)
    return curve
