"""Every query answered by itself, with Laplace or Gaussian noise; and a fit to such answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from askance_aggregator.composition import Concentrated, Pure
from askance_aggregator.numbers import Rational, read_epsilon, read_probability
from askance_aggregator.sampling import Words, discrete_gaussian, discrete_laplace
from askance_papers.curator.synopsis.accounting import concentrated_within, per_release_epsilon
from askance_papers.curator.synopsis.fitting import WholeFamily, mirror_descent
from askance_papers.curator.synopsis.queries import QueryFamily, family_squared_sensitivity
from askance_papers.curator.synopsis.synopses import Answered, Distribution
from askance_papers.curator.synopsis.universe import Histogram

_STEPS = 300


def laplace_by_sums(
    histogram: Histogram, family: QueryFamily, epsilon: Rational, words: Words
) -> Answered:
    """Laplace noise, epsilon / |Q| a query.

    Privacy: epsilon-DP, by sums.
    Utility: errors of scale |Q| / (epsilon n), a largest one ln |Q| times that.
    Raises: InvalidParameter: epsilon out of range, or another universe; nothing is drawn.
    """
    each = read_epsilon(epsilon) / family.size
    return _laplace("laplace (sums)", histogram, family, each, words)


def laplace_by_theorem(
    histogram: Histogram, family: QueryFamily, epsilon: Rational, delta: Rational, words: Words
) -> Answered:
    """Laplace noise, at what Theorem III.3 allows a query.

    Privacy: (epsilon, delta)-DP, by DRV10 Theorem III.3.
    Utility: errors of scale about sqrt(2 |Q| ln(1/delta)) / (epsilon n).
    Raises: InvalidParameter: epsilon or delta out of range, or another universe; nothing is drawn.
    """
    each = per_release_epsilon(read_epsilon(epsilon), read_probability(delta, "delta"), family.size)
    return _laplace("laplace (III.3)", histogram, family, each, words)


def gaussian(
    histogram: Histogram, family: QueryFamily, epsilon: Rational, delta: Rational, words: Words
) -> Answered:
    """Gaussian noise for the L2 sensitivity of the whole family.

    Privacy: rho-zCDP for the rho that implies (epsilon, delta)-DP.
    Utility: standard deviation D / sqrt(2 rho) / n, D^2 the family's squared sensitivity.
    Raises: InvalidParameter: epsilon or delta out of range, or another universe; nothing is drawn.
    """
    noisy, rho = gaussian_answers(histogram, family, epsilon, delta, words)
    return Answered("gaussian", np.clip(noisy, 0.0, 1.0), (Concentrated(rho),), None)


def gaussian_answers(
    histogram: Histogram, family: QueryFamily, epsilon: Rational, delta: Rational, words: Words
) -> tuple[NDArray[np.float64], Fraction]:
    """All answers with Gaussian noise, as they were drawn, and the rho that they cost."""
    rho = concentrated_within(read_epsilon(epsilon), read_probability(delta, "delta"))
    truth = family.counts(histogram)
    squared = max(family_squared_sensitivity(family), 1)
    drawn = discrete_gaussian(words, squared / (2 * rho), family.size)
    return (truth + drawn) / (histogram.n * family.scale), rho


def _laplace(
    method: str, histogram: Histogram, family: QueryFamily, each: Fraction, words: Words
) -> Answered:
    truth = family.counts(histogram)
    drawn = discrete_laplace(words, family.scale / each, family.size)
    noisy = (truth + drawn) / (histogram.n * family.scale)
    return Answered(method, np.clip(noisy, 0.0, 1.0), (Pure(each),) * family.size, None)


def gaussian_fit(
    histogram: Histogram, family: QueryFamily, epsilon: Rational, delta: Rational, words: Words
) -> Answered:
    """Answer every query with Gaussian noise and fit a distribution by multiplicative weights.

    Privacy: that of the Gaussian answers: rho-zCDP for the rho that implies (epsilon, delta)-DP.
      The fit sees nothing else.
    Utility: the answers of a distribution agree with each other as those of data do, which takes
      most of the noise away where there are more queries than the data have freedom. Of all methods
      here it has the least error on 3-way marginals over 12 bits, boosting included.
    Raises: InvalidParameter: epsilon or delta out of range, or another universe; nothing is drawn.
    """
    noisy, rho = gaussian_answers(histogram, family, epsilon, delta, words)
    start = Distribution.uniform(family.universe)
    weights = mirror_descent(WholeFamily(family), noisy, start.weights, _STEPS)
    synopsis = Distribution(family.universe, weights)
    return Answered("gaussian + fit", synopsis.answers(family), (Concentrated(rho),), synopsis)
