"""Gaussian answers to everything, and one distribution that fits them."""

from __future__ import annotations

from askance.aggregator.composition import Concentrated
from askance.aggregator.curator.chance import Words
from askance.aggregator.curator.synopsis.answered import Answered
from askance.aggregator.curator.synopsis.fitting import WholeFamily, mirror_descent
from askance.aggregator.curator.synopsis.independent import gaussian_answers
from askance.aggregator.curator.synopsis.queries import QueryFamily
from askance.aggregator.curator.synopsis.synopses import Distribution
from askance.aggregator.curator.synopsis.universe import Histogram
from askance.aggregator.learners.rationals import Rational

_STEPS = 300


def gaussian_fit(
    histogram: Histogram, family: QueryFamily, epsilon: Rational, delta: Rational, words: Words
) -> Answered:
    """Answers every query with Gaussian noise and fits a distribution by multiplicative weights.

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
