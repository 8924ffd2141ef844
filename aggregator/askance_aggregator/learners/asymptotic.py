"""Asymptotic statements: when the normal law is near enough, and what stands beside them.

An interval that holds for every number of users pays for the worst law. The normal law of a sum of
many reports gives narrower intervals and tests with more power. It is used where the reports
themselves show that it is near:

- what is divided by is `STANDS` standard errors or more from zero;
- the terms of the sum have E|a|^3 <= `MOST_SKEW` sigma^3 sqrt(n). By Berry and Esseen's theorem a
  chance is then off by less than .48 times that, and usually by much less.
- All users were asked at once: a study of waves ends when intervals are narrow, which the normal
  law of a sum does not take into account.

Elsewhere the statement for every number of users is made. It is kept beside an asymptotic one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import erfc, sqrt

from askance_aggregator.bisection import halved
from askance_aggregator.learners.hypotheses import JsonObject

STANDS = 5.0
"""Standard errors by which a number that is divided by is away from zero, at least."""

MOST_SKEW = 0.1
"""E|a|^3 / (sigma^3 sqrt(n)) of a sum of n terms a with mean zero and variance sigma^2, at most."""

POWER = 0.8
"""Chance with which a detectable effect is found."""

IN_WAVES = "users were asked in waves"
TOO_FEW = "single reports weigh too much for the normal law"

_BISECTIONS = 40
_LEAST_CHANCE = 1e-300  # a p-value is never 0


@dataclass(frozen=True, slots=True)
class ForEverySize(JsonObject):
    """Statement that holds for every number of users, beside an asymptotic one.

    Args:
        p_value: at most x with a chance of at most x; None: no test.
    """

    low: float
    high: float
    p_value: float | None


def chance_of(deviations: float) -> float:
    """Return the chance that a normal estimate is so many deviations away or more, on any side."""
    return max(erfc(abs(deviations) / sqrt(2)), _LEAST_CHANCE)


def quantile(chance: float) -> float:
    """Return the deviations that a normal estimate passes on one side with this chance."""
    from askance_aggregator.special_functions import ndtri

    return -float(ndtri(chance))


def detectable(deviation: float, alpha: float) -> float:
    """Return the effect that a test of level alpha finds with a chance of `POWER`.

    Args:
        deviation: standard deviation of the estimated effect, where there is none.
        alpha: of the test, both sides counted.
    """
    return deviation * (quantile(alpha / 2) + quantile(1 - POWER))


@lru_cache(maxsize=256)
def noncentrality(degrees: int, level: float, beta: float) -> float:
    """Return the noncentrality that a chi-square test of this level misses with chance beta."""
    from askance_aggregator.special_functions import chdtri, chndtr

    threshold = float(chdtri(degrees, level))

    def missed(distance: float) -> bool:
        return bool(chndtr(threshold, degrees, distance) > beta)

    low, high = 0.0, 1.0
    while missed(high):
        low, high = high, 2 * high
    return halved(lambda distance: not missed(distance), low, high, _BISECTIONS)[1]
