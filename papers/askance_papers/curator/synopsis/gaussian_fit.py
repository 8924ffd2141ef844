"""Gaussian answers to everything, and one distribution that fits them."""

from __future__ import annotations

from askance_aggregator.composition import Concentrated
from askance_aggregator.numbers import Rational
from askance_aggregator.sampling import Words
from askance_papers.curator.synopsis.answered import Answered
from askance_papers.curator.synopsis.fitting import WholeFamily, mirror_descent
from askance_papers.curator.synopsis.independent import gaussian_answers
from askance_papers.curator.synopsis.queries import QueryFamily
from askance_papers.curator.synopsis.synopses import Distribution
from askance_papers.curator.synopsis.universe import Histogram

_STEPS = 300


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
