"""The Laplace and the Gaussian mechanism on whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, expm1, log, log1p, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Concentrated
from askance_aggregator.numbers import Rational, rational, read_epsilon, read_probability
from askance_aggregator.oracles.laplace import Laplace, check_answers
from askance_aggregator.sampling import MAX_VARIANCE, Words, discrete_gaussian
from askance_client.errors import InvalidParameter
from askance_client.printable import value_text
from askance_papers.curator.mechanisms.grid import l1_in_steps, l2_squared_in_steps, read_step
from askance_papers.curator.mechanisms.release import Additive, Calibration, Release, release

_OUTWARD = 1e-9  # relative: more than the errors of the floats in a quantile


def laplace(
    answers: object,
    *,
    sensitivity: Rational,
    epsilon: Rational,
    words: Words,
    step: Rational = 1,
    rounded: int = 0,
) -> Release:
    """Release a number or a vector of numbers of stated L1 sensitivity.

    Privacy: epsilon-DP, if the answer as it is handed over (floats included, with whatever their
    summation has rounded) has the stated sensitivity. `sums` and `means` need no such trust: they
    sum whole numbers.

    Args:
      answers: a number or shape (answers,): integers, floats or Fractions.
      sensitivity: the most that replacing one record moves the entries, in L1.
      epsilon: nats.
      words: source of random words.
      step: the granularity; the answer is rounded onto its multiples before the draw.
      rounded: how many entries one record may change that do not lie on the grid by themselves; 0
        (the default): all lie on it, which is checked. The noise pays for it (see `grid`).

    Raises:
      InvalidParameter: a number outside these ranges.
      InvalidRecord: an answer that is none, or off the grid. Nothing has been drawn.
    """
    budget, grain = read_epsilon(epsilon), read_step(step)
    l1 = l1_in_steps(rational(sensitivity, "sensitivity"), grain, rounded)
    return release(answers, Laplace(budget, l1), grain, rounded, words)


def laplace_at(epsilon: Rational) -> Calibration:
    """Laplace mechanisms of this epsilon, whatever the sensitivity."""
    budget = read_epsilon(epsilon)

    def calibrated(l1: int, l2_squared: int) -> Additive:
        return Laplace(budget, l1)

    return calibrated


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Adds to each entry an independent k with probability proportional to e^(-k^2 / (2 variance)).

    Privacy: rho-zCDP with rho = L2^2 / (2 variance).
    Utility: unbiased; the variance is at most `variance`.

    Args:
      rho: above 0.
      squared: how far the answer's steps move at most in L2, squared; 1 or more.

    Raises:
      InvalidParameter: the variance would be above 2^80: a coarser step is needed.

    Source: Canonne, Kamath, Steinke (2020), Theorem 4 (and its extension to vectors).
    """

    rho: Fraction
    squared: int

    def __post_init__(self) -> None:
        if self.rho <= 0 or self.squared < 1:
            raise InvalidParameter("Gaussian: expected rho above 0 and sensitivity of 1 or more")
        if self.variance > MAX_VARIANCE:
            raise InvalidParameter("step: expected one for which the variance is at most 2^80")

    @property
    def variance(self) -> Fraction:
        """In steps, squared."""
        return self.squared / (2 * self.rho)

    @property
    def event(self) -> Concentrated:
        """Cost of one release."""
        return Concentrated(self.rho)

    def draws(self, words: Words, count: int) -> NDArray[np.int64]:
        """`count` independent draws, exact."""
        return discrete_gaussian(words, self.variance, count)

    def half_width(self, confidence: Rational, answers: int = 1) -> int:
        """A t for which P[no |k| of `answers` draws > t] >= confidence, at most 2 too great."""
        # P[k >= m] <= P[N >= m - 1] for the continuous N of the same variance (Canonne, Kamath,
        # Steinke, Proposition 25), so t >= sd z will do, z the two-sided normal quantile.
        wanted = read_probability(confidence, "confidence")
        check_answers(answers)
        # 1 - confidence^(1 / answers), also where that is next to nothing.
        logarithm = log1p(float(wanted - 1)) if wanted > Fraction(1, 2) else log(wanted)
        tail = -expm1(logarithm / answers) * (1 - _OUTWARD)
        quantile = -NormalDist().inv_cdf(tail / 2)
        return ceil(sqrt(float(self.variance)) * quantile * (1 + _OUTWARD))


def gaussian(
    answers: object,
    *,
    squared: Rational,
    rho: Rational,
    words: Words,
    step: Rational = 1,
    rounded: int = 0,
) -> Release:
    """Release a number or a vector of numbers of stated L2 sensitivity.

    Privacy: rho-zCDP; what is trusted is what `laplace` trusts.

    `squared` is the most that replacing one record moves the entries, in L2, squared (2 for a
    histogram); `rho` is above 0. The other arguments are as of `laplace`.

    Raises:
      InvalidParameter, InvalidRecord: as of `laplace`. Nothing has been drawn.
    """
    budget, grain = read_rho(rho), read_step(step)
    l2_squared = l2_squared_in_steps(rational(squared, "squared"), grain, rounded)
    return release(answers, Gaussian(budget, l2_squared), grain, rounded, words)


def gaussian_at(rho: Rational) -> Calibration:
    """Gaussian mechanisms of this rho, whatever the sensitivity."""
    budget = read_rho(rho)

    def calibrated(l1: int, l2_squared: int) -> Additive:
        return Gaussian(budget, l2_squared)

    return calibrated


def read_rho(value: Rational) -> Fraction:
    """A zCDP budget."""
    rho = rational(value, "rho")
    if rho <= 0:
        raise InvalidParameter(f"rho: expected a number above 0, got {value_text(value)}")
    return rho
